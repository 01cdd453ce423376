"""Consistency checks: settings that are valid one by one and contradict each other."""

import re
from collections.abc import Iterator
from ipaddress import ip_address
from itertools import combinations
from os.path import normpath
from pathlib import PurePath
from typing import Final

from forebay.core.errors import SettingsError
from forebay.core.events import DEFAULT_ORIGIN
from forebay.core.units import format_size
from forebay.settings.addresses import ListenAddress, host_of, port_of
from forebay.settings.model import ANONYMOUS_ID, OriginSettings, ServerSettings, Settings

_BUCKET_ENDPOINT: Final = re.compile(
    r"(?!s3\.).+\.(s3(?:-fips)?(?:\.dualstack)?(?:[.-][a-z]{2}(?:-[a-z]+)+-\d)?\.amazonaws\.com(?:\.cn)?"
    r"|oss-[a-z0-9-]+\.aliyuncs\.com)"
)
"""A bucket in front of an endpoint, as consoles show it. Names of VPC endpoints are others."""
NO_KEYS = (
    "at least one: [[auth.keys]] with id, secret_env and grants in the file, or FOREBAY_AUTH__KEYS in the environment; "
    'or --open (auth.mode = "open") to check nobody, on loopback only'
)


def inconsistencies(settings: Settings) -> Iterator[SettingsError]:
    """Each contradiction in these settings."""
    yield from _addresses(settings.server)
    yield from _tls(settings.server)
    yield from _server(settings.server)
    for where, origin in _named_origins(settings):
        yield from _origin(where, origin, settings.server)
    yield from _origins(settings)
    yield from _auth(settings)
    yield from _rules(settings)
    yield from _journal(settings)
    yield from _sizes(settings)


def _listeners(server: ServerSettings) -> Iterator[tuple[str, ListenAddress]]:
    yield "server.listen", server.listen
    if server.tls_listen is not None:
        yield "server.tls_listen", server.tls_listen


def _addresses(server: ServerSettings) -> Iterator[SettingsError]:
    named = list(_listeners(server))
    if server.admin is not None:
        named.append(("server.admin", server.admin))
    for (earlier, first), (later, second) in combinations(named, 2):
        if first.overlaps(second):
            yield SettingsError(later, str(second), f"another address than {earlier} ({first})")


def _tls(server: ServerSettings) -> Iterator[SettingsError]:
    files = {"server.tls_certificate": server.tls_certificate, "server.tls_key": server.tls_key}
    if server.tls_listen is not None:
        yield from (
            SettingsError(where, None, "the path of a PEM file, since server.tls_listen is given")
            for where, file in files.items()
            if file is None
        )
    elif any(files.values()):
        configured = " and ".join(where for where, file in files.items() if file is not None)
        yield SettingsError("server.tls_listen", None, f"host:port to serve TLS on, since {configured} is given")


def _server(server: ServerSettings) -> Iterator[SettingsError]:
    if server.admin is not None and not server.admin.is_loopback and server.admin_token is None:
        allowed = "a token in server.admin_token_env or server.admin_token_file, or an address of the loopback"
        yield SettingsError("server.admin", str(server.admin), allowed)
    if server.admin_token is not None and not _fits_a_header(server.admin_token.reveal()):
        allowed = "visible ASCII characters, with no space at either end: it comes in a header"
        yield SettingsError("server.admin_token", "***", allowed)
    if len({domain.lower().rstrip(".") for domain in server.domains}) < len(server.domains):
        yield SettingsError("server.domains", list(server.domains), "each domain once")
    for domain in server.domains:
        if _is_ip(domain):
            allowed = "names: an IP address has no subdomains, so it can't be used in virtual-hosted style"
            yield SettingsError("server.domains", domain, allowed)
    domains = {domain.lower().rstrip(".") for domain in server.domains}
    for host in server.cnames:
        if host in domains:
            allowed = "a host that is not in server.domains: under a domain itself, the bucket stands in the path"
            yield SettingsError("server.cnames", host, allowed)
        if _is_ip(host):
            allowed = "names: whoever connects to an address names the bucket in the path"
            yield SettingsError("server.cnames", host, allowed)


def _origin(where: str, origin: OriginSettings, server: ServerSettings) -> Iterator[SettingsError]:
    if origin.ca_file is not None and origin.endpoint.lower().startswith("http:"):
        yield SettingsError(f"{where}.ca_file", origin.ca_file, "only with an https:// endpoint")
    if origin.dialect == "oss":
        host = host_of(origin.endpoint)
        if _is_ip(host):
            yield SettingsError(f"{where}.endpoint", origin.endpoint, "a host name: OSS has buckets in front of it")
        if host.startswith("s3."):
            allowed = f"the endpoint of OSS's own protocol: {host.removeprefix('s3.')}"
            yield SettingsError(f"{where}.endpoint", origin.endpoint, allowed)
    if (of_bucket := _BUCKET_ENDPOINT.fullmatch(host_of(origin.endpoint))) is not None:
        allowed = f"an endpoint without a bucket, which clients name: {of_bucket[1]}"
        yield SettingsError(f"{where}.endpoint", origin.endpoint, allowed)
    port = port_of(origin.endpoint)
    here = ListenAddress(host_of(origin.endpoint), port)
    for listener, address in _listeners(server):
        # A host name may resolve to anything; a loopback address with our own port is ourselves.
        if here.is_loopback and address.overlaps(here):
            allowed = f"the object store behind Forebay: this is its own {listener}, and it would ask itself"
            yield SettingsError(f"{where}.endpoint", origin.endpoint, allowed)


