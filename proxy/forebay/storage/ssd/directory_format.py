"""The file FORMAT: the layout version of the SSD tier's directory, and the origins that its content is of.

    {"layout": 4, "salt": ..., "routes": ...,
     "origins": [{"id": ..., "endpoint": ..., "cache_id": ..., "name": ...}, ...]}

`id` is the text that the addresses of an origin contain (addressing.py).

Invariants:
- two origins never have one id, and none gets an id that another one had before: an object of one is not found under
  the address of another, whatever becomes of the configuration. So an origin that comes to a directory with content, or
  comes back to it, gets an id that nothing was ever addressed by, and what it had cached before is not found;
- the id of an origin stays while each configuration has it: by its cache_id, else by its name and endpoint.
"""

import secrets
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

from forebay.storage.cache_origin import CacheOrigin, CacheOrigins
from forebay.storage.ssd.segments.addressing import SALT

LAYOUT: Final = 4
_NO_ORIGIN: Final = ""
"""The id of buckets without an origin, of which nothing is cached."""


@dataclass(frozen=True, slots=True)
class OriginRecord:
    """One origin of the content."""

    id: str
    """The text that its addresses contain."""
    endpoint: str
    """The canonical endpoint that the content was last served for."""
    cache_id: str | None
    """The cache_id that the content was last served under; None: none."""
    name: str

    def __str__(self) -> str:
        return str(CacheOrigin(self.endpoint, self.cache_id))

    def is_of(self, origin: CacheOrigin) -> bool:
        """Whether the content is that of `origin`: by the cache_id where both have one, else by name and endpoint."""
        if self.cache_id is not None and origin.cache_id is not None:
            return self.cache_id == origin.cache_id
        return (self.name, self.endpoint) == (origin.name, origin.endpoint)


@dataclass(frozen=True, slots=True)
class DirectoryFormat:
    """The content of FORMAT. Content of another layout, or of other origins alone, is discarded."""

    salt: bytes
    records: tuple[OriginRecord, ...]
    routes: str = ""
    """CacheOrigins.routes of the run that served the content last."""

    @property
    def origin(self) -> str:
        """The content's origins, in words."""
        return ", ".join(map(str, self.records))

    def record_of(self, origin: CacheOrigin) -> OriginRecord | None:
        """The record of an origin; None if nothing was cached of it."""
        return next((record for record in self.records if record.is_of(origin)), None)

    def is_of(self, origins: CacheOrigins) -> bool:
        """Whether a run with these origins, in this order, has written it."""
        mine = [(record.name, record.endpoint, record.cache_id) for record in self.records]
        return self.routes == origins.routes and mine == [
            (origin.name, origin.endpoint, origin.cache_id) for origin in origins.origins
        ]

    def taken_over_by(self, origins: CacheOrigins) -> "DirectoryFormat | None":
        """Returns the format while the content is served for `origins`; None if it is of none of them."""
        records: list[OriginRecord] = []
        found = [self.record_of(origin) for origin in origins.origins]
        for origin, known in zip(origins.origins, found, strict=True):
            is_new = known is None or any(record.id == known.id for record in records)
            own_id = _fresh_id(origin) if known is None or is_new else known.id
            records.append(OriginRecord(own_id, origin.endpoint, origin.cache_id, origin.name))
        return DirectoryFormat(self.salt, tuple(records), origins.routes) if any(found) else None

    def left_by(self, successor: "DirectoryFormat") -> Iterator[OriginRecord]:
        """The records that `successor`, made of this format, has not."""
        kept = {record.id for record in successor.records}
        yield from (record for record in self.records if record.id not in kept)

    def id_by_bucket(self, origins: CacheOrigins) -> Callable[[str], str]:
        """Returns a function that gives the id of the origin that has a bucket. `origins`: those that it is served
        for."""
        ids = [record.id for record in self.records]

        def id_of(bucket: str) -> str:
            position = origins.position_of(bucket)
            return _NO_ORIGIN if position is None else ids[position]

        return id_of


def _fresh_id(origin: CacheOrigin) -> str:
    return f"{origin.id}#{secrets.token_hex(8)}"


def first_format(origins: CacheOrigins) -> DirectoryFormat:
    """Returns the format of a directory without content."""
    records: list[OriginRecord] = []
    for origin in origins.origins:
        own = OriginRecord(origin.id, origin.endpoint, origin.cache_id, origin.name)
        is_taken = any(record.id == own.id for record in records)  # two accounts at one endpoint
        records.append(replace(own, id=_fresh_id(origin)) if is_taken else own)
    return DirectoryFormat(secrets.token_bytes(SALT), tuple(records), origins.routes)


def format_document(content: DirectoryFormat) -> dict[str, object]:
    """Returns the document."""
    return {
        "layout": LAYOUT,
        "salt": content.salt.hex(),
        "routes": content.routes,
        "origins": [asdict(record) for record in content.records],
    }


def read_document(fields: Mapping[str, Any]) -> DirectoryFormat | None:
    """Returns the format that a document describes; None if it is of another layout. Raises ValueError, KeyError or
    TypeError for a damaged one."""
    if fields["layout"] != LAYOUT:
        return None
    salt, records = bytes.fromhex(fields["salt"]), tuple(map(_record, fields["origins"]))
    if len(salt) != SALT or not records:
        raise ValueError("the salt or the origins are missing")
    return DirectoryFormat(salt, records, str(fields["routes"]))


def _record(fields: Mapping[str, Any]) -> OriginRecord:
    cache_id = fields["cache_id"]
    return OriginRecord(
        str(fields["id"]), str(fields["endpoint"]), None if cache_id is None else str(cache_id), str(fields["name"])
    )
