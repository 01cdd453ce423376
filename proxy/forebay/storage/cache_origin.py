"""The origin of a cache: the name by which cached data and the run record are recognised as its own after a restart.

    origin.cache_id    names the origin: whatever the endpoint, the same name is the same origin
    origin.endpoint    names it where one of two runs has no cache_id, in one spelling

Two spellings are one endpoint only where no resolver and no server can tell them apart: letters of the host in either
case, the scheme's own port or none, a final slash, an IPv6 address in any form. Not `http` and `https`, which are two
ports, and not a final dot, which keeps a resolver from appending its search domains: either may lead to another server.
A cache of one origin must not be served for another, and a cache that is filled again costs time only.

Several origins share one cache. Each is known by its name in the configuration as well: two may have one endpoint with
two accounts, whose buckets may have the same names.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import blake2b
from ipaddress import IPv6Address
from typing import Self
from urllib.parse import urlsplit

from forebay.core.events import DEFAULT_ORIGIN
from forebay.settings.model import Settings

_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class CacheOrigin:
    """An origin as it is named in files that outlive the process. Made by `of`."""

    endpoint: str
    """The endpoint in its canonical spelling."""
    cache_id: str | None
    """The configured name; never a URL."""
    name: str = DEFAULT_ORIGIN
    """The name in the configuration."""

    @classmethod
    def of(cls, endpoint: str, cache_id: str | None = None, name: str = DEFAULT_ORIGIN) -> Self:
        """The origin at a configured endpoint."""
        return cls(canonical_endpoint(endpoint), cache_id, name)

    @property
    def id(self) -> str:
        """The id in the addresses of new content."""
        return self.cache_id or self.endpoint

    @property
    def names(self) -> tuple[str, ...]:
        """All names of the origin: of two origins with a name in common, one may be the other."""
        return (self.endpoint,) if self.cache_id is None else (self.endpoint, self.cache_id)

    def __str__(self) -> str:
        return self.endpoint if self.cache_id is None else f"{self.endpoint} (cache_id {self.cache_id})"


@dataclass(frozen=True, slots=True)
class CacheOrigins:
    """The origins whose content a directory holds, and which of them has a bucket."""

    origins: tuple[CacheOrigin, ...]
    position_of: Callable[[str], int | None]
    """The origin that has a bucket; None: none has it."""
    routes: str = ""
    """A hash of the rules of `position_of`; empty for one origin. As long as it stays the same, each bucket keeps its
    origin."""

    @classmethod
    def single(cls, origin: CacheOrigin) -> Self:
        """One origin that has all buckets."""
        return cls((origin,), lambda _bucket: 0)

    def __str__(self) -> str:
        return ", ".join(map(str, self.origins))


def cache_origins(settings: Settings) -> tuple[CacheOrigin, ...]:
    """The origins of a configuration, in the order of `Settings.all_origins`."""
    return tuple(CacheOrigin.of(origin.endpoint, origin.cache_id, origin.name) for origin in settings.all_origins)


def all_ids(settings: Settings) -> str:
    """Returns the ids of all origins of a configuration, as one text."""
    return " ".join(origin.id for origin in cache_origins(settings))


def routes_fingerprint(settings: Settings) -> str:
    """Returns a hash of the names of the origins and of the patterns of their buckets; empty for one origin."""
    if not settings.origins:
        return ""
    return origin_fingerprint(json.dumps([(origin.name, origin.buckets) for origin in settings.all_origins]))


def canonical_endpoint(endpoint: str) -> str:
    """Returns an endpoint of the configuration in the one spelling that all of the same endpoint have."""
    url = urlsplit(endpoint)
    host = url.hostname or ""
    if ":" in host:
        host = f"[{IPv6Address(host)}]"
    port = f":{url.port}" if url.port not in {None, _PORTS.get(url.scheme)} else ""
    return f"{url.scheme}://{host}{port}"


def origin_fingerprint(name: str) -> str:
    """Returns a hash of a name of an origin."""
    return blake2b(name.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
