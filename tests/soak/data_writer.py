"""What a writer of the data bucket does to its own keys: PUT, copy, delete one or several, upload in parts."""

import base64
import hashlib
import random
import re
from typing import Final

from harness.clients import path_of
from harness.fake.multipart import SMALLEST
from harness.raw_connection import RawAnswer
from soak.cell_content import CELL
from soak.client_requests import ClientRequest, RequestSender
from soak.contested_writes import ContestedWrites
from soak.data_bucket import DATA, written_keys
from soak.write_history import WriteHistory

SIZES: Final = (CELL, 4096, 65536, 65536 * 3 + CELL, 400 * 1024, 1 << 20)
_FAILED: Final = frozenset({0, 500, 502, 503, 504})
"""What says nothing about the effect; 0: no answer."""
_ETAG: Final = re.compile(r"<ETag>(?:&quot;|&#34;|\")?([0-9A-Fa-f-]+)")


class DataWriter:
    """See the module."""

    def __init__(self, sender: RequestSender, history: WriteHistory, number: int, rng: random.Random) -> None:
        self._sender, self._history, self._rng = sender, history, rng
        self._own = written_keys(number)
        self._contested = ContestedWrites(sender, history, self._own, rng)

    async def act(self) -> None:
        roll = self._rng.random()
        if roll < 0.33:
            await self._write()
        elif roll < 0.43:
            await self._contested.overlap()
        elif roll < 0.47:
            await self._contested.create()
        elif roll < 0.5:
            await self._contested.break_off()
        elif roll < 0.65:
            await self._copy()
        elif roll < 0.8:
            await self._delete()
        elif roll < 0.92:
            await self._delete_several()
        else:
            await self._upload()

    async def _write(self) -> None:
        key = self._rng.choice(self._own)
        body, write = self._history.begin(key, self._rng.choice(SIZES))
        answer = await self._sender.send(ClientRequest("PUT", path_of(DATA, key), body=body))
        if self._succeeded(answer):
            self._history.acknowledge(key, write, durable=_durable(answer))

    async def _copy(self) -> None:
        source, key = self._rng.sample(self._own, 2)
        write = self._history.begin_copy(key, source)
        may_be_gone = self._history.possible(source, self._history.since(source)) != write.effects
        headers = [("x-amz-copy-source", path_of(DATA, source))]
        answer = await self._sender.send(ClientRequest("PUT", path_of(DATA, key), headers))
        if answer.status == 404:
            assert may_be_gone, f"no source {source} was found: {answer}"
            self._history.refuse(write)
        elif self._succeeded(answer) and (etag := _ETAG.search(answer.body.decode())):
            self._history.done["copies"] += 1
            self._history.acknowledge(key, write, f'"{etag[1]}"', _durable(answer))

    async def _delete(self) -> None:
        key = self._rng.choice(self._own)
        write = self._history.begin_deletion(key)
        answer = await self._sender.send(ClientRequest("DELETE", path_of(DATA, key)))
        if self._succeeded(answer):
            self._history.acknowledge(key, write, durable=_durable(answer))

    async def _delete_several(self) -> None:
        keys = self._rng.sample(self._own, 3)
        writes = [self._history.begin_deletion(key) for key in keys]
        body = f"<Delete>{''.join(f'<Object><Key>{key}</Key></Object>' for key in keys)}</Delete>".encode()
        digest = base64.b64encode(hashlib.md5(body, usedforsecurity=False).digest()).decode()
        answer = await self._sender.send(
            ClientRequest("POST", f"{path_of(DATA)}?delete=", [("Content-MD5", digest)], body)
        )
        if self._succeeded(answer):
            for key, write in zip(keys, writes, strict=True):
                if f"<Key>{key}</Key></Deleted>".encode() in answer.body:
                    self._history.done["deleted with others"] += 1
                    self._history.acknowledge(key, write, durable=_durable(answer))

    async def _upload(self) -> None:
        """In two parts; an upload that can't be completed is aborted."""
        key = self._rng.choice(self._own)
        parts = (SMALLEST, self._rng.choice(SIZES))
        target = path_of(DATA, key)
        answer = await self._sender.send(ClientRequest("POST", f"{target}?uploads"))
        if not self._succeeded(answer):
            return
        upload = answer.body.partition(b"<UploadId>")[2].partition(b"</UploadId>")[0].decode()
        body, write = self._history.begin(key, sum(parts), parts)
        listed = ""
        for number, part in enumerate((body[: parts[0]], body[parts[0] :]), 1):
            of_it = f"{target}?partNumber={number}&uploadId={upload}"
            answer = await self._sender.send(ClientRequest("PUT", of_it, body=part))
            if not self._succeeded(answer):
                self._history.refuse(write)
                await self._sender.send(ClientRequest("DELETE", f"{target}?uploadId={upload}"))
                return
            listed += f"<Part><PartNumber>{number}</PartNumber><ETag>{answer.headers['ETag']}</ETag></Part>"
        document = f"<CompleteMultipartUpload>{listed}</CompleteMultipartUpload>".encode()
        answer = await self._sender.send(ClientRequest("POST", f"{target}?uploadId={upload}", body=document))
        if self._succeeded(answer) and b"<CompleteMultipartUploadResult" in answer.body:
            self._history.done["uploads in parts"] += 1
            self._history.acknowledge(key, write, durable=_durable(answer))

    def _succeeded(self, answer: RawAnswer) -> bool:
        assert answer.status in {200, 204, *_FAILED}, answer
        if _durable(answer) == "local":
            self._history.done["acknowledged from the journal"] += 1
        return answer.status in {200, 204} and not answer.aborted


def _durable(answer: RawAnswer) -> str:
    return answer.headers.get("x-forebay-durable", "")
