"""An OSS client of few words: signs by version 4 in the header, sends, reads. Not an SDK: those are in tests/compat.

client = OssClient(rig.endpoint, TRAINER)
answer = await client.request("GET", "/bucket/key", [("Range", "bytes=0-9")])
upload = await client.initiate("/bucket/key")
"""

import re
import time
from base64 import b64encode
from collections.abc import Iterable, Sequence
from hashlib import md5

from harness.clients import RawClient, RawRequest
from harness.raw_connection import RawAnswer
from harness.reference_sigv4 import Secret
from security.oss_signers import OSS_SIGNERS
from security.signers import Pairs

_SIGN = OSS_SIGNERS["SignedOssV4", "header"]


class OssClient:
    def __init__(self, endpoint: str, secret: Secret) -> None:
        self.raw, self.secret = RawClient(endpoint, secret), secret

    async def request(self, method: str, target: str, headers: Pairs = (), body: bytes = b"") -> RawAnswer:
        return await self.raw.send(_SIGN(self.secret, method, target, headers, body, time.time(), None))

    async def chunked(self, method: str, target: str, pieces: Iterable[bytes]) -> RawAnswer:
        """An upload that does not say how long it is."""
        signed = _SIGN(self.secret, method, target, (), b"", time.time(), None)
        pairs = [pair for pair in signed.pairs if pair[0].lower() != "content-length"]
        framed = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"
        return await self.raw.send(RawRequest(method, target, (*pairs, ("Transfer-Encoding", "chunked")), framed))

    async def document(self, method: str, target: str, body: bytes, headers: Pairs = ()) -> RawAnswer:
        """With the Content-MD5 that OSS wants."""
        digest = b64encode(md5(body, usedforsecurity=False).digest()).decode()
        return await self.request(method, target, [*headers, ("Content-MD5", digest)], body)

    async def initiate(self, target: str) -> str:
        answer = await self.request("POST", f"{target}?uploads")
        assert answer.status == 200, answer.body
        return told(answer, "UploadId")

    async def part(self, target: str, upload: str, number: int, body: bytes) -> RawAnswer:
        answer = await self.request("PUT", f"{target}?partNumber={number}&uploadId={upload}", (), body)
        assert answer.status == 200, answer.body
        return answer

    async def complete(self, target: str, upload: str, parts: Sequence[tuple[int, str]]) -> RawAnswer:
        listed = "".join(f"<Part><PartNumber>{number}</PartNumber><ETag>{etag}</ETag></Part>" for number, etag in parts)
        body = f"<CompleteMultipartUpload>{listed}</CompleteMultipartUpload>".encode()
        return await self.document("POST", f"{target}?uploadId={upload}", body)


def told(answer: RawAnswer, name: str) -> str:
    """The text of the first element of that name."""
    found = re.search(rf"<{name}>([^<]*)</{name}>".encode(), answer.body)
    assert found is not None, answer.body
    return found[1].decode()
