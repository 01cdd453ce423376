"""The origins of records: which origin a write was accepted for, so that it is never carried to another one.

    accepted ──> the record names the origin of its bucket
    restart  ──> the bucket has the same origin: the record is carried out
                 it has another, or none:        the record stays where it is

Whether two names mean one origin is judged as for a cache (storage.cache_origin): by `cache_id` where both runs have
one, else by name and endpoint. An access key does not count: keys are rotated.
"""

import json
from contextlib import suppress

from forebay.storage.cache_origin import CacheOrigin, CacheOrigins
from forebay.storage.journal.journal_record import Document

FIELD = "origin"
"""The field of a record's document that names the origin."""


class RecordOrigins:
    """The origins of the buckets in this run, as records name them."""

    def __init__(self, origins: CacheOrigins) -> None:
        self._origins = origins
        self._named: list[Document] = [
            {FIELD: {"name": each.name, "endpoint": each.endpoint, "cache_id": each.cache_id}}
            for each in origins.origins
        ]
        self._unnamed: Document = {FIELD: None}

    def named(self, bucket: str) -> Document:
        """Returns the fields by which a record names the origin of its bucket."""
        position = self._origins.position_of(bucket)
        return self._unnamed if position is None else self._named[position]

    def obstacle(self, document: Document) -> str | None:
        """Returns the reason why a record can't be carried out in this run; None: its bucket has its origin. Raises
        ValueError for a record that names none."""
        try:
            bucket, named = str(document["bucket"]), document[FIELD]
            recorded = CacheOrigin(str(named["endpoint"]), named["cache_id"], str(named["name"]))
        except (KeyError, TypeError):
            raise ValueError("it names no origin") from None
        current = self._of(bucket)
        if current is not None and _is_same(recorded, current):
            return None
        origin = f"accepted for the origin {recorded.name} at {recorded}"
        if any(_is_same(recorded, each) for each in self._origins.origins):
            return f"{origin}, which has the bucket no longer"
        return f"{origin}, which is not configured"

    def is_current(self, bucket: str, named: str) -> bool:
        """Returns whether a bucket has the origin that a record named. `named`: that field, as JSON."""
        with suppress(ValueError):
            return self.obstacle({"bucket": bucket, FIELD: json.loads(named)}) is None
        return False

    def _of(self, bucket: str) -> CacheOrigin | None:
        position = self._origins.position_of(bucket)
        return None if position is None else self._origins.origins[position]


def _is_same(recorded: CacheOrigin, current: CacheOrigin) -> bool:
    if recorded.cache_id is not None and current.cache_id is not None:
        return recorded.cache_id == current.cache_id
    return (recorded.name, recorded.endpoint) == (current.name, current.endpoint)
