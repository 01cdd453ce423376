"""A world of listings under way: a whole Forebay, an origin that holds what it is told to, and steps by their seed.

A step is done at once, or stays under way behind what the origin holds: the page of a walk, a look at a written key, a
write. So foreign writes, own writes, time, reloads and purges come in the middle of walks and of pages. Each answer is
checked against the history of the bucket (harness.listing_history), from the moment that it began.
"""

import asyncio
import base64
import hashlib
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from random import Random
from typing import Any, Final
from urllib.parse import quote

import aiohttp

from harness.clients import path_of, query_of
from harness.conformance import parsed
from harness.fake.actions import Drop, HoldHead, HoldRequest, LoseAnswer, Respond
from harness.fake.gate import Gate
from harness.fake.store import md5_etag
from harness.listing_history import History, Moment, PagedOrigin
from harness.listing_rules import GRANTS, LISTINGS, Rules
from harness.model_listings import page_of
from harness.raw_connection import RawAnswer
from harness.reference_model import Page, Query
from harness.reference_sigv4 import Secret
from harness.rig import READER, TRAINER, Rig

BUCKET: Final = "bucket"
KEYS: Final = ("a", "a/1", "a/2", "a/b/1", "b", "b/1", "b/2", "b/c/1", "b/c/2", "c", "d/1", "d/2", "open/1", "open/2")
_PREFIXES: Final = ("", "", "", "a", "a/", "b/", "b/c/", "d/", "open/")
_PAGES: Final = 12
_LIST: Final = "ListObjectsV2"
_FAILURES: Final = (Respond(503, "SlowDown"), Respond(403, "AccessDenied"), Drop(), LoseAnswer())


