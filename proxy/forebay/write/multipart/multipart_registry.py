"""Multipart uploads in progress: one table for the node, a copy of it in every worker.

    upload (object, upload id) ── part number ──> ETag      as the origin answered
                                                  digest    CRC64 and size of the part's body
                                                  spooled   its bytes, here or in a file of another worker
                                                  staged    the generation of its blocks in the tiers

A row describes a part that came through this node and was confirmed by the origin. The table is not the origin's
ListParts: parts that were uploaded elsewhere, or before a restart, are missing.

Invariants:

- A part that is uploaded again replaces the first, as at the origin. A part whose upload was not confirmed, and one
  that was copied in, removes its row: the origin may have other bytes under that number.
- A change reaches the other workers before the client is answered, for its next request may go to any of them. The
  message "part" carries it: all fields for an added part, no ETag for a removed one, no number for an upload that was
  completed or aborted, the ETag and the digest of what was appended to a part. A worker that does not answer in time
  knows less.
- Of a completed upload whose parts were joined, the ETag of its object is remembered, for a client that repeats the
  completion: it can't be told from the ETags that its client lists.
- An upload is forgotten when it is completed or aborted, when it was idle for too long, and when there are too many
  parts, the upload that was idle longest first. Forgetting a part releases its spooled bytes.

https://docs.aws.amazon.com/AmazonS3/latest/userguide/mpuoverview.html
"""

import logging
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from cachetools import FIFOCache

from forebay.core.errors import SpoolFailed
from forebay.core.names import UploadKey
from forebay.metadata.staged_objects import StagedBody, decode_staged, encode_staged
from forebay.peers.frames import Document
from forebay.peers.owners import Peers
from forebay.peers.peer_codec import decode, decode_name, encode_name
from forebay.protocol.conditions import folded_etag, same_etag
from forebay.protocol.xml.s3_documents import UploadedPart
from forebay.storage.spooled_body import SpooledBody, SpooledFile
from forebay.write.body_digest import BodyDigest, decode_digest, encode_digest

MAX_PARTS: Final = 100_000
"""Parts of all uploads together."""
MAX_JOINED: Final = 4096
"""Objects of joined parts that are remembered."""

_log = logging.getLogger(__name__)


class JoinedObject(NamedTuple):
    """The object that a completion has made of joined parts."""

    request: str
    """The digest of the document that its client sent (write.repeated_completion.completion_digest)."""
    etag: str


@dataclass(slots=True)
class KnownPart:
    """A part that the origin has confirmed."""

    etag: str
    """The ETag that the origin answered with."""
    digest: BodyDigest
    spooled: SpooledBody | SpooledFile | None = None
    """The bytes of the part, where it may have to be coalesced."""
    staged: StagedBody | None = None
    """The blocks of the part, where the object is warmed on write."""
    coalesced_etag: str = ""
    """The ETag that the origin has under this number since the following parts were appended to it."""
    coalesced: BodyDigest | None = None
    """The digest of these bytes."""

    def matches(self, etag: str) -> bool:
        """Whether a completion that lists `etag` means this part."""
        return folded_etag(etag) in {folded_etag(self.etag), folded_etag(self.coalesced_etag) or None}


@dataclass(slots=True)
class _Upload:
    parts: dict[int, KnownPart] = field(default_factory=dict)
    used_at: float = 0.0


