"""Tracked writes: the facts gathered from a body on its way to the origin, and their use after the origin's
confirmation.

    PutObject                  digested, staged        the digest is recorded for the version, the blocks installed
    UploadPart                 digested, staged,       the part is added to the multipart registry
                               spooled
    UploadPartCopy                                     the part is removed from the registry
    CompleteMultipartUpload    parts are coalesced     the digest of the object is recorded, its blocks are installed
    AbortMultipartUpload                               the upload is forgotten, also if the origin knows none

A write whose outcome is unknown records nothing; a part that it may have replaced is removed from the registry.
"""

from collections.abc import Sequence
from hashlib import md5
from typing import Final

from forebay.core.buffers import Piece
from forebay.core.heads import HeaderPairs
from forebay.core.names import Generation
from forebay.origin.origin_response import OriginResponse
from forebay.policy.rules import Decision
from forebay.protocol.xml.s3_documents import UploadedPart, result_etag
from forebay.storage.spooled_body import SPILL_SIZE, SpooledBody
from forebay.write.body_digest import BodyDigest, WrittenDigests, crc_header
from forebay.write.forward_request import ForwardRequest
from forebay.write.multipart.multipart_registry import JoinedObject, KnownPart, MultipartRegistry
from forebay.write.multipart.part_coalescer import CoalescedCompletion, PartCoalescer
from forebay.write.repeated_completion import completion_digest
from forebay.write.warm_on_write import WarmOnWrite

_DIGESTED: Final = frozenset({"PutObject", "UploadPart"})
_ENDINGS: Final = frozenset({"CompleteMultipartUpload", "AbortMultipartUpload"})
_APPENDS: Final = "x-amz-write-offset-bytes"  # with it, the object is not the body


class WriteTracker:
    """Tracks writes."""

    def __init__(
        self, digests: WrittenDigests, registry: MultipartRegistry, coalescer: PartCoalescer, warm: WarmOnWrite
    ) -> None:
        self.digests = digests
        self.registry = registry
        self.coalescer = coalescer
        self.warm = warm

    async def track(
        self,
        forward: ForwardRequest,
        decision: Decision | None,
        document: bytes | None = None,
        listed: Sequence[UploadedPart] | None = None,
    ) -> "TrackedWrite":
        """Begins to track a write. `document`: its body, where it was read; `listed`: the parts that a completion
        lists, None where the origin reads it otherwise. Raises S3Error, OriginError and Throttled where small parts
        can't be spooled or coalesced."""
        completion, spooled = None, None
        if forward.operation.name == "CompleteMultipartUpload" and document is not None:
            completion = await self.coalescer.coalesce(forward, document, listed)
        elif forward.operation.name == "UploadPart":
            spooled = self.coalescer.spool(forward)
        return TrackedWrite(self, forward, decision, listed or (), completion, spooled)