def _named_origins(settings: Settings) -> Iterator[tuple[str, OriginSettings]]:
    for position, origin in enumerate(settings.origins):
        yield f"origins[{position}]", origin
    if settings.origin is not None:
        yield "origin", settings.origin


def _origins(settings: Settings) -> Iterator[SettingsError]:
    named = list(_named_origins(settings))
    for (_, earlier), (where, later) in combinations(named, 2):
        if earlier.name == later.name and later is not settings.origin:
            yield SettingsError(f"{where}.name", later.name, "a name that no other origin has")
        if earlier.cache_id is not None and earlier.cache_id == later.cache_id:
            yield SettingsError(f"{where}.cache_id", later.cache_id, "a name that no other origin's cache has")
    for position, origin in enumerate(settings.origins):
        if origin.name == DEFAULT_ORIGIN:
            yield SettingsError(f"origins[{position}].name", origin.name, "another name: this is that of [origin]")
    names = {origin.name for _, origin in named}
    for position, key in enumerate(settings.auth.keys):
        where = f"auth.keys[{position}].origin_names"
        if key.origin_names and key.origin is None:
            yield SettingsError(where, list(key.origin_names), "nothing, since the key has no origin credential")
        for name in key.origin_names:
            if name not in names:
                yield SettingsError(where, name, f"names of origins: {', '.join(sorted(names))}")


def _auth(settings: Settings) -> Iterator[SettingsError]:
    auth = settings.auth
    match auth.mode:
        case "open":
            for where, address in _listeners(settings.server):
                if not address.is_loopback:
                    allowed = 'an address of the loopback, since auth.mode is "open": no request is checked'
                    yield SettingsError(where, str(address), allowed)
            if auth.keys:
                allowed = 'no keys, since auth.mode is "open": they would be ignored'
                yield SettingsError("auth.keys", [key.id for key in auth.keys], allowed)
            if auth.anonymous is not None:
                allowed = 'no grants of its own, since auth.mode is "open": nobody is denied'
                yield SettingsError("auth.anonymous", "a table", allowed)
        case "keys":
            if not auth.keys and auth.anonymous is None:
                yield SettingsError("auth.keys", None, NO_KEYS)
    for (_, earlier), (position, later) in combinations(enumerate(auth.keys), 2):
        if earlier.id == later.id:
            yield SettingsError(f"auth.keys[{position}].id", later.id, "an id that no other key has")
    for position, key in enumerate(auth.keys):
        if auth.anonymous is not None and key.id == ANONYMOUS_ID:
            allowed = "another id: it names the requests without a key, since auth.anonymous is given"
            yield SettingsError(f"auth.keys[{position}].id", key.id, allowed)


def _rules(settings: Settings) -> Iterator[SettingsError]:
    largest = format_size(settings.fetch.max_run)
    for position, rule in enumerate(settings.rules):
        where = f"rules[{position}]"
        if rule.write == "back" and settings.journal is None:
            allowed = '"through" or "around", since no [journal] is configured'
            yield SettingsError(f"{where}.write", "back", allowed)
        if rule.write == "around" and rule.warm_on_write:
            allowed = 'false, since the rule\'s write is "around": what is written is never kept'
            yield SettingsError(f"{where}.warm_on_write", True, allowed)
        if rule.block is None:
            continue
        if rule.block & (rule.block - 1):
            yield SettingsError(f"{where}.block", format_size(rule.block), "a power of two from 64KiB to 64MiB")
        if rule.block > settings.fetch.max_run:
            allowed = f"at most origin.max_run ({largest}): a block is fetched by one request"
            yield SettingsError(f"{where}.block", format_size(rule.block), allowed)


def _journal(settings: Settings) -> Iterator[SettingsError]:
    """A cache may be deleted at any time, the journal never: neither is within the other."""
    if settings.journal is None or settings.ssd is None:
        return
    journal, cache = (PurePath(normpath(each.path)) for each in (settings.journal, settings.ssd))
    if journal.is_relative_to(cache) or cache.is_relative_to(journal):
        allowed = f"a directory apart from ssd.path ({settings.ssd.path}): a cache may be deleted, the journal never"
        yield SettingsError("journal.path", settings.journal.path, allowed)


def _sizes(settings: Settings) -> Iterator[SettingsError]:
    fetch, memory = settings.fetch, settings.memory
    largest = format_size(fetch.max_run)
    if fetch.gap >= fetch.max_run:
        yield SettingsError("origin.gap", format_size(fetch.gap), f"less than origin.max_run ({largest})")
    if memory.buffers < fetch.max_run:
        allowed = f"at least origin.max_run ({largest}): a fetch would never get its buffers"
        yield SettingsError("memory.buffers", format_size(memory.buffers), allowed)


def _fits_a_header(token: str) -> bool:
    return token.isascii() and token.isprintable() and token == token.strip()


def _is_ip(domain: str) -> bool:
    try:
        ip_address(domain.rstrip("."))
    except ValueError:
        return False
    return True