class MultipartRegistry:
    """The uploads in progress. `clock`: seconds from any origin. `idle_timeout`: seconds after which an idle upload is
    forgotten."""

    def __init__(
        self, peers: Peers, clock: Callable[[], float], idle_timeout: float, max_parts: int = MAX_PARTS
    ) -> None:
        self._peers = peers
        self._clock = clock
        self._idle_timeout = idle_timeout
        self._max_parts = max_parts
        self._uploads: OrderedDict[UploadKey, _Upload] = OrderedDict()  # the one that was idle longest first
        self._count = 0
        self._joined: FIFOCache[UploadKey, JoinedObject] = FIFOCache(MAX_JOINED)

    def __len__(self) -> int:
        """Number of uploads."""
        return len(self._uploads)

    # Lookups

    def lookup(self, key: UploadKey, listed: Sequence[UploadedPart]) -> list[KnownPart | None]:
        """Returns the parts that a completion lists, in its order; None where number or ETag is unknown."""
        upload = self._uploads.get(key)
        if upload is None:
            return [None] * len(listed)
        self._touch(key, upload)
        known = [upload.parts.get(part.number) for part in listed]
        return [part if part and part.matches(each.etag) else None for part, each in zip(known, listed, strict=True)]

    def joined_etag(self, key: UploadKey, request: str) -> str:
        """Returns the ETag of an object that an earlier completion has made of joined parts; empty: there was none.
        `request`: see JoinedObject."""
        made = self._joined.get(key)
        return made.etag if made is not None and made.request == request else ""

    def conflicts(self, key: UploadKey, listed: Sequence[UploadedPart]) -> bool:
        """Whether a completion lists a part that is known by another ETag."""
        known = self._parts(key)
        return any(part.number in known and not known[part.number].matches(part.etag) for part in listed)

    def staged(self, key: UploadKey, listed: Sequence[UploadedPart]) -> list[StagedBody] | None:
        """Returns the staged blocks of all listed parts, in their order; None if those of any part are unknown."""
        known, staged = self._parts(key), list[StagedBody]()
        for each in listed:
            part = known.get(each.number)
            if part is None or part.staged is None or not same_etag(part.staged.etag, each.etag):
                return None
            staged.append(part.staged)
        return staged

    def parts(self, key: UploadKey) -> Mapping[int, KnownPart]:
        """The parts of an upload, by number; empty: none is known."""
        return self._parts(key)

    def crc(self, key: UploadKey, number: int, etag: str) -> int | None:
        """Returns the CRC64 of a part, if its ETag is `etag`."""
        part = self._parts(key).get(number)
        return part.digest.crc if part is not None and same_etag(part.etag, etag) else None

    # Changes, with the other workers

    async def add(self, key: UploadKey, number: int, part: KnownPart) -> None:
        """Records a part that the origin has confirmed, and lends its spooled bytes to the other workers."""
        self._add(key, number, part)
        file = None
        if isinstance(part.spooled, SpooledBody):
            try:
                if self._peers.others:
                    file = await part.spooled.to_file()
                else:
                    await part.spooled.spill()
            except SpoolFailed as error:
                _log.warning("a part stays in memory, as it can't be written: %s", error)
        await self._notify(key, {"number": number, **_part_document(part, file)})

    async def note_coalesced(self, key: UploadKey, number: int, etag: str, digest: BodyDigest) -> None:
        """Records what the origin has under the number of a part since the following ones were appended to it: a
        completion that is repeated, here or elsewhere, need not send it again."""
        self._note_coalesced(key, number, etag, digest)
        await self._notify(key, {"number": number, "coalesced": etag, **encode_digest(digest)})

    async def remove(self, key: UploadKey, number: int) -> None:
        """Removes a part whose bytes at the origin are not known any more."""
        self._remove(key, number)
        await self._notify(key, {"number": number})

    async def forget(self, key: UploadKey, made: JoinedObject | None = None) -> None:
        """Removes an upload that was completed or aborted. `made`: of joined parts."""
        self._forget(key)
        if made is not None:
            self._joined[key] = made
        await self._notify(key, {} if made is None else {"made": list(made)})

    async def flush_staged(self) -> None:
        """Waits until the blocks that other workers have staged can be read from the shared tier."""
        await self._peers.call_all({"kind": "flush"})

    def receive(self, document: Document) -> None:
        """Applies another worker's change. Raises PeerUnavailable for a malformed one."""
        key = decode(lambda: UploadKey(decode_name(document["name"]), str(document["upload"])))
        number = document.get("number")
        if number is None:
            self._forget(key)
            if "made" in document:
                self._joined[key] = decode(lambda: JoinedObject(*map(str, document["made"])))
        elif "coalesced" in document:
            self._note_coalesced(
                key, *decode(lambda: (int(number), str(document["coalesced"]), decode_digest(document)))
            )
        elif "etag" in document:
            self._add(key, *decode(lambda: (int(number), _part_of(document))))
        else:
            self._remove(key, decode(lambda: int(number)))

    async def _notify(self, key: UploadKey, document: Document) -> None:
        upload = {"kind": "part", "name": encode_name(key.name), "upload": key.upload_id}
        await self._peers.update_all(upload | document)

    # The table

    def expire(self) -> None:
        """Forgets the uploads that were idle for too long."""
        until = self._clock() - self._idle_timeout
        while self._uploads:
            oldest = next(iter(self._uploads))
            if self._uploads[oldest].used_at > until:
                return
            self._forget(oldest)

    def _parts(self, key: UploadKey) -> dict[int, KnownPart]:
        upload = self._uploads.get(key)
        return upload.parts if upload is not None else {}

    def _touch(self, key: UploadKey, upload: _Upload) -> None:
        upload.used_at = self._clock()
        self._uploads.move_to_end(key)

    def _add(self, key: UploadKey, number: int, part: KnownPart) -> None:
        self._remove(key, number)
        upload = self._uploads.setdefault(key, _Upload())
        self._touch(key, upload)
        upload.parts[number] = part
        self._count += 1
        self.expire()
        while self._count > self._max_parts:
            self._forget(next(iter(self._uploads)))

    def _note_coalesced(self, key: UploadKey, number: int, etag: str, digest: BodyDigest) -> None:
        part = self._parts(key).get(number)
        if part is not None:
            part.coalesced_etag, part.coalesced = etag, digest

    def _remove(self, key: UploadKey, number: int) -> None:
        part = self._parts(key).pop(number, None)
        if part is not None:
            self._count -= 1
            _release(part)

    def _forget(self, key: UploadKey) -> None:
        upload = self._uploads.pop(key, None)
        for part in upload.parts.values() if upload is not None else ():
            self._count -= 1
            _release(part)


def _release(part: KnownPart) -> None:
    if part.spooled is not None:
        part.spooled.release()


def _part_document(part: KnownPart, file: SpooledFile | None) -> Document:
    return encode_digest(part.digest) | {
        "etag": part.etag,
        "path": file.path if file is not None else None,
        "staged": encode_staged(part.staged) if part.staged is not None else None,
    }


def _part_of(document: Document) -> KnownPart:
    """Raises the errors of peers.peer_codec.decode."""
    digest, path, staged = decode_digest(document), document["path"], document["staged"]
    return KnownPart(
        str(document["etag"]),
        digest,
        SpooledFile(str(path), digest.size) if path is not None else None,
        decode_staged(staged) if staged is not None else None,
    )