class TrackedWrite:
    """A tracked write. `close` it, however it ended."""

    def __init__(
        self,
        tracker: WriteTracker,
        forward: ForwardRequest,
        decision: Decision | None,
        listed: Sequence[UploadedPart],
        completion: CoalescedCompletion | None,
        spooled: SpooledBody | None,
    ) -> None:
        self._tracker = tracker
        self._forward = forward
        self._listed = listed
        self._completion = completion
        self._spooled = spooled
        self._staging = tracker.warm.staging(forward, decision)
        self._digest = BodyDigest()
        self._is_digested = forward.operation.name in _DIGESTED and _APPENDS not in forward.request.headers
        is_back = decision is not None and decision.write == "back" and forward.operation.name == "PutObject"
        self._md5 = md5(usedforsecurity=False) if is_back and self._is_digested else None
        self._settled = False

    @property
    def document(self) -> bytes | None:
        """The document that is sent in place of the client's; None: the client's."""
        return self._completion.body if self._completion is not None else None

    def joined_etag(self) -> str:
        """Returns the ETag of the object that a completion has made of joined parts before; empty: there was none."""
        if self._completion is None:
            return ""
        request = completion_digest(self._completion.body)
        return self._tracker.registry.joined_etag(self._forward.upload, request)

    @property
    def etag(self) -> str:
        """The ETag of an object with this body, quoted; empty unless writes of it may be accepted meanwhile."""
        return f'"{self._md5.hexdigest()}"' if self._md5 is not None else ""

    @property
    def generation(self) -> Generation | None:
        """The generation of the staged blocks; None where nothing is staged."""
        return self._staging.generation if self._staging is not None else None

    async def update(self, piece: Piece) -> None:
        """Adds the next bytes of the body. Raises SpoolFull, Throttled, SpoolFailed where a small part can't be
        spooled."""
        if self._is_digested:
            self._digest.update(piece)
        if self._md5 is not None:
            self._md5.update(piece)
        if self._spooled is not None:
            await self._spooled.reserve(len(piece))
            self._spooled.append(piece)
            await self._spooled.spill(least=SPILL_SIZE)
        if self._staging is not None:
            self._staging.append(piece)

    async def confirm(self, answer: OriginResponse, result: bytes) -> HeaderPairs:
        """Records the write. The origin has confirmed it, and its second invalidation is done. `result`: the document
        that the origin answered, where the outcome is in it. Returns response headers for the client."""
        self._settled = True
        forward, tracker, digest = self._forward, self._tracker, None
        etag = answer.headers.get("ETag", "")
        staged = self._staging.complete(etag) if self._staging is not None else None
        match forward.operation.name:
            case "PutObject":
                if staged is not None:
                    tracker.warm.install(forward.target.name, staged, forward.identity)
                if self._is_digested:
                    digest = self._digest
                    await tracker.digests.record(forward.target.name, etag, digest)
            case "UploadPart":
                digest, number = self._digest, forward.part_number
                if number is not None and etag:
                    part = KnownPart(etag, digest, self._spooled, staged)
                    self._spooled = None  # the registry releases it
                    await tracker.registry.add(forward.upload, number, part)
            case "UploadPartCopy":
                await self._remove_part()
            case "CompleteMultipartUpload":
                etag = result_etag(result) or ""
                parts = tracker.registry.staged(forward.upload, self._listed)
                if etag and parts:
                    tracker.warm.join(forward.upload, parts, etag, forward.identity)
                digest = self._completion.digest if self._completion is not None else None
                if digest is not None:
                    await tracker.digests.record(forward.target.name, etag, digest)
                request = self._completion.joined_from if self._completion is not None else ""
                await tracker.registry.forget(forward.upload, JoinedObject(request, etag) if request and etag else None)
            case "AbortMultipartUpload":
                await tracker.registry.forget(forward.upload)
            case _:
                pass
        return crc_header(digest) if forward.speaks_oss else ()

    def refuse(self) -> None:
        """The origin has not made the write."""
        self._settled = True

    async def forget_missing_upload(self) -> None:
        """The origin does not have what was to be changed. If that is an upload, it ended earlier, by an answer that
        was lost: what was kept for it would wait for nothing."""
        if self._forward.operation.name in _ENDINGS:
            await self._tracker.registry.forget(self._forward.upload)

    def discard(self) -> None:
        """Releases spooled bytes and staging that were not handed on. Idempotent."""
        if self._staging is not None:
            self._staging.discard()
        if self._spooled is not None:
            self._spooled.release()
            self._spooled = None

    async def close(self) -> None:
        """Ends the write. A part that it may have replaced is removed from the registry."""
        self.discard()
        if not self._settled and self._forward.operation.name in {"UploadPart", "UploadPartCopy"}:
            await self._remove_part()

    async def _remove_part(self) -> None:
        number = self._forward.part_number
        if number is not None:
            await self._tracker.registry.remove(self._forward.upload, number)
