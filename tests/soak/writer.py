"""What a client does to its own keys: write, delete one or several, upload in parts."""

import base64
import hashlib
import random
from typing import Final

from harness.clients import path_of
from harness.fake.multipart import SMALLEST
from harness.raw_connection import RawAnswer
from soak.cell_content import CELL, content
from soak.client_requests import ClientRequest, RequestSender
from soak.configuration import BUCKET, VERSIONED, keys_of
from soak.oracle import NOTHING, Oracle

SIZES: Final = (CELL, 4096, 65536, 65536 * 3 + CELL, 1 << 20, 3 << 20)
VERSIONS_KEPT: Final = 40
"""Of those that a client has written by name, it reads the last so many."""


class Writer:
    """Of one client; nobody else writes to its keys."""

    def __init__(self, sender: RequestSender, oracle: Oracle, number: int, rng: random.Random) -> None:
        self._sender, self._oracle, self._number, self._rng = sender, oracle, number, rng
        self._own = keys_of(number)
        self._versions: list[tuple[str, str, int]] = []
        """Key, version id and number of what was written to the bucket that keeps them."""
        self._written = 0

    async def write(self) -> None:
        key = self._rng.choice(self._own)
        body = self._oracle.begin(key, self._rng.choice(SIZES))
        version = self._oracle.keys[key].begun
        if _succeeded(await self._sender.send(ClientRequest("PUT", path_of(BUCKET, key), body=body))):
            self._oracle.acknowledge(key, version)

    async def delete(self) -> None:
        key = self._rng.choice(self._own)
        if _succeeded(await self._sender.send(ClientRequest("DELETE", path_of(BUCKET, key)))):
            self._oracle.acknowledge(key, NOTHING)

    async def delete_several(self) -> None:
        keys = self._rng.sample(self._own, 2)
        body = f"<Delete>{''.join(f'<Object><Key>{key}</Key></Object>' for key in keys)}</Delete>".encode()
        digest = base64.b64encode(hashlib.md5(body, usedforsecurity=False).digest()).decode()
        headers = [("Content-MD5", digest)]
        answer = await self._sender.send(ClientRequest("POST", f"{path_of(BUCKET)}?delete=", headers, body))
        if _succeeded(answer):
            for key in keys:
                if f"<Key>{key}</Key></Deleted>".encode() in answer.body:
                    self._oracle.done["deleted with others"] += 1
                    self._oracle.acknowledge(key, NOTHING)

    async def upload(self) -> None:
        """In two parts, each through whichever worker it meets."""
        key = self._rng.choice(self._own)
        body = self._oracle.begin(key, SMALLEST + self._rng.choice(SIZES))
        version, target = self._oracle.keys[key].begun, path_of(BUCKET, key)
        answer = await self._sender.send(ClientRequest("POST", f"{target}?uploads"))
        if not _succeeded(answer):
            return
        upload = answer.body.partition(b"<UploadId>")[2].partition(b"</UploadId>")[0].decode()
        listed = ""
        for number, part in enumerate((body[:SMALLEST], body[SMALLEST:]), 1):
            of_it = f"{target}?partNumber={number}&uploadId={upload}"
            answer = await self._sender.send(ClientRequest("PUT", of_it, body=part))
            if not _succeeded(answer):
                return
            listed += f"<Part><PartNumber>{number}</PartNumber><ETag>{answer.headers['ETag']}</ETag></Part>"
        document = f"<CompleteMultipartUpload>{listed}</CompleteMultipartUpload>".encode()
        answer = await self._sender.send(ClientRequest("POST", f"{target}?uploadId={upload}", body=document))
        if _succeeded(answer) and b"<CompleteMultipartUploadResult" in answer.body:
            self._oracle.done["uploads in parts"] += 1
            self._oracle.acknowledge(key, version)

    # Versions by their id

    async def write_version(self) -> None:
        self._written += 1
        key, number = f"kept-{self._number}-{self._written % 3}", self._written
        answer = await self._sender.send(ClientRequest("PUT", path_of(VERSIONED, key), body=_kept(key, number)))
        if _succeeded(answer):
            self._versions.append((key, answer.headers["x-amz-version-id"], number))

    async def read_version(self) -> None:
        if not self._versions:
            return
        key, version_id, number = self._rng.choice(self._versions[-VERSIONS_KEPT:])
        since = self._oracle.snapshot(key)
        answer = await self._sender.send(ClientRequest("GET", f"{path_of(VERSIONED, key)}?versionId={version_id}"))
        if answer.aborted or answer.status == 503:
            return
        assert answer.status == 200, answer
        self._oracle.verify_bytes(f"{key} by the id of version {number}", since, answer, _kept(key, number))
        self._oracle.done["versions by their id"] += 1


def _kept(key: str, number: int) -> bytes:
    return content(key, number, 4096 if number % 2 else 65536 * 2 + CELL)


def _succeeded(answer: RawAnswer) -> bool:
    assert answer.status in {0, 200, 204, 503}, answer
    return answer.status in {200, 204} and not answer.aborted
