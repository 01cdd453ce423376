"""Repeated completions: a CompleteMultipartUpload of an upload that was completed before, as its client has missed the
answer.

    404 NoSuchUpload ──> HEAD of the object ──┬─ its ETag is that of the listed parts ──> 200, as S3 answers
                                              └─ any other answer ──> the origin's 404

S3 answers a repeated completion as the first time, and Swift does. Others (OSS, MinIO) have forgotten the upload.

https://docs.aws.amazon.com/AmazonS3/latest/API/API_CompleteMultipartUpload.html
"""

import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from hashlib import md5
from typing import Final

from forebay.core.cooperative import run_cooperatively
from forebay.core.errors import ForebayError, S3Error
from forebay.core.heads import HeaderPairs
from forebay.core.names import ObjectName
from forebay.origin.origin_identity import OriginIdentity, request_credential
from forebay.origin.origin_response import OriginResponse
from forebay.origin.origins import Origins
from forebay.origin.reads.origin_read import OriginRead
from forebay.origin.reads.read_outcomes import ObjectOpened
from forebay.protocol.body.part_checksums import multipart_etag
from forebay.protocol.conditions import same_etag
from forebay.protocol.xml.s3_documents import UploadedPart, completed_document, embedded_error, read_parts_cooperatively
from forebay.write.forward_request import ForwardRequest

_MD5: Final = re.compile("[0-9a-f]{32}", re.IGNORECASE)
_REFUSAL_LIMIT: Final = 64 << 10
_ADDED: Final = frozenset({"x-amz-version-id", "x-oss-hash-crc64ecma", "x-amz-server-side-encryption"})
"""The headers of an object that its HEAD and the answer to its completion have."""
_OF_THE_BODY: Final = frozenset({"content-length", "content-type", "transfer-encoding", "x-oss-err", "x-oss-ec"})


def completed_etag(parts: Sequence[UploadedPart]) -> str:
    """Returns the ETag, quoted, of an object of these parts; empty: theirs don't show it."""
    etags = [each.etag.strip('"') for each in parts]
    return f'"{multipart_etag(etags)}"' if etags and all(map(_MD5.fullmatch, etags)) else ""


def completion_digest(document: bytes, conditions: HeaderPairs | None = None) -> str:
    """Returns the digest by which a repeated completion is recognised. `conditions`: those that it has for the origin
    (write.back.drain.origin_completion)."""
    digest = md5(document, usedforsecurity=False)
    for name, value in sorted((name.lower(), value) for name, value in conditions or ()):
        digest.update(f"\n{name}: {value}".encode())
    return digest.hexdigest()


class RepeatedCompletions:
    """Tells repeated completions from those of uploads that never were."""

    def __init__(self, origins: Origins) -> None:
        self._origins = origins

    async def find(
        self, name: ObjectName, identity: OriginIdentity | None, expected: str
    ) -> tuple[str, HeaderPairs] | None:
        """Returns the ETag of an object, and what the answer to its completion tells, as headers; None: the origin has
        not the `expected` one, or that can't be found out."""
        if not expected:
            return None
        with suppress(ForebayError):
            found = await self._origins.open_read(
                name, OriginRead("HEAD"), credential=await request_credential(identity)
            )
            if isinstance(found, ObjectOpened) and same_etag(found.facts.version.etag, expected):
                headers = tuple(pair for pair in found.facts.headers if pair[0].lower() in _ADDED)
                return found.facts.version.etag, headers
        return None

    async def answer_again(
        self,
        forward: ForwardRequest,
        answer: OriginResponse,
        document: bytes,
        joined_etag: Callable[[], str] = lambda: "",
    ) -> None:
        """Replaces the origin's `answer` to a completion by `document`, if the upload was completed before.
        `joined_etag`: the ETag of its object, if that was made of joined parts. Raises OriginError."""
        if answer.status != 404 or embedded_error(await answer.peek(_REFUSAL_LIMIT)) != "NoSuchUpload":
            return
        try:
            parts = await run_cooperatively(read_parts_cooperatively(document))
        except S3Error:
            return
        name = forward.target.name
        if (found := await self.find(name, forward.identity, joined_etag() or completed_etag(parts))) is not None:
            etag, headers = found
            kept = ((field, value) for field, value in answer.headers.items() if field.lower() not in _OF_THE_BODY)
            content = completed_document(name, etag, forward.request.url)
            answer.replace_head(200, (*kept, *headers, ("Content-Type", "application/xml")), content)
