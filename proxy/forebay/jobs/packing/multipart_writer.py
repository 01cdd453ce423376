"""Writes one object at the origin by multipart upload, from pieces in order, with one part in memory.

    write ──> buffer ──full──> UploadPart        finish ──> last part ──> CompleteMultipartUpload
                                                 abort  ──> AbortMultipartUpload

Nothing is visible before `finish`. A part is sent again where the origin fails in a way that may pass.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

from forebay.core.errors import ForebayError, OriginBroken, OriginError, OriginUnreachable, WriteRefused
from forebay.core.heads import HeaderPairs
from forebay.core.names import ObjectName
from forebay.core.s3_codes import S3_CODES
from forebay.origin.origin_limits import RETRIED_STATUSES
from forebay.origin.origin_request import UNSIGNED_PAYLOAD, OriginRequest
from forebay.origin.origins import Origins
from forebay.protocol.xml.s3_documents import UploadedPart, completion_document, embedded_error, upload_id

LEAST_PART: Final = 5 << 20
MAX_PARTS: Final = 10_000
ATTEMPTS: Final = 5
_DOCUMENT: Final = 1 << 20


class MultipartWriter:
    """A multipart upload. `pause(attempt)` is awaited between attempts."""

    def __init__(
        self,
        origins: Origins,
        name: ObjectName,
        part_size: int,
        pause: Callable[[int], Awaitable[None]],
        headers: HeaderPairs = (),
    ) -> None:
        self._origins = origins
        self.name = name
        self._part_size = max(LEAST_PART, part_size)
        self._pause = pause
        self._headers = headers
        self._buffer = bytearray()
        self._parts: list[UploadedPart] = []
        self._upload = ""
        self.size = 0
        """Bytes written so far."""

    async def write(self, piece: bytes | memoryview) -> None:
        """Adds bytes. Raises OriginError, S3Error, Throttled."""
        self.size += len(piece)
        view = memoryview(piece)
        while view:
            room = self._part_size - len(self._buffer)
            self._buffer += view[:room]
            view = view[room:]
            if len(self._buffer) == self._part_size:
                await self._send_part()

    async def finish(self, conditions: HeaderPairs = ()) -> None:
        """Completes the upload of at least one byte. After a WriteRefused another attempt is possible. Raises the
        errors of `write`."""
        if self._buffer or not self._parts:
            await self._send_part()
        document = completion_document(self._parts)
        body = await self._send_until_success(
            OriginRequest(
                "POST",
                *self.name,
                query=(("uploadId", self._upload),),
                headers=(("Content-Type", "application/xml"), *conditions),
                body=document,
                payload_hash=UNSIGNED_PAYLOAD,
                operation="CompleteMultipartUpload",
            )
        )
        if (code := embedded_error(body[0])) is not None:
            status, _ = S3_CODES.get(code, (500, ""))
            raise WriteRefused(f"{self.name.path}: the origin answered {code}", status)

    async def abort(self) -> None:
        """Aborts the upload. Raises nothing: if the abort fails, the origin's rules for unfinished uploads remove
        it."""
        if not self._upload:
            return
        query = (("uploadId", self._upload),)
        with suppress(ForebayError):
            request = OriginRequest("DELETE", *self.name, query=query, operation="AbortMultipartUpload")
            async with await self._origins.send(request):
                pass

    async def _send_part(self) -> None:
        if not self._upload:
            created = OriginRequest(
                "POST", *self.name, query=(("uploads", ""),), headers=self._headers, operation="CreateMultipartUpload"
            )
            self._upload = upload_id((await self._send_until_success(created))[0]) or ""
            if not self._upload:
                raise OriginBroken("an upload without an id")
        number = len(self._parts) + 1
        request = OriginRequest(
            "PUT",
            *self.name,
            query=(("partNumber", str(number)), ("uploadId", self._upload)),
            body=bytes(self._buffer),
            content_length=len(self._buffer),
            payload_hash=UNSIGNED_PAYLOAD,
            operation="UploadPart",
        )
        _, etag = await self._send_until_success(request)
        self._parts.append(UploadedPart(number, etag))
        self._buffer.clear()

    async def _send_until_success(self, request: OriginRequest) -> tuple[bytes, str]:
        """Sends a request until it succeeds. Returns its document, and its ETag."""
        for attempt in range(1, ATTEMPTS + 1):
            problem = ""
            try:
                async with await self._origins.send(request) as answer:
                    document = await answer.read(_DOCUMENT)
                    if answer.status < 300:
                        return document, answer.headers.get("ETag", "")
                    code = embedded_error(document) or str(answer.status)
                    problem = f"{self.name.path}: the origin answered {code} to {request.operation}"
                    if answer.status not in RETRIED_STATUSES:
                        raise WriteRefused(problem, answer.status)
            except OriginUnreachable as error:
                problem = error.reason
            except OriginBroken:
                raise
            except OriginError as error:
                raise OriginBroken(f"{self.name.path}: {error.reason}") from None
            if attempt < ATTEMPTS:
                await self._pause(attempt)
        raise OriginBroken(problem)


async def pause_between_attempts(attempt: int) -> None:
    """Waits longer with each attempt."""
    await asyncio.sleep(0.2 * 2**attempt)
