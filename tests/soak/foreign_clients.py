"""The clients of the foreign bucket: a writer at the origin itself, writers through Forebay, readers of all kinds."""

import asyncio
import json
import random
import re
import time
from typing import Final
from xml.etree import ElementTree as Tree

from harness.clients import path_of, query_of
from harness.fake.store import Store, md5_etag
from harness.raw_connection import RawAnswer
from security.oss_signers import ALL_SIGNERS
from soak.batch_reads import entries_in
from soak.cell_content import CELL, content, version_in
from soak.client_requests import ClientRequest, RequestSender, SoakServer
from soak.foreign_bucket import FOREIGN, LISTING_AGE, foreign_keys, lifetime_of
from soak.foreign_history import GONE, ForeignHistory, ForeignSince
from soak.oracle import Oracle

SIZES: Final = (0, CELL, 4096, 65536, 65536 * 3 + CELL, 1 << 20)
_FAILED: Final = frozenset({0, 500, 502, 503, 504})
_NAMESPACE: Final = re.compile(rb' xmlns="[^"]*"')
READERS: Final = 6


async def run_foreign(
    server: SoakServer, store: Store, oracle: Oracle, history: ForeignHistory, seed: int, deadline: float
) -> None:
    """All clients of the bucket, until the deadline."""
    writer = ForeignWriter(store, history, random.Random(f"{seed}/foreign"))

    async def read(number: int) -> None:
        rng = random.Random(f"{seed}/foreign/{number}")
        async with RequestSender(server, oracle, rng, is_timed=False) as sender:
            client = ForeignClient(sender, history, foreign_keys()[number::READERS], rng)
            while time.monotonic() < deadline:
                await client.act()

    async with asyncio.TaskGroup() as group:
        for number in range(READERS):
            group.create_task(read(number))
        while time.monotonic() < deadline:
            await writer.act()


class ForeignWriter:
    """Writes to the origin's store, behind Forebay's back."""

    def __init__(self, store: Store, history: ForeignHistory, rng: random.Random) -> None:
        self._store, self._history, self._rng = store, history, rng
        self._keys = foreign_keys()

    async def act(self) -> None:
        """One write, or several in a row."""
        key = self._rng.choice(self._keys)
        self._history.is_foreign = True
        for _ in range(self._rng.choice((1, 1, 1, 2, 3))):
            roll = self._rng.random()
            old = self._history.old_content(key, self._rng.randrange(2, 5)) if roll < 0.2 else None
            if old is not None:
                self._store.put(FOREIGN, key, old)
            elif roll < 0.35:
                self._store.delete(FOREIGN, key)
            else:
                self._store.put(FOREIGN, key, self._history.new_content(key, self._rng.choice(SIZES)))
        self._history.is_foreign = False
        await asyncio.sleep(self._rng.random() * 0.3)


