"""Installing: under a rule with `warm_on_write`, what passes through on its way up is in the cache when it is
confirmed.

    PutObject                  staged as it passes, installed when the origin has confirmed it
    UploadPart                 staged as it passes, remembered under its upload
    CompleteMultipartUpload    its parts are cut anew into the blocks of the object, and installed
    AbortMultipartUpload       its parts are forgotten

Best effort throughout: what can't be staged is fetched by whoever reads it first.
"""

from collections.abc import Sequence
from typing import Final

from forebay.core.fair_semaphore import FairSemaphore
from forebay.core.names import ObjectName
from forebay.core.task_registry import TaskRegistry
from forebay.metadata.staged_objects import StagedBody, StagedObjects
from forebay.origin.origin_response import OriginResponse
from forebay.policy.rules import Decision
from forebay.protocol.xml.s3_documents import UploadedPart, result_etag
from forebay.storage.tiers import Tiers
from forebay.write.block_staging import BlockStaging, restage
from forebay.write.forwarder import ForwardRequest
from forebay.write.multipart.staged_uploads import StagedUploads

_STAGED: Final = frozenset({"PutObject", "UploadPart"})
# With these the object is not, or is not only, the body that passes through.
_UNFIT: Final = ("x-amz-server-side-encryption-customer-", "x-amz-write-offset-bytes")


class WarmOnWrite:
    """Takes what passes through into the cache."""

    def __init__(self, tiers: Tiers, budget: FairSemaphore, staged: StagedObjects, tasks: TaskRegistry) -> None:
        self._tiers = tiers
        self._budget = budget
        self._staged = staged
        self._tasks = tasks
        self.uploads = StagedUploads()

    def staging(self, forward: ForwardRequest, decision: Decision | None) -> BlockStaging | None:
        """Where the body of a write goes besides the origin; None: nowhere."""
        if decision is None or not (decision.accelerate and decision.warm_on_write):
            return None
        if forward.operation.name not in _STAGED or not forward.request.has_body:
            return None
        if any(name.lower().startswith(_UNFIT) for name in forward.request.headers):
            return None
        name = forward.target.name
        if forward.operation.name == "UploadPart":
            name = _aside(name, forward.target.param("uploadId") or "")
        return BlockStaging(self._tiers, self._budget, name, decision.block)

    def confirmed(
        self,
        forward: ForwardRequest,
        staging: BlockStaging | None,
        answer: OriginResponse,
        listed: Sequence[UploadedPart] | None,
        result: bytes,
    ) -> None:
        """The origin has confirmed the write that `parcel` is, and its last fence is up. `listed`: the parts that a
        completion lists; None where the origin read it otherwise than we do."""
        match forward.operation.name:
            case "PutObject" if staging is not None:
                staged = staging.complete(answer.headers.get("ETag", ""))
                if staged is not None:
                    self._staged.install(forward.target.name, staged, forward.identity)
            case "UploadPart" if staging is not None:
                staged = staging.complete(answer.headers.get("ETag", ""))
                upload, number = forward.target.param("uploadId"), forward.target.param("partNumber")
                if staged is not None and upload is not None and number is not None and number.isdecimal():
                    self.uploads.add(forward.target.name, upload, int(number), staged)
            case "CompleteMultipartUpload":
                etag = result_etag(result)
                if etag is not None:
                    self._complete(forward, forward.target.param("uploadId") or "", listed or (), etag)
            case "AbortMultipartUpload":
                self.uploads.end(forward.target.name, forward.target.param("uploadId") or "")
            case _:
                pass

    def _complete(self, parcel: ForwardRequest, upload_id: str, listed: Sequence[UploadedPart], etag: str) -> None:
        name = parcel.target.name
        parts = self.uploads.completed(name, upload_id, listed)
        if parts:
            self._tasks.spawn(self._join(parcel, _aside(name, upload_id), parts, etag), f"join {name.path}")

    async def _join(self, parcel: ForwardRequest, aside: ObjectName, parts: list[StagedBody], etag: str) -> None:
        name = parcel.target.name
        joined = BlockStaging(self._tiers, self._budget, name, parts[0].block_size)
        try:
            await self._tiers.flush()  # the last part may still be on its way to the SSD
            for part in parts:
                if not await restage(self._tiers, aside, part, joined):
                    return
            staged = joined.complete(etag)
            if staged is not None:
                self._staged.install(name, staged, parcel.identity)
        finally:
            joined.discard()


def _aside(name: ObjectName, upload_id: str) -> ObjectName:
    """Where the parts of an upload are staged: under a name that no object can have (keys hold no NUL), so that a write
    to the object itself, the completion among them, does not forget them."""
    return ObjectName(name.bucket, f"{name.key}\0{upload_id}")
