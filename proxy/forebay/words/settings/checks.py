"""Values that are right by themselves and impossible together."""

from collections.abc import Iterator
from itertools import combinations

from forebay.words.errors import SettingsError
from forebay.words.settings.model import Settings
from forebay.words.units import format_size


def impossible(settings: Settings) -> Iterator[SettingsError]:
    """Each reason why these settings can't be served."""
    yield from _server(settings)
    yield from _auth(settings)
    yield from _sizes(settings)


def _server(settings: Settings) -> Iterator[SettingsError]:
    server = settings.server
    if server.admin is not None:
        if server.admin == server.listen and server.admin.port != 0:
            yield SettingsError("server.admin", str(server.admin), "another address than server.listen")
        if not server.admin.loopback and server.admin_token is None:
            allowed = "a token in server.admin_token_env or server.admin_token_file, or an address of the loopback"
            yield SettingsError("server.admin", str(server.admin), allowed)
    if len({domain.lower().rstrip(".") for domain in server.domains}) < len(server.domains):
        yield SettingsError("server.domains", list(server.domains), "each domain once")
    origin = settings.origin
    if origin.ca_file is not None and origin.endpoint.lower().startswith("http:"):
        yield SettingsError("origin.ca_file", origin.ca_file, "only with an https:// endpoint")


def _auth(settings: Settings) -> Iterator[SettingsError]:
    auth, listen = settings.auth, settings.server.listen
    match auth.mode:
        case "open":
            if not listen.loopback:
                allowed = 'an address of the loopback, since auth.mode is "open": no request is checked'
                yield SettingsError("server.listen", str(listen), allowed)
            if auth.keys:
                allowed = 'no keys, since auth.mode is "open": they would not be asked for'
                yield SettingsError("auth.keys", [key.id for key in auth.keys], allowed)
        case "keys":
            if not auth.keys:
                allowed = 'at least one key; or auth.mode = "open", on loopback only'
                yield SettingsError("auth.keys", [], allowed)
    for (_, earlier), (position, later) in combinations(enumerate(auth.keys), 2):
        if earlier.id == later.id:
            yield SettingsError(f"auth.keys[{position}].id", later.id, "an id that no other key has")


def _sizes(settings: Settings) -> Iterator[SettingsError]:
    origin, memory, ssd = settings.origin, settings.memory, settings.ssd
    largest = format_size(origin.max_run)
    for position, rule in enumerate(settings.rules):
        where = f"rules[{position}].block"
        if rule.block is None:
            continue
        if rule.block & (rule.block - 1):
            yield SettingsError(where, format_size(rule.block), "a power of two from 64KiB to 64MiB")
        if rule.block > origin.max_run:
            allowed = f"at most origin.max_run ({largest}): a block is fetched by one request"
            yield SettingsError(where, format_size(rule.block), allowed)
    if origin.gap >= origin.max_run:
        yield SettingsError("origin.gap", format_size(origin.gap), f"less than origin.max_run ({largest})")
    if memory.buffers < origin.max_run:
        allowed = f"at least origin.max_run ({largest}): a fetch would never get its buffers"
        yield SettingsError("memory.buffers", format_size(memory.buffers), allowed)
    if ssd is not None and ssd.size < 4 * ssd.segment:
        allowed = f"at least four segments ({format_size(4 * ssd.segment)})"
        yield SettingsError("ssd.size", format_size(ssd.size), allowed)
