"""A client that uploads one object in parts, a request at a time, and goes on after each worker that it loses.

    upload = ResumedUpload("upload/1", parts)
    await upload.run(lambda: endpoint)

It does what an SDK does: the same part again, with the same upload id.
"""

import asyncio
import hashlib
import re
from collections.abc import Callable, Sequence
from typing import Final
from urllib.parse import quote

from harness.clients import RawClient, path_of
from harness.raw_connection import RawAnswer
from harness.rig import TRAINER

_PAUSE: Final = 0.02
"""Seconds before another attempt, as an SDK pauses."""


class ResumedUpload:
    """See the module. The bucket is `ckpt`."""

    def __init__(self, key: str, parts: Sequence[bytes]) -> None:
        self.key = key
        self.is_done = False
        self.has_moved = False
        """Whether the origin has acknowledged its completion."""
        self.lost = 0
        """Answers that did not come."""
        self._parts = parts
        self._upload = ""
        self._etags: list[str] = []
        self._is_completion_lost = False

    @property
    def content(self) -> bytes:
        """What the object is to be."""
        return b"".join(self._parts)

    async def run(self, endpoint: Callable[[], str]) -> None:
        """Returns once the upload is completed. `endpoint`: of a worker, for each request. May be cancelled and run
        again: the request under way is lost then."""
        while not self.is_done:
            try:
                answer = await self._step(RawClient(endpoint(), TRAINER))
            except (OSError, EOFError):
                answer = None
            except asyncio.CancelledError:
                self._lose()
                raise
            if answer is None or answer.aborted:
                self._lose()
            elif answer.status == 200:
                self._go_on(answer)
                continue
            elif answer.status == 404 and self._is_completion_lost:
                self.is_done = True  # it was completed; the test looks whether that is so
            else:
                assert answer.status == 503, answer
            await asyncio.sleep(_PAUSE)

    def _lose(self) -> None:
        self.lost += 1
        self._is_completion_lost |= len(self._etags) == len(self._parts)

    async def _step(self, client: RawClient) -> RawAnswer:
        path = path_of("ckpt", self.key)
        if not self._upload:
            return await client.request("POST", f"{path}?uploads")
        query, number = f"uploadId={quote(self._upload)}", len(self._etags)
        if number < len(self._parts):
            return await client.request("PUT", f"{path}?partNumber={number + 1}&{query}", (), self._parts[number])
        listed = (
            f"<Part><PartNumber>{nth}</PartNumber><ETag>{etag}</ETag></Part>" for nth, etag in enumerate(self._etags, 1)
        )
        document = f"<CompleteMultipartUpload>{''.join(listed)}</CompleteMultipartUpload>".encode()
        return await client.request("POST", f"{path}?{query}", (), document)

    def _go_on(self, answer: RawAnswer) -> None:
        if not self._upload:
            found = re.search(rb"<UploadId>(.+)</UploadId>", answer.body)
            assert found is not None
            self._upload = found[1].decode()
        elif len(self._etags) < len(self._parts):
            part = self._parts[len(self._etags)]
            assert answer.headers["ETag"] == f'"{hashlib.md5(part, usedforsecurity=False).hexdigest()}"'
            self._etags.append(answer.headers["ETag"])
        else:
            self.is_done, self.has_moved = True, answer.headers["x-forebay-durable"] == "origin"
