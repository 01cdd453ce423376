"""Acceptance: a write under a `back` rule is acknowledged once the journal has it.

    may it? ──> into the journal (object_acceptance, upload_acceptance) ──> acknowledged
       └ no: it goes through, after what was acknowledged before it

It may if nothing about it needs the origin's state (forebay.policy.acceptable_writes), the origin is known to accept
such writes (write_proofs, write_probe), no fence of a rule demands otherwise, and the journal has room. The requests of
an upload that was created here are answered here, to its end, unless it has to go on at the origin (upload_moves). The
bucket's expected owner is compared by the origin first (origin.origin_checks).
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from forebay.core.heads import DURABILITY
from forebay.core.names import ObjectName
from forebay.origin.origin_checks import SOURCE_OWNER, OriginChecks
from forebay.policy.acceptable_writes import key_obstacle, obstacle
from forebay.policy.rules import Rules
from forebay.protocol.copy_source import parse_copy_source
from forebay.protocol.forwarded_headers import SIGNATURE_QUERY
from forebay.protocol.xml.s3_documents import ListedKey
from forebay.write.back.accept.object_acceptance import ObjectAcceptance
from forebay.write.back.accept.record_writer import RecordWriter
from forebay.write.back.accept.upload_acceptance import MOVED, UploadAcceptance
from forebay.write.back.accept.write_probe import WriteProbe
from forebay.write.back.accept.write_proofs import WriteProof, WriteProofs, proof_of
from forebay.write.back.drain.origin_completion import is_for_origin
from forebay.write.back.pending.pending_uploads import is_local
from forebay.write.forward_request import ForwardRequest, WriteContext
from forebay.write.packed_deletions import PackedDeletion

_UPLOAD_OPERATIONS: Final = frozenset(
    {"UploadPart", "UploadPartCopy", "CompleteMultipartUpload", "AbortMultipartUpload"}
)
_OWN_CREDENTIAL: Final = "a credential of the client's own"


class Acceptance:
    """Decides whether a write is accepted. `has_room(size)`: whether the journal takes so many bytes more."""

    def __init__(
        self,
        writer: RecordWriter,
        objects: ObjectAcceptance,
        uploads: UploadAcceptance,
        proofs: WriteProofs,
        probe: WriteProbe,
        has_room: Callable[[int], Awaitable[bool]],
        checks: OriginChecks,
    ) -> None:
        self._writer = writer
        self._objects = objects
        self._uploads = uploads
        self._proofs = proofs
        self._probe = probe
        self._has_room = has_room
        self._checks = checks

    async def obstacle(self, context: WriteContext) -> str | None:
        """Returns the reason why a write has to go through; None: it is accepted, or refused, here. Raises S3Error,
        OriginError, Throttled."""
        forward, decision = context.forward, context.decision
        operation = forward.operation.name
        if operation in _UPLOAD_OPERATIONS:
            if not is_local(forward.upload.upload_id):
                return "its upload is the origin's"
            if forward.identity is not None:  # the origin decides, and knows no such upload
                return _OWN_CREDENTIAL
            reason = await self._uploads.obstacle(context)
            if reason is None:
                await self._check_owners(forward)
            return reason
        if decision is None or decision.write != "back":
            return "the rule"
        name = forward.target.name
        if decision.fence and any(fence.matches(name.path) for fence in decision.fence):
            return "a fence"
        return await self._obstacle(context, [name])

    async def _check_owners(self, forward: ForwardRequest) -> None:
        """Checks the owners that a request of an upload expects of its bucket and of the bucket that it copies from.
        Raises S3Error, OriginError, Throttled."""
        headers = forward.request.headers
        await self._checks.check_owner(forward.target.name.bucket, None, headers, forward.identity)
        if forward.operation.name == "UploadPartCopy" and (source := parse_copy_source(headers)) is not None:
            await self._checks.check_owner(source.name.bucket, None, headers, forward.identity, header=SOURCE_OWNER)

    async def batch_obstacle(self, context: WriteContext, listed: Sequence[ListedKey], rules: Rules) -> str | None:
        """Returns why a batch delete has to go through, as `obstacle` does for other writes. `listed`: by its
        document."""
        if any(each.version_id is not None for each in listed):
            return "a version"
        if any(each.is_conditional for each in listed):
            return "a condition"
        names = [ObjectName(context.forward.target.bucket or "", each.key) for each in listed]
        if any(rules.decide(name).write != "back" for name in names):
            return "the rule"
        if any(fence.matches(name.path) for name in names for fence in rules.decide(name).fence):
            return "a fence"
        return await self._obstacle(context, names)

    async def _obstacle(self, context: WriteContext, names: Sequence[ObjectName]) -> str | None:
        forward, operation = context.forward, context.forward.operation.name
        headers, sent_query, bucket = forward.request.headers, forward.target.query, forward.target.bucket or ""
        if is_for_origin(headers):
            return f"its header {DURABILITY}"
        query = [each for each, _ in sent_query if each.lower() not in SIGNATURE_QUERY] if sent_query else ()
        reason = obstacle(operation, query, headers, self._writer.dialect(context).extensions)
        for name in names:
            reason = reason or key_obstacle(name.key)
        if reason is None and operation == "CopyObject":
            reason = self._objects.copy_obstacle(context)
        if reason is not None:
            return reason
        if self._writer.has_failed:
            return "the journal has failed"
        if forward.identity is not None:
            return _OWN_CREDENTIAL
        credential_reason = self._probe.credential_obstacle(bucket)
        if credential_reason is not None:
            return credential_reason
        unproven = self._unproven(operation, names)
        if unproven:
            await asyncio.gather(
                *(self._probe.prove(proof, name) for proof, name in unproven.items() if proof is not None)
            )
        bucket_reason = self._proofs.bucket_obstacle(bucket)
        if bucket_reason is not None:
            return bucket_reason
        if unproven and self._unproven(operation, names):
            return "the first of its kind"
        if operation == "CreateMultipartUpload" and self._proofs.has_outgrown(names[0]):
            return "its last upload was larger than the journal"
        length = forward.content_size
        if operation == "PutObject" and length is None:
            return "a body of unknown length"
        return None if await self._has_room(length or 0) else "the journal is full"

    def _unproven(self, operation: str, names: Sequence[ObjectName]) -> dict[WriteProof | None, ObjectName]:
        """Returns the missing proofs for writes of these objects, each with one of the objects."""
        covers, found = self._proofs.covers, dict[WriteProof | None, ObjectName]()
        for name in names:
            proof = proof_of(operation, name)
            if proof is None or not covers(proof):
                found[proof] = name
        return found

    async def accept(self, context: WriteContext, members: PackedDeletion | None = None) -> str | None:
        """Accepts a write without an obstacle, answers it and returns None. Returns an obstacle that has come up
        meanwhile, as `obstacle` does. `members`: those that it deletes. Raises S3Error, OriginError, Throttled,
        ConnectionError."""
        match context.forward.operation.name:
            case "PutObject":
                await self._objects.put(context)
            case "CopyObject":
                await self._objects.copy(context)
            case "DeleteObject":
                await self._objects.delete(context, members)
            case "CreateMultipartUpload":
                await self._uploads.create(context)
            case "UploadPart":
                await self._uploads.part(context)
            case "CompleteMultipartUpload":
                await self._uploads.complete(context)
            case "AbortMultipartUpload":
                await self._uploads.abort(context)
            case "UploadPartCopy":
                return None if await self._uploads.copied_part(context) else MOVED
            case unknown:
                raise ValueError(f"{unknown} has an obstacle")
        return None

    async def accept_deletions(
        self, context: WriteContext, listed: Sequence[ListedKey], members: PackedDeletion | None, *, quiet: bool
    ) -> None:
        """Accepts a batch delete without an obstacle, and answers it. `members`: those that it deletes. Raises S3Error,
        OriginError, Throttled, ConnectionError."""
        await self._objects.delete_many(context, [each.key for each in listed], members, quiet=quiet)
