"""The tombstones at the origin: writes, reads and merges them (protocol.packs.tombstones).

Only whole objects are written, under names that are never reused. Tombstones are deleted only after their replacement
was written.
"""

import asyncio
import logging
import os
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Final

from forebay.core.errors import MalformedPack, OriginBroken, PackUnavailable
from forebay.core.names import ObjectName
from forebay.origin.origin_identity import OriginIdentity
from forebay.origin.origins import Origins
from forebay.origin.reads.origin_read import OriginRead
from forebay.origin.reads.read_outcomes import ErrorResponse, ObjectOpened
from forebay.origin.small_objects import delete_object, put_object
from forebay.protocol.packs.tombstones import (
    MAX_TOMBSTONES_BYTES,
    TOKEN_BYTES,
    Tombstone,
    encode_tombstones,
    index_key_of,
    merged_key,
    parse_tombstones,
    tombstones_key,
    tombstones_prefix,
)

LISTED_AGAIN: Final = 3
"""Repeated listings of tombstones, at most: others replace some between a listing and the read of them."""

_READ_AT_ONCE: Final = 16
_JSON: Final = (("Content-Type", "application/json"),)

_log = logging.getLogger(__name__)


class TombstonesReplaced(OriginBroken):
    """Listed tombstones were replaced before they could be read: they have to be listed again."""


class TombstoneStore:
    """Tombstones of all packs. Keeps no state. `clock`: seconds since the epoch."""

    def __init__(self, origins: Origins, clock: Callable[[], float]) -> None:
        self._origins = origins
        self._clock = clock

    async def write(
        self, bucket: str, index_key: str, tombstones: Iterable[Tombstone], identity: OriginIdentity | None
    ) -> None:
        """Writes tombstones of one index. Returns when the origin has them. Raises OriginError, S3Error, Throttled."""
        key = tombstones_key(index_key, self._clock(), os.urandom(TOKEN_BYTES))
        await put_object(self._origins, ObjectName(bucket, key), encode_tombstones(tombstones), _JSON, identity)

    async def read(self, bucket: str, keys: Sequence[str]) -> list[Tombstone]:
        """Returns the tombstones of the objects under these keys. Raises TombstonesReplaced, PackUnavailable,
        OriginError, S3Error, Throttled."""
        found: list[Tombstone] = []
        for first in range(0, len(keys), _READ_AT_ONCE):
            for each in await asyncio.gather(
                *(self._read(ObjectName(bucket, key)) for key in keys[first : first + _READ_AT_ONCE])
            ):
                found += each
        return sorted(found)

    async def find(self, bucket: str, index_key: str, known: Collection[str]) -> tuple[list[str], list[Tombstone]]:
        """Returns the keys of all objects with tombstones of an index, and the tombstones of those that are not
        `known`. Raises the errors of `read`."""
        replaced = 0
        while True:
            listed = self._origins.list_objects(bucket, tombstones_prefix(index_key))
            keys = [entry.key async for entry in listed if index_key_of(entry.key) == index_key]
            try:
                return keys, await self.read(bucket, [key for key in keys if key not in known])
            except TombstonesReplaced:
                if replaced == LISTED_AGAIN:
                    raise
                replaced += 1

    async def merge(self, bucket: str, index_key: str, keys: Sequence[str]) -> None:
        """Writes one object in place of those under `keys`. Raises the errors of `read`."""
        tombstones = await self.read(bucket, keys)
        key = merged_key(index_key, keys, self._clock(), os.urandom(TOKEN_BYTES))
        await put_object(self._origins, ObjectName(bucket, key), encode_tombstones(tombstones), _JSON)
        await self.remove(bucket, keys)
        _log.info(
            "%s/%s: %d tombstones of %d objects are one object now", bucket, index_key, len(tombstones), len(keys)
        )

    async def remove(self, bucket: str, keys: Iterable[str]) -> None:
        """Deletes objects with tombstones, which others have replaced. Raises OriginError, S3Error, Throttled."""
        for key in keys:
            await delete_object(self._origins, ObjectName(bucket, key))

    async def _read(self, name: ObjectName) -> list[Tombstone]:
        answer = await self._origins.open_read(name, OriginRead())
        if isinstance(answer, ErrorResponse) and answer.status == 404:
            raise TombstonesReplaced(f"{name.path} was deleted")
        if not isinstance(answer, ObjectOpened):
            raise OriginBroken(f"the tombstones {name.path} can't be read")
        if (size := answer.facts.size) > MAX_TOMBSTONES_BYTES:
            answer.body.close()
            raise PackUnavailable(f"the tombstones {name.path} have {size} bytes")
        content = await answer.body.read_all()
        try:
            return await asyncio.to_thread(parse_tombstones, content)
        except MalformedPack as damage:
            raise PackUnavailable(f"{name.path}: {damage}") from None
