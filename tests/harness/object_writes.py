"""Writes as functions of a client, so that tables can name them."""

import base64
import hashlib
import re
from collections.abc import Awaitable, Callable

from harness.clients import RawClient
from harness.raw_connection import RawAnswer

Write = Callable[[RawClient], Awaitable[RawAnswer]]


def simple(method: str, target: str, *headers: tuple[str, str], body: bytes = b"") -> Write:
    async def write(client: RawClient) -> RawAnswer:
        return await client.request(method, target, headers, body)

    return write


def complete(target: str) -> Write:
    """A multipart upload of one part, whose completion is the answer."""

    async def write(client: RawClient) -> RawAnswer:
        created = await client.request("POST", f"{target}?uploads")
        found = re.search(rb"<UploadId>(.*)</UploadId>", created.body)
        assert found is not None
        upload = found[1].decode()
        part = await client.request("PUT", f"{target}?partNumber=1&uploadId={upload}", (), b"from parts")
        listed = f"<Part><PartNumber>1</PartNumber><ETag>{part.headers['ETag']}</ETag></Part>"
        body = f"<CompleteMultipartUpload>{listed}</CompleteMultipartUpload>".encode()
        return await client.request("POST", f"{target}?uploadId={upload}", (), body)

    return write


def delete_many(*keys: str) -> Write:
    body = f"<Delete>{''.join(f'<Object><Key>{key}</Key></Object>' for key in keys)}</Delete>".encode()
    digest = base64.b64encode(hashlib.md5(body, usedforsecurity=False).digest()).decode()
    return simple("POST", "/bucket?delete", ("Content-MD5", digest), body=body)