class ForeignClient:
    """Reads everything, and writes through Forebay to keys that nobody else writes to in that way."""

    def __init__(self, sender: RequestSender, history: ForeignHistory, own: list[str], rng: random.Random) -> None:
        self._sender, self._history, self._own, self._rng = sender, history, own, rng
        self._keys = foreign_keys()

    async def act(self) -> None:
        roll, key = self._rng.random(), self._rng.choice(self._keys)
        if roll < 0.08:
            await self._put(self._rng.choice(self._own))
        elif roll < 0.1:
            await self._delete(self._rng.choice(self._own))
        elif roll < 0.17:
            await self._list()
        elif roll < 0.25:
            await self._batch()
        elif roll < 0.35:
            await self._conditional(key)
        elif roll < 0.65:
            await self._range(key)
        else:
            await self._whole(key)
        await asyncio.sleep(self._rng.random() * 0.05)

    async def _put(self, key: str) -> None:
        body = self._history.new_content(key, self._rng.choice(SIZES))
        own = self._history.begin(key, md5_etag(body))
        answer = await self._sender.send(ClientRequest("PUT", path_of(FOREIGN, key), body=body))
        if answer.status == 200 and not answer.aborted:
            self._history.acknowledge(key, own, is_local=_is_local(answer))

    async def _delete(self, key: str) -> None:
        own = self._history.begin(key, GONE)
        answer = await self._sender.send(ClientRequest("DELETE", path_of(FOREIGN, key)))
        if answer.status == 204 and not answer.aborted:
            self._history.acknowledge(key, own, is_local=_is_local(answer))

    async def _whole(self, key: str) -> None:
        """GET or HEAD, perhaps with a demand for validation."""
        method = "HEAD" if self._rng.random() < 0.3 else "GET"
        lifetime, headers = lifetime_of(key), []
        if self._rng.random() < 0.15:
            lifetime, headers = 0.0, [("Cache-Control", "no-cache")]
        since = self._history.since(key)
        answer = await self._read(ClientRequest(method, path_of(FOREIGN, key), headers))
        what = f"{method} at the origin's side" if not lifetime else f"{method} within {lifetime:g} s"
        if self._is_object(key, since, answer, what, lifetime):
            self._verify(key, since, answer, what, lifetime, None if method == "HEAD" else slice(0, None))

    async def _range(self, key: str) -> None:
        start, length = self._rng.randrange(0, 6000) * CELL, self._rng.randrange(1, 4096) * CELL
        written, cut = self._rng.choice(
            (
                (f"{start}-{start + length - 1}", slice(start, start + length)),
                (f"{start}-", slice(start, None)),
                (f"-{length}", slice(-length, None)),
                ("0-63,128-191", None),
            )
        )
        headers = [("Range", f"bytes={written}")]
        state = self._rng.choice(self._history.keys[key].states[-3:]).etag
        if is_if := bool(state and cut and self._rng.random() < 0.3):
            headers.append(("If-Range", state))
        since = self._history.since(key)
        answer = await self._read(ClientRequest("GET", path_of(FOREIGN, key), headers))
        what = "a range on condition" if is_if else "a range" if cut else "ranges"
        if answer.status == 416:
            self._history.verify_refused(key, since, max(0, cut.start) if cut else 0, what)
        elif self._is_object(key, since, answer, what):
            if is_if:
                # A range that has all of an object may be answered by all of it.
                assert answer.status == 200 or _etag_of(answer) == state, f"{what} of {key}: {answer}"
            self._verify(key, since, answer, what, None, cut if answer.status == 206 else slice(0, None))

    async def _conditional(self, key: str) -> None:
        etag = self._rng.choice(self._history.keys[key].states[-4:]).etag or '"0123"'
        name = self._rng.choice(("If-Match", "If-None-Match"))
        since = self._history.since(key)
        answer = await self._read(ClientRequest("GET", path_of(FOREIGN, key), [(name, etag)]))
        if answer.status == 304 and name == "If-None-Match":
            self._history.verify_state(key, since, etag, "304")
        elif answer.status == 412 and name == "If-Match":
            self._history.verify_other(key, since, etag, "412")
        elif self._is_object(key, since, answer, name):
            assert (_etag_of(answer) == etag) is (name == "If-Match"), f"{key}: {name} {etag} does not hold: {answer}"
            self._verify(key, since, answer, name, None, slice(0, None))

    async def _batch(self) -> None:
        keys = self._rng.choices(self._keys, k=self._rng.randrange(1, 20))
        since = [self._history.since(key) for key in keys]
        body = json.dumps({"keys": keys, "order": "listed"}).encode()
        answer = await self._sender.send(ClientRequest("POST", f"/{FOREIGN}/.forebay/batch", body=body))
        if answer.status in _FAILED:
            return
        assert answer.status == 200, answer
        for place, (_, records, found) in enumerate(entries_in(answer.body, is_whole=not answer.aborted)):
            status = int(records.get("FOREBAY.status", "200"))
            if status == 404:
                self._history.verify_state(keys[place], since[place], GONE, "an entry of a batch")
            elif status == 200:
                self._verify_entry(keys[place], since[place], found)
            else:
                assert status in _FAILED, (keys[place], records)

    def _verify_entry(self, key: str, since: ForeignSince, body: bytes) -> None:
        """It is told apart by its first cell, as it has no ETag."""
        expected = content(key, version_in(body), len(body)) if body else b""
        self._history.verify_state(key, since, md5_etag(expected), "an entry of a batch")
        self._history.verify_bytes(since, body, expected, f"an entry of a batch, {key}")

    async def _list(self) -> None:
        """Of one page, from a snapshot or the origin."""
        prefix = self._rng.choice(("listed/", "listed/", "brief/", "saved/", ""))
        age = LISTING_AGE if prefix == "listed/" else 0.0
        since = {key: self._history.since(key) for key in self._keys if key.startswith(prefix)}
        if age:  # reads may have been ahead of a snapshot
            since = {key: began._replace(shown=0) for key, began in since.items()}
        target = f"{path_of(FOREIGN)}?{query_of({'list-type': '2', 'prefix': prefix})}"
        answer = await self._sender.send(ClientRequest("GET", target))
        if answer.aborted or answer.status in _FAILED:
            return
        assert answer.status == 200, answer
        page = Tree.fromstring(_NAMESPACE.sub(b"", answer.body))
        shown = {each.findtext("Key", ""): each.findtext("ETag", "").lower() for each in page.iter("Contents")}
        what = f"a listing, {answer.headers.get('x-forebay-cache')}"
        for key, began in since.items():
            self._history.verify_state(key, began, shown.pop(key, GONE), what, age, counts=False)
        assert not shown, f"listed, and written by nobody: {shown}"

    async def _read(self, request: ClientRequest) -> RawAnswer:
        if self._rng.random() < 0.1:
            return await self._sender.send_reading_slowly(request)
        if self._rng.random() < 0.2:
            form = self._rng.choice([each for each in ALL_SIGNERS if each[0] in {"SignedV4", "SignedV2"}])
            request = ClientRequest(request.method, request.target, request.headers, form=form)
        return await self._sender.send(request)

    def _is_object(
        self, key: str, since: ForeignSince, answer: RawAnswer, what: str, lifetime: float | None = None
    ) -> bool:
        if answer.status in _FAILED or (answer.aborted and not answer.status):
            return False
        if answer.status == 404:
            self._history.verify_state(key, since, GONE, what, lifetime, counts=_counts(answer))
            return False
        assert answer.status in {200, 206}, f"{what} of {key}: {answer}"
        return True

    def _verify(
        self,
        key: str,
        since: ForeignSince,
        answer: RawAnswer,
        what: str,
        lifetime: float | None,
        cut: slice | None,
    ) -> None:
        """`cut`: the part of the content that the body is; None: there is no body."""
        found = self._history.verify_state(key, since, _etag_of(answer), what, lifetime, counts=_counts(answer))
        if cut is None:
            assert answer.aborted or int(answer.headers["Content-Length"]) == found[2], f"{what} of {key}: {answer}"
            return
        expected = content(*found)[cut]
        length = answer.headers.get("Content-Length")  # none where the origin's answer was forwarded without
        assert length is None or int(length) == len(expected), f"{what} of {key}: another length"
        if answer.aborted:
            expected = expected[: len(answer.body)]
        self._history.verify_bytes(since, answer.body, expected, f"{what} of {key}, {answer.headers}")


def _counts(answer: RawAnswer) -> bool:
    """Whether Forebay has learnt what the answer shows: it does not look at what it forwards."""
    return answer.headers.get("x-forebay-cache") != "bypass"


def _is_local(answer: RawAnswer) -> bool:
    return answer.headers.get("x-forebay-durable") == "local"


def _etag_of(answer: RawAnswer) -> str:
    return answer.headers["ETag"].lower()
