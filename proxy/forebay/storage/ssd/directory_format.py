"""FORMAT: the layout of the directory's content, and the origins that it is of.

    {"layout": 3, "id": ..., "origin": ..., "endpoint": ..., "cache_id": ..., "salt": ...,      the first origin
     "name": ..., "routes": ..., "others": [{"id": ..., "endpoint": ..., "cache_id": ..., "name": ...}, ...]}

The second line is there with `[[origins]]` only. `id` is the text that addresses contain (addressing.py), `origin` its
fingerprint.

Invariants:
- two origins never have one id, and none gets an id that another one had before: an object of one is not found under
  the address of another, whatever becomes of the configuration. So an origin that comes to a directory with content, or
  comes back to it, gets an id that nothing was ever addressed by, and what it had cached before is not found;
- the id of an origin stays while each configuration has it: by its cache_id, else by its name and endpoint.
"""

import secrets
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from forebay.core.events import DEFAULT_ORIGIN
from forebay.storage.cache_origin import CacheOrigin, CacheOrigins, origin_fingerprint
from forebay.storage.ssd.segments.addressing import SALT

LAYOUT: Final = 3
_NO_ORIGIN: Final = ""
"""The id of buckets without an origin, of which nothing is cached."""


@dataclass(frozen=True, slots=True)
class OriginRecord:
    """One origin of the content."""

    id: str | None
    """What its addresses contain. None in the FORMAT of an earlier Forebay, as `endpoint`."""
    endpoint: str | None
    """The canonical endpoint that the content was last served for."""
    cache_id: str | None
    """The cache_id that the content was last served under; None: none."""
    name: str = DEFAULT_ORIGIN
    fingerprint: str = ""
    """Of the id; empty where that is known."""

    def __str__(self) -> str:
        if self.endpoint is None:
            return f"an origin of which an earlier Forebay has kept a fingerprint only ({self.fingerprint})"
        return str(CacheOrigin(self.endpoint, self.cache_id, self.endpoint))

    def id_for(self, origin: CacheOrigin) -> str | None:
        """Returns the id of the content while it is served for `origin`; None if it is another origin's."""
        if self.endpoint is None:
            names = (
                name for name in (origin.endpoint, origin.spelling) if origin_fingerprint(name) == self.fingerprint
            )
            return next(names, None) if origin.name == self.name else None
        if self.cache_id is not None and origin.cache_id is not None:
            return self.id if self.cache_id == origin.cache_id else None
        return self.id if (self.name, self.endpoint) == (origin.name, origin.endpoint) else None


@dataclass(frozen=True, slots=True)
class DirectoryFormat:
    """What FORMAT says. Content of another layout, or of other origins alone, is discarded."""

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
        return next((record for record in self.records if record.id_for(origin) is not None), None)

    def is_of(self, origins: CacheOrigins) -> bool:
        """Whether a run with these origins, in this order, has written it."""
        mine = [(record.name, record.endpoint, record.cache_id) for record in self.records]
        return self.routes == origins.routes and mine == [
            (origin.name, origin.endpoint, origin.cache_id) for origin in origins.origins
        ]

    def taken_over_by(self, origins: CacheOrigins) -> "DirectoryFormat | None":
        """Returns the format while the content is served for `origins`; None if it is of none of them."""
        records: list[OriginRecord] = []
        for origin in origins.origins:
            found = self.record_of(origin)
            known = found.id_for(origin) if found is not None else None
            if known is None or any(record.id == known for record in records):
                known = _fresh_id(origin)
            records.append(OriginRecord(known, origin.endpoint, origin.cache_id, origin.name))
        if not any(self.record_of(origin) is not None for origin in origins.origins):
            return None
        return DirectoryFormat(self.salt, tuple(records), origins.routes)

    def left_by(self, successor: "DirectoryFormat") -> Iterator[OriginRecord]:
        """The records that `successor`, made of this format, has not."""
        kept = {record.id for record in successor.records}
        yield from (record for record in self.records if record.id is not None and record.id not in kept)

    def id_by_bucket(self, origins: CacheOrigins) -> Callable[[str], str]:
        """Returns what gives the id of the origin that has a bucket. `origins`: those that it is served for."""
        ids = [record.id or _NO_ORIGIN for record in self.records]

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
    first, *others = content.records
    fields = {
        "layout": LAYOUT,
        "origin": origin_fingerprint(first.id or ""),
        **_fields(first),
        "salt": content.salt.hex(),
    }
    if not content.routes:
        del fields["name"]
        return fields
    return fields | {"routes": content.routes, "others": [_fields(record) for record in others]}


def read_document(fields: Mapping[str, Any]) -> DirectoryFormat | None:
    """Returns what a document says; None if it is of another layout, or contradicts itself. Raises ValueError, KeyError
    or TypeError where it is none."""
    if fields["layout"] != LAYOUT:
        return None
    fingerprint, salt = str(fields["origin"]), bytes.fromhex(fields["salt"])
    if len(salt) != SALT:
        return None
    if "endpoint" not in fields:
        return DirectoryFormat(salt, (OriginRecord(None, None, None, fingerprint=fingerprint),))
    records = (_record(fields), *(_record(other) for other in fields.get("others", ())))
    if origin_fingerprint(records[0].id or "") != fingerprint:
        return None
    return DirectoryFormat(salt, records, str(fields.get("routes", "")))


def _fields(record: OriginRecord) -> dict[str, object]:
    return {"id": record.id, "endpoint": record.endpoint, "cache_id": record.cache_id, "name": record.name}


def _record(fields: Mapping[str, Any]) -> OriginRecord:
    cache_id = fields["cache_id"]
    return OriginRecord(
        str(fields["id"]),
        str(fields["endpoint"]),
        None if cache_id is None else str(cache_id),
        str(fields.get("name", DEFAULT_ORIGIN)),
    )
