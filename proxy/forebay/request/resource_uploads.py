"""Multipart uploads of Forebay's own resources: SDKs send any file of more than a few MiB that way.

    CreateMultipartUpload      an upload id; nothing is kept for it
    UploadPart                 verified, and kept in the spool and the multipart registry, as OSS's small parts are
    CompleteMultipartUpload    the parts' bytes, in the order that it lists
    ListParts                  the parts that are here: SDKs that resume an upload ask for them
    AbortMultipartUpload       the parts are dropped, as those of an upload that stays idle are

The workers of a node share the parts, so each may come to another worker. An upload is its principal's: another one's
upload with the same id is another upload.
"""

import secrets
from collections.abc import AsyncIterator
from dataclasses import dataclass
from hashlib import md5
from typing import Final

from forebay.core.buffers import Piece
from forebay.core.cooperative import run_cooperatively
from forebay.core.errors import S3Error, SpoolFailed
from forebay.core.names import ObjectName, UploadKey
from forebay.protocol.body.part_checksums import multipart_etag
from forebay.protocol.xml.parts_page import ListedPart, part_listing
from forebay.protocol.xml.s3_documents import read_parts_cooperatively
from forebay.request.admission import Admission
from forebay.storage.spool import Spool
from forebay.storage.spool_space import spool_full
from forebay.storage.spooled_body import SPILL_SIZE
from forebay.write.body_digest import BodyDigest
from forebay.write.incoming_body import IncomingBody
from forebay.write.multipart.multipart_registry import KnownPart, MultipartRegistry

_ID_BYTES: Final = 16
_PART_NUMBERS: Final = range(1, 10_001)


@dataclass(frozen=True, slots=True)
class CompletedUpload:
    """The body of a completed upload."""

    key: UploadKey
    parts: list[KnownPart]
    etag: str

    @property
    def size(self) -> int:
        """Bytes of all parts."""
        return sum(part.digest.size for part in self.parts)

    async def pieces(self) -> AsyncIterator[Piece]:
        """Yields the bytes of the parts. Raises S3Error where they are gone."""
        for part in self.parts:
            if not part.digest.size:
                continue
            read = BodyDigest()
            try:
                if part.spooled is not None:
                    async for piece in part.spooled.pieces():
                        read.update(piece)
                        yield piece
            except SpoolFailed:
                pass
            if read != part.digest:
                raise S3Error("InvalidPart", "The bytes of a part are not here any more. Upload it again.")


class ResourceUploads:
    """The uploads. `spool`: where the bytes of parts are kept."""

    def __init__(self, registry: MultipartRegistry, spool: Spool) -> None:
        self._registry = registry
        self._spool = spool

    def create(self) -> str:
        """Returns the id of a new upload."""
        return secrets.token_hex(_ID_BYTES)

    async def add_part(self, admission: Admission, body: IncomingBody, length: int) -> str:
        """Keeps a part of `length` bytes. Returns its ETag. Raises S3Error, SpoolFull, SpoolFailed, Throttled."""
        key, number = _upload_of(admission), admission.target.param("partNumber") or ""
        if not number.isascii() or not number.isdecimal() or int(number[:6]) not in _PART_NUMBERS:
            raise S3Error("InvalidArgument", "A part number is from 1 to 10000.", ArgumentName="partNumber")
        if not self._spool.has_space(length):
            self._registry.expire()
        if not self._spool.has_space(length):
            raise spool_full()
        digest, etag, spooled = BodyDigest(), md5(usedforsecurity=False), self._spool.create()
        try:
            async for piece in body.pieces():
                digest.update(piece)
                etag.update(piece)
                await spooled.reserve(len(piece))
                spooled.append(piece)
                await spooled.spill(least=SPILL_SIZE)
            part = KnownPart(f'"{etag.hexdigest()}"', digest, spooled)
        except BaseException:
            spooled.release()
            raise
        await self._registry.add(key, int(number), part)
        return part.etag

    def list_parts(self, admission: Admission, now: float) -> bytes:
        """Returns the answer to a ListParts. `now`: stands for when the parts came, which is not kept. Raises
        S3Error."""
        parts = self._registry.parts(_upload_of(admission))
        return part_listing(
            admission.target, {number: ListedPart(part.etag, part.digest.size, now) for number, part in parts.items()}
        )

    async def complete(self, admission: Admission, document: bytes) -> CompletedUpload:
        """Returns the body that a completion makes of its parts; `forget` it once it is used. Raises S3Error."""
        key, listed = _upload_of(admission), await run_cooperatively(read_parts_cooperatively(document))
        if [part.number for part in listed] != sorted({part.number for part in listed}):
            raise S3Error("InvalidPartOrder")
        known = self._registry.lookup(key, listed)
        parts = [part for part in known if part is not None]
        if len(parts) < len(known):
            raise S3Error("InvalidPart")
        return CompletedUpload(key, parts, f'"{multipart_etag(each.etag for each in listed)}"')

    async def forget(self, key: UploadKey) -> None:
        """Drops the received parts of an upload."""
        await self._registry.forget(key)

    async def abort(self, admission: Admission) -> None:
        """Drops the received parts of an upload, if there are any."""
        await self._registry.forget(_upload_of(admission))


def _upload_of(admission: Admission) -> UploadKey:
    """The identity of the upload that a request addresses, for its principal alone. Raises S3Error NoSuchUpload."""
    upload_id, name = admission.target.param("uploadId") or "", admission.target.name
    if len(upload_id) != 2 * _ID_BYTES:
        raise S3Error("NoSuchUpload", UploadId=upload_id)
    # No key holds a NUL, so that no upload of an object, and none of another principal, has this name.
    return UploadKey(ObjectName(name.bucket, f"{name.key}\0{admission.principal.id}"), upload_id)
