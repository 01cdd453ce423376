"""Reads of the data bucket by single requests: objects, ranges, heads and listings."""

import random
import re
from typing import Final
from xml.etree import ElementTree as Tree

from harness.clients import path_of, query_of
from harness.raw_connection import RawAnswer
from soak.cell_content import CELL
from soak.client_requests import ClientRequest, RequestSender
from soak.data_bucket import DATA, LISTED, PACKED, data_keys
from soak.write_history import Since, WriteHistory

_FAILED: Final = frozenset({0, 500, 502, 503, 504})
_NAMESPACE: Final = re.compile(rb' xmlns="[^"]*"')


class DataReads:
    """See the module."""

    def __init__(self, sender: RequestSender, history: WriteHistory, rng: random.Random) -> None:
        self._sender, self._history, self._rng = sender, history, rng
        self._keys = data_keys()

    async def act(self) -> None:
        roll = self._rng.random()
        key = self._rng.choice(self._keys)
        if roll < 0.45:
            await self.get(key)
        elif roll < 0.65:
            await self._range(key)
        elif roll < 0.7:
            await self._ask_origin(key)
        elif roll < 0.8:
            await self._head(key)
        else:
            await self._list(self._rng.choice(LISTED))

    async def get(self, key: str) -> None:
        since = self._history.since(key)
        answer = await self._sender.send(ClientRequest("GET", path_of(DATA, key)))
        if self._has_object(key, since, answer, "read whole"):
            self._history.verify_body(key, since, answer.body, "read whole")

    async def _range(self, key: str) -> None:
        first, length = self._rng.randrange(0, 8192) * CELL, self._rng.randrange(1, 4096) * CELL
        start, end, written = self._rng.choice(
            (
                (first, first + length, f"{first}-{first + length - 1}"),
                (first, None, f"{first}-"),
                (-length, None, f"-{length}"),
            )
        )
        since = self._history.since(key)
        answer = await self._sender.send(ClientRequest("GET", path_of(DATA, key), [("Range", f"bytes={written}")]))
        if answer.status == 416:
            self._history.verify_range_refused(key, since, max(start, 0), "a range")
        elif self._has_object(key, since, answer, "a range"):
            assert answer.status == 206, answer
            self._history.verify_body(key, since, answer.body, "read a range", start, end)

    async def _ask_origin(self, key: str) -> None:
        """What only the origin can answer waits for what is pending of the object."""
        since = self._history.since(key)
        target, what = path_of(DATA, key), "ranges"
        if self._rng.random() < 0.5:
            request = ClientRequest("GET", target, [("Range", "bytes=0-63,128-191")])
        else:
            what = "a part by its number"
            request = ClientRequest("GET", f"{target}?partNumber=1")
        answer = await self._sender.send(request)
        if answer.status == 501 or (answer.status == 400 and key.startswith(PACKED)):
            return  # OSS has no parts of objects, and no origin has a member
        if self._has_object(key, since, answer, what):
            end = None if answer.status == 200 else len(answer.body)
            self._history.verify_body(key, since, answer.body, what, 0, end)

    async def _head(self, key: str) -> None:
        since = self._history.since(key)
        answer = await self._sender.send(ClientRequest("HEAD", path_of(DATA, key)))
        if self._has_object(key, since, answer, "a head"):
            size = int(answer.headers["Content-Length"])
            self._history.verify_entry(key, since, answer.headers["ETag"], size, "a head")

    async def _list(self, prefix: str) -> None:
        """All pages, each through whichever worker it meets. What none of them shows must be gone."""
        began = {key: self._history.since(key) for key in self._keys if key.startswith(prefix)}
        seen: list[str] = []
        what = f"listing {prefix!r}"
        parameters = {"list-type": "2", "prefix": prefix, "max-keys": str(self._rng.choice((7, 100, 1000)))}
        while True:
            answer = await self._sender.send(ClientRequest("GET", f"{path_of(DATA)}?{query_of(parameters)}"))
            if answer.aborted or answer.status in _FAILED:
                return
            assert answer.status == 200, answer
            what += f", {answer.headers.get('x-forebay-cache')}"  # of each page
            page = Tree.fromstring(_NAMESPACE.sub(b"", answer.body))
            for entry in page.iter("Contents"):
                key = entry.findtext("Key", "")
                seen.append(key)
                if key in began:
                    size = int(entry.findtext("Size", ""))
                    self._history.verify_entry(key, began[key], entry.findtext("ETag", ""), size, what)
            if page.findtext("IsTruncated") != "true":
                break
            parameters["continuation-token"] = page.findtext("NextContinuationToken", "")
        assert seen == sorted(set(seen)), f"{what}: not in order, or a key twice: {seen}"
        for key in began.keys() - {*seen}:
            self._history.verify_absent(key, began[key], what)
        self._history.done["listings"] += 1

    def _has_object(self, key: str, since: Since, answer: RawAnswer, what: str) -> bool:
        if answer.aborted or answer.status in _FAILED:
            return False
        if answer.status == 404:
            self._history.verify_absent(key, since, what)
            return False
        assert answer.status in {200, 206}, answer
        return True
