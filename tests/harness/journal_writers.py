"""Clients that write through workers which are killed, what they were acknowledged, and what must hold in the end.

They PUT, upload in parts, copy and delete, one request at a time each. Who has lost its worker goes on with another
one, and waits for one while there is none.
"""

import asyncio
import hashlib
import itertools
import re
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from random import Random
from typing import Final, TypeAlias
from urllib.parse import quote

from harness.clients import RawClient, path_of
from harness.origin_history import AcknowledgedWrite, Effect, RecordingStore, check_history
from harness.rig import TRAINER

LARGE: Final = 300_000
"""Bytes of a body that has a file of its own."""
LARGER: Final = 1_200_000
"""Likewise, which is removed in steps of a MiB."""
Write: TypeAlias = Callable[[RawClient, int], Awaitable[object]]
_FOLDERS: Final = frozenset({"a", "gone", "source", "copy", "upload"})
_GONE: Final = b"to be deleted"


class JournalWriters:
    """See the module. The bucket is `ckpt`."""

    def __init__(self, store: RecordingStore, random: Random) -> None:
        self.acknowledged: list[AcknowledgedWrite] = []
        self.local = 0
        """Of them, acknowledged from the journal."""
        self.sent: list[Effect] = []
        self._store = store
        self._random = random
        self._numbers = itertools.count()
        self._changed = asyncio.Condition()
        self._endpoints: list[str] = []
        self._is_stopped = False
        self._clients = 0
        """Those that write."""
        self._unfinished: dict[str, str] = {}
        """Uploads whose completion had no answer, and the paths of their objects."""

    # Where they write

    async def use(self, endpoints: list[str]) -> None:
        """From here on they write there."""
        async with self._changed:
            self._endpoints = endpoints
            self._changed.notify_all()

    async def stop(self) -> None:
        """Ends `run`; returns once each has its answer, or has lost its worker."""
        async with self._changed:
            self._is_stopped = True
            self._changed.notify_all()
            await self._changed.wait_for(lambda: not self._clients)

    async def wait_for(self, count: int) -> None:
        """Waits until so many writes are acknowledged."""
        async with self._changed:
            await self._changed.wait_for(lambda: len(self.acknowledged) >= count)

    async def wait_for_local(self, count: int) -> None:
        """Waits until so many writes are acknowledged from the journal."""
        async with self._changed:
            await self._changed.wait_for(lambda: self.local >= count)

    # What they write

    async def run(self, clients: int) -> None:
        """Writes until `stop`."""
        self._is_stopped, self._clients = False, clients
        try:
            await asyncio.gather(*(self._client() for _ in range(clients)))
        finally:
            async with self._changed:
                self._clients = 0
                self._changed.notify_all()

    async def _client(self) -> None:
        while not self._is_stopped:
            if not self._endpoints:
                async with self._changed:
                    await self._changed.wait_for(lambda: self._is_stopped or bool(self._endpoints))
                continue
            endpoint = self._random.choice(self._endpoints)
            try:
                await self._write(RawClient(endpoint, TRAINER))
            except (OSError, EOFError):
                await self.use([each for each in self._endpoints if each != endpoint])

    async def _write(self, client: RawClient) -> None:
        write: Write = self._random.choice((self._put, self._put, self._upload, self._copy, self._delete))
        await write(client, next(self._numbers))

    async def _put(self, client: RawClient, number: int) -> None:
        size = self._random.choice((0, 100, 5000, LARGE, LARGER))
        effect: Effect = (f"a/{self._random.randrange(4)}", _body(number, size))
        await self._send(client, "PUT", effect)

    async def _delete(self, client: RawClient, number: int) -> None:
        key = f"gone/{number}"
        self._store.put("ckpt", key, _GONE)
        await self._send(client, "DELETE", (key, None))

    async def _copy(self, client: RawClient, number: int) -> None:
        body = _body(number, 20)
        if await self._send(client, "PUT", (f"source/{number}", body)):
            source = (("x-amz-copy-source", quote(f"ckpt/source/{number}")),)
            await self._send(client, "PUT", (f"copy/{number}", body), headers=source)

    async def _upload(self, client: RawClient, number: int) -> None:
        effect: Effect = (f"upload/{number % 3}", _body(number, LARGER))
        path = path_of("ckpt", effect[0])
        created = await client.request("POST", f"{path}?uploads")
        found = re.search(rb"<UploadId>(.+)</UploadId>", created.body)
        if created.status != 200 or found is None:
            return
        upload = f"uploadId={quote(found[1].decode())}"
        self._unfinished[upload] = path
        part = await client.request("PUT", f"{path}?partNumber=1&{upload}", (), effect[1] or b"")
        if part.status != 200:
            return
        etag = hashlib.md5(effect[1] or b"", usedforsecurity=False).hexdigest()
        parts = f"<Part><PartNumber>1</PartNumber><ETag>{etag}</ETag></Part>"
        document = f"<CompleteMultipartUpload>{parts}</CompleteMultipartUpload>".encode()
        await self._send(client, "POST", effect, f"?{upload}", document)
        del self._unfinished[upload]

    async def abort_unfinished(self, endpoint: str) -> None:
        """Aborts the uploads that kills have left unfinished, as their clients would sooner or later."""
        for upload, path in self._unfinished.items():
            await RawClient(endpoint, TRAINER).request("DELETE", f"{path}?{upload}")
        self._unfinished.clear()

    async def _send(
        self,
        client: RawClient,
        method: str,
        effect: Effect,
        query: str = "",
        body: bytes | None = None,
        headers: tuple[tuple[str, str], ...] = (),
    ) -> bool:
        began = time.monotonic()
        self.sent.append(effect)
        sent = b"" if headers else (body if body is not None else effect[1] or b"")
        answer = await client.request(method, path_of("ckpt", effect[0]) + query, headers, sent)
        if not answer.status:
            raise EOFError  # the worker has gone
        if answer.status >= 300:
            return False
        self.local += answer.headers.get("x-forebay-durable") == "local"
        self.acknowledged.append(AcknowledgedWrite(effect, began, time.monotonic()))
        async with self._changed:
            self._changed.notify_all()
        return True

    # What must hold

    async def check(self, endpoint: str) -> None:
        """Every acknowledged write is at the origin in the end, whole, in an order that its clients could have seen."""
        assert await write_through(endpoint) == 200
        history = [effect for effect in self._store.history if effect[1] != _GONE and _is_ours(effect[0])]
        acknowledged = [AcknowledgedWrite(_short(each.effect), each.began, each.ended) for each in self.acknowledged]
        check_history(acknowledged, [*map(_short, history)], [*map(_short, self.sent)])
        for key, content in dict(history).items():
            assert self.stored(key) == content

    def stored(self, key: str) -> bytes | None:
        """Returns what an object holds at the origin; None: there is none."""
        found = self._store.current("ckpt", key)
        return None if found is None else b"".join(found.content.views(0, found.content.size))


async def write_through(endpoint: str) -> int:
    """Has a write go through: it comes after all that is pending. Returns the status; 0: the worker has gone."""
    headers, status = (("x-forebay-durability", "origin"),), 503
    with suppress(OSError, EOFError):
        while status == 503:
            status = (await RawClient(endpoint, TRAINER).request("PUT", path_of("ckpt", "through"), headers)).status
        return status
    return 0


def _body(number: int, size: int) -> bytes:
    """A body that can be told from every other, wherever a part of it is missing."""
    word = b"%d " % number
    return word * (size // len(word) + 1)


def _short(effect: Effect) -> Effect:
    """An effect with a body that can be printed: its first word, and its size. Anything else stays as it is."""
    word, _, _ = (effect[1] or b"").partition(b" ")
    is_whole = effect[1] == _body(int(word or b"0"), len(effect[1] or b"") - len(word) - 1) if word.isdigit() else False
    return (effect[0], b"%s of %d" % (word, len(effect[1] or b""))) if is_whole else effect


def _is_ours(key: str) -> bool:
    """Whether a writer has sent it; probes have keys derived from theirs."""
    return key.partition("/")[0] in _FOLDERS and re.fullmatch(r"[a-z]+/\d+", key) is not None