class ListingWorld:
    """One program. `sources`: where pages came from."""

    def __init__(self, seed: int, directory: Path) -> None:
        self._random = Random(seed)
        self._directory = directory
        self.history = History(KEYS)
        self.origin = PagedOrigin(self.history, BUCKET, self._random.choice((2, 3, 5, 1000)))
        self.sources = Counter[str]()
        self._bodies = 0
        self._gates: dict[Gate, str] = {}
        """And the operation that each holds."""
        self._under_way: list[asyncio.Task[None]] = []
        self._may_fail = False
        self._rules = [Rules(LISTINGS[0], LISTINGS[0], GRANTS[0])]
        """All that were in force, or are about to be, the latest last."""
        self._in_force = 0

    async def run(self, steps: int) -> None:
        """Does so many steps, and what they leave to be done."""
        async with self.origin:
            for key in self._random.sample(KEYS, 9):
                self._put_foreign(key)
            self._rig = Rig(
                self.origin.endpoint, self.origin.secret, self._directory, ssd="16MiB", rest=self._rules[0].text
            )
            self.origin.now = self._rig.now
            self._first_text = self._rig.configuration
            async with self._rig:
                for _ in range(steps):
                    await self._step()
                await self._release()
                await self._replaced_heads_are_dropped()

    async def _step(self) -> None:
        do: list[tuple[int, Callable[[], Awaitable[None]]]] = [
            (36, self._list),
            (20, self._write),
            (16, self._write_foreign),
            (10, self._read),
            (12, self._hold),
            (12, self._release),
            (10, self._pass_time),
            (4, self._fail),
            (5, self._refresh),
            (5, self._look_up),
            (3, self._reload),
            (2, self._purge),
            (1, self._restart),
        ]
        [step] = self._random.choices([each for _, each in do], [weight for weight, _ in do])
        await step()

    async def _begin(self, work: Coroutine[Any, Any, None], operation: str = "") -> None:
        """Begins what sends an `operation`, and waits for its end, or until the origin holds it."""
        task = _spawn(work)
        self._under_way.append(task)
        gates = [gate for gate, held in self._gates.items() if held == operation]
        if not any(gate.arrived for gate in gates):
            reached = [_spawn(gate.reached()) for gate in gates]
            await asyncio.wait([task, *reached], return_when=asyncio.FIRST_COMPLETED)
            for each in reached:
                each.cancel()

    async def _release(self) -> None:
        """Opens the gates; all that is under way comes to its end."""
        for gate in self._gates:
            gate.open()
        self._gates.clear()
        under_way, self._under_way = self._under_way, []
        await asyncio.gather(*under_way)

    async def _hold(self) -> None:
        operation = self._random.choice((_LIST, _LIST, _LIST, "PutObject", "DeleteObject"))
        self._hold_at(operation, self._random.choice((HoldRequest, HoldHead)), self._random.randrange(3))

    def _hold_at(self, operation: str, action: type[HoldRequest] | type[HoldHead], skip: int) -> None:
        gate = Gate()
        self._gates[gate] = operation
        self.origin.faults.add(action(gate), operation=operation, skip=skip, times=1)

    async def _fail(self) -> None:
        self._may_fail = True
        random, action = self._random, self._random.choice(_FAILURES)
        operation = random.choice((_LIST, _LIST, "PutObject"))
        self.origin.faults.add(action, operation=operation, skip=random.randrange(2), times=random.choice((1, 4)))

    async def _pass_time(self) -> None:
        self._rig.advance_clock(self._random.choice((1.0, 31.0, 61.0, 299.0, 301.0, 599.0)))

    def _moment(self) -> Moment:
        return self.history.moment(self._rig.now())

    # Listings

    async def _list(self) -> None:
        who = self._random.choice((TRAINER, TRAINER, TRAINER, TRAINER, READER))
        await self._begin(self._follow(who, self._query()), _LIST)

    def _query(self) -> Query:
        random = self._random
        after = random.choice(("", "", "", *KEYS))
        return Query(random.choice(_PREFIXES), random.choice(("", "", "/")), random.choice((1, 2, 3, 5, 1000)), after)

    async def _follow(self, who: Secret, query: Query) -> None:
        version, client = self._random.choice((1, 2)), self._rig.client(who)
        parameters = {"prefix": query.prefix, "delimiter": query.delimiter, "max-keys": str(query.max_keys)}
        if version == 2:
            parameters["list-type"] = "2"
        for number in range(_PAGES):
            if version == 1:
                parameters["marker"] = query.after
            elif not number:
                parameters["start-after"] = query.after
            target = f"/{BUCKET}?{query_of({name: value for name, value in parameters.items() if value})}"
            began, first_rules = self._moment(), self._in_force
            answer = await client.request("GET", target)
            rules = self._rules[first_rules:]
            if who is READER and not self._check_grants(answer, query.prefix, rules):
                return
            if answer.status != 200:
                assert self._may_fail, (query, answer)
                return
            page = page_of(parsed(answer))
            self._check_page(query, page, answer.headers["x-forebay-cache"], began, rules)
            if not page.is_truncated:
                return
            query = query._replace(after=page.names[-1])
            if version == 2:
                parameters["continuation-token"] = parsed(answer).findtext("NextContinuationToken") or ""

    def _check_page(self, query: Query, page: Page, source: str, began: Moment, rules: list[Rules]) -> None:
        self.sources[source] += 1
        windows = [window for each in rules if (window := each.window(query.prefix)) is not None]
        assert source == "bypass" or windows, (query, source, rules)
        self.history.check_page(query, page, began, 0.0 if source == "bypass" else max(windows))

    def _check_grants(self, answer: RawAnswer, prefix: str, rules: list[Rules]) -> bool:
        """Whether the reader was let in."""
        granted = {each.granted == "**" or prefix.startswith(each.granted[2:-2]) for each in rules}
        if answer.status == 403 and b"list" not in answer.body.lower() and granted == {True}:
            return False  # the origin's own refusal
        assert (answer.status != 403) in granted or answer.status not in {200, 403}, (prefix, rules, answer)
        return answer.status != 403

    # Reads and writes

    async def _read(self) -> None:
        await self._begin(self._get(self._random.choice(KEYS)))

    async def _get(self, key: str) -> None:
        began = self._moment()
        answer = await self._rig.client().request("GET", path_of(BUCKET, key))
        if answer.status == 200:
            allowed = self.history.allowed(key, began, 60.0)
            assert answer.headers["ETag"] in allowed, (key, answer.headers, allowed)
        elif answer.status == 404:
            assert None in self.history.allowed(key, began, 0.0)
        else:
            assert self._may_fail or self._gates, answer

    def _body(self) -> tuple[bytes, str]:
        self._bodies += 1
        body = f"body {self._bodies}".encode()
        return body, md5_etag(body)

    async def _write(self) -> None:
        write, operation = self._random.choice(
            (
                (self._put, "PutObject"),
                (self._put, "PutObject"),
                (self._delete, "DeleteObject"),
                (self._copy, ""),
                (self._delete_many, ""),
            )
        )
        await self._begin(write(self._random.choice(KEYS)), operation)

    async def _put(self, key: str) -> None:
        (body, etag), began = self._body(), self._moment()
        answer = await self._rig.client().request("PUT", path_of(BUCKET, key), (), body)
        self._acknowledged(answer, key, etag, began)

    async def _copy(self, key: str) -> None:
        (body, etag), began = self._body(), self._moment()
        self.origin.store.put("elsewhere", "source", body)
        source = [("x-amz-copy-source", "/elsewhere/source")]
        answer = await self._rig.client().request("PUT", path_of(BUCKET, key), source)
        if answer.status == 200:
            etag = parsed(answer).findtext("ETag") or ""
        self._acknowledged(answer, key, etag, began)

    async def _delete(self, key: str) -> None:
        began = self._moment()
        self._acknowledged(await self._rig.client().request("DELETE", path_of(BUCKET, key)), key, None, began)

    async def _delete_many(self, key: str) -> None:
        began, keys = self._moment(), {key, self._random.choice(KEYS)}
        body = f"<Delete>{''.join(f'<Object><Key>{each}</Key></Object>' for each in keys)}</Delete>".encode()
        digest = base64.b64encode(hashlib.md5(body, usedforsecurity=False).digest()).decode()
        answer = await self._rig.client().request("POST", f"/{BUCKET}?delete", [("Content-MD5", digest)], body)
        for each in keys:
            self._acknowledged(answer, each, None, began)

    def _acknowledged(self, answer: RawAnswer, key: str, etag: str | None, began: Moment) -> None:
        if answer.status in {200, 204}:
            self.history.acknowledge(key, etag, began)
        else:
            assert self._may_fail, answer

    def _put_foreign(self, key: str) -> None:
        self.origin.store.put(BUCKET, key, self._body()[0])
        self.origin.note_changes()

    def _delete_foreign(self, key: str) -> None:
        self.origin.store.delete(BUCKET, key)
        self.origin.note_changes()

    async def _write_foreign(self) -> None:
        for _ in range(self._random.choice((1, 1, 4))):
            key = self._random.choice(KEYS)
            if self._random.random() < 0.6:
                self._put_foreign(key)
            else:
                self._delete_foreign(key)

    # Several steps that are rarely drawn one after another

    async def _refresh(self) -> None:
        """The next snapshot begins in the background, and all kinds of writes come before its last page."""
        await self._release()
        await self._list()
        self._rig.advance_clock(self._random.choice((31.0, 301.0)))
        self._hold_at(_LIST, HoldHead, self._random.choice((0, 0, 1, 2)))
        await self._list()
        for _ in range(3):
            await self._random.choice((self._write, self._write, self._write_foreign, self._list))()
        await self._release()
        await self._list()

    async def _look_up(self) -> None:
        """A written key is written again while the origin says what it is."""
        await self._release()
        key = self._random.choice(KEYS)
        await self._put(key)
        self._hold_at(_LIST, HoldHead, 0)
        await self._begin(self._follow(TRAINER, Query("", "", 1000)), _LIST)
        await self._random.choice((self._put, self._delete))(key)
        await self._release()
        await self._begin(self._follow(TRAINER, Query("", "", 1000)), _LIST)

    # Disturbances

    async def _reload(self) -> None:
        random = self._random
        await self._use(Rules(random.choice(LISTINGS), random.choice(LISTINGS), random.choice(GRANTS)))

    async def _use(self, rules: Rules) -> None:
        first = self._rules[0]
        text = self._first_text.replace(first.text, rules.text).replace(f'"{first.granted}"', f'"{rules.granted}"')
        self._rules.append(rules)
        (self._directory / "forebay.toml").write_text(text)  # a small file
        self._rig.configuration = text
        await self._rig.worker.reload()
        self._in_force = len(self._rules) - 1

    async def _purge(self) -> None:
        began = self.history.number
        async with (
            aiohttp.ClientSession() as session,
            session.delete(f"{self._rig.admin}/v1/cache?bucket={quote(BUCKET)}", json={}) as purged,
        ):
            assert purged.status == 200
        self.history.forget(began)

    async def _restart(self) -> None:
        await self._release()
        await self._rig.restart()

    async def _replaced_heads_are_dropped(self) -> None:
        """Two snapshots differ in an entry: no read shows what was there before, under whatever freshness."""
        self.origin.faults.clear()
        self._may_fail = False
        await self._use(Rules(LISTINGS[0], LISTINGS[0], GRANTS[0], "immutable"))
        self._rig.advance_clock(1000.0)
        await self._follow(TRAINER, Query("", "", 1000))
        await self._rig.wait_idle()
        for key in self._random.sample(KEYS, 6):
            await self._put(key)
        answers = [await self._rig.client().request("GET", path_of(BUCKET, key)) for key in KEYS]
        assert {answer.status for answer in answers} <= {200, 404}
        before = self.history.number
        for key in self._random.sample(KEYS, 8):
            if self._random.random() < 0.7:
                self._put_foreign(key)
            else:
                self._delete_foreign(key)
        self._rig.advance_clock(301.0)
        began = self._moment()
        await self._follow(TRAINER, Query("", "", 1000))
        await self._rig.wait_idle()
        for key in [each for each in KEYS if self.history.states[each][-1].number > before]:
            answer = await self._rig.client().request("GET", path_of(BUCKET, key))
            shown = answer.headers["ETag"] if answer.status == 200 else None
            assert shown in self.history.allowed(key, began, 0.0), (key, shown, self.history.states[key])


def _spawn(work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
    return asyncio.create_task(work)  # noqa: TID251 # awaited by _release, or cancelled
