"""Conditions of a write to the key of a member of a pack: the origin has no object there, so they are evaluated here.

    If-None-Match: *    412: there is an object
    If-Match            412 for another ETag than the member's. Else sent as If-None-Match: *, so that nothing that has
                        come in the member's place is replaced; a DELETE, which has no such condition, without one

Where the origin has an object too, or the member is deleted, the origin evaluates them.

https://docs.aws.amazon.com/AmazonS3/latest/userguide/conditional-writes.html, conditional-deletes.html
"""

from typing import Final

from multidict import CIMultiDict, CIMultiDictProxy

from forebay.core.errors import S3Error
from forebay.metadata.lookup_request import LookupRequest
from forebay.metadata.packed_objects import PackedObjects
from forebay.metadata.resolution import ResolvedVersion
from forebay.origin.origin_checks import OriginChecks
from forebay.protocol.conditions import same_etag
from forebay.write.forward_request import WriteContext

_MATCH: Final = "If-Match"
_NONE_MATCH: Final = "If-None-Match"
_ANY: Final = "*"
_DELETE: Final = "DeleteObject"
_CONDITIONAL: Final = frozenset({"PutObject", "CopyObject", "CompleteMultipartUpload", _DELETE})
_FORBIDDING: Final = _CONDITIONAL | {"CreateMultipartUpload"}
"""The operations that OSS refuses under `x-oss-forbid-overwrite`."""


class PackedConditions:
    """Evaluates the conditions of writes to keys of members. Keeps no state."""

    def __init__(self, packed: PackedObjects, checks: OriginChecks) -> None:
        self._packed = packed
        self._checks = checks

    async def as_write(self, context: WriteContext) -> WriteContext:
        """The write with conditions that the origin can evaluate. Raises S3Error, OriginError, Throttled."""
        forward, decision = context.forward, context.decision
        operation, oss_request = forward.operation.name, forward.request.oss_request
        if decision is None or decision.packed is None or operation not in _FORBIDDING:
            return context
        sent = forward.request.headers if operation in _CONDITIONAL else {}
        must_be_new = sent.get(_NONE_MATCH, "").strip() == _ANY
        if oss_request is not None and oss_request.forbids_overwrite:
            must_be_new = True
        if not must_be_new and _MATCH not in sent:
            return context
        name = forward.target.name
        try:
            found = await self._packed.resolve(LookupRequest(name, decision, None, identity=forward.identity))
        except S3Error as error:
            if error.code != "NoSuchKey":
                raise
            return context  # its deletion is pending, and at the origin before the write is
        if not isinstance(found, ResolvedVersion) or found.stored is None:
            return context
        if must_be_new:
            raise S3Error("PreconditionFailed", Condition=_NONE_MATCH)
        if await self._checks.has_object(name, forward.identity):
            return context
        is_deletion, wanted = operation == _DELETE, sent[_MATCH].strip()
        if not (same_etag(wanted, found.head.version.etag) or (is_deletion and wanted == _ANY)):
            raise S3Error("PreconditionFailed", Condition=_MATCH)
        headers = CIMultiDict(sent)
        headers.popall(_MATCH)
        if not is_deletion:
            headers[_NONE_MATCH] = _ANY
        request = forward.request._replace(headers=CIMultiDictProxy(headers))

        async def verify() -> None:
            if await self.as_write(context) is context:  # there is an object now, or no member any more
                raise S3Error("PreconditionFailed", Condition=_MATCH)

        return context._replace(forward=forward._replace(request=request), verify=verify)
