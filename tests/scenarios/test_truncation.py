"""An origin that breaks off, sends wrong bytes or changes the object: no client gets wrong bytes as a whole object, and
none are cached."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from forebay.core.byte_ranges import Span
from harness.certificates import TestAuthority, install, tls_settings
from harness.clients import RawClient, RawRequest, path_of
from harness.fake import actions
from harness.fake.actions import Action
from harness.fake.gate import Gate
from harness.fake_origin import FakeOrigin
from harness.raw_connection import RawAnswer
from harness.rig import TRAINER, Rig

BLOCK = 64 * 1024
SIZE = 4 * BLOCK + 17
OBJECT = path_of("bucket", "key")
RULES = '[[rules]]\npath = "**"\nblock = "64KiB"\n'
IMMUTABLE = f'{RULES}freshness = "immutable"\n'
ONE_BLOCK_A_READ = 'max_run = "64KiB"\ngap = "0"\nparallel = 1'

FAULTS: dict[str, tuple[Action, ...]] = {
    "closed in the middle": (actions.CloseAfter(100_000),),
    "closed at once": (actions.CloseAfter(0),),
    "closed one byte early": (actions.CloseAfter(SIZE - 1),),
    "reset in the middle": (actions.ResetAfter(100_000),),
    "more than announced": (actions.LongerBody(b"surplus"),),
    "announced too long": (actions.AnnounceLength(SIZE + 5),),
    "announced too short": (actions.AnnounceLength(SIZE - 5),),
    "no length": (actions.ChunkedBody(),),
    "the whole for a range": (actions.IgnoreRange(),),
    "another range": (actions.AnotherRange("bytes=10-19"),),
    "a shifted range": (actions.AnotherRange(f"bytes=1-{SIZE}"),),
    "another total": (actions.WrongTotal(SIZE + 1),),
    "no total": (actions.WrongTotal("*"),),
    "no ETag": (actions.MISSING_ETAG,),
    "a weak ETag": (actions.WEAK_ETAG,),
    "compressed": (actions.Compress(),),
    "not HTTP": (actions.Garbage(),),
    "dropped": (actions.Drop(reset=True),),
    "an error": (actions.INTERNAL_ERROR,),
}


def is_the_whole(answer: RawAnswer, content: bytes) -> bool:
    return answer.status == 200 and not answer.aborted and answer.body == content


@asynccontextmanager
async def reader(tmp_path: Path, known: bool) -> AsyncIterator[tuple[Rig, FakeOrigin, bytes]]:
    """A Forebay in front of an origin with an object of that content; `known`: its head has been asked for."""
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, rest=RULES) as rig:
        content = origin.store.put_synthetic("bucket", "key", SIZE).expected(Span(0, SIZE))
        if known:
            await rig.client().request("HEAD", OBJECT)
        yield rig, origin, content


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("known", [False, True], ids=["cold", "head known"])
async def test_one_fault_is_made_good_and_leaves_nothing(tmp_path: Path, fault: str, known: bool) -> None:
    async with reader(tmp_path, known) as (rig, origin, content):
        origin.faults.add(*FAULTS[fault], method="GET", key="key", times=1)
        answer = await rig.client().request("GET", OBJECT)
        assert is_the_whole(answer, content)
        assert "Content-Encoding" not in answer.headers
        await rig.wait_idle()
        for _ in range(2):
            assert is_the_whole(await rig.client().request("GET", OBJECT), content)


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("known", [False, True], ids=["cold", "head known"])
async def test_a_fault_that_stays_is_seen_and_leaves_nothing(tmp_path: Path, fault: str, known: bool) -> None:
    """What the client gets is the whole, or an abort, or an error, or what the origin itself said of it."""
    async with reader(tmp_path, known) as (rig, origin, content):
        broken = origin.faults.add(*FAULTS[fault], method="GET", key="key")
        answer = await rig.client().request("GET", OBJECT)
        if answer.aborted:
            assert content.startswith(answer.body)
        elif fault == "compressed" and answer.status == 200:
            assert answer.headers["Content-Encoding"] == "gzip"
        elif answer.status == 206:
            assert answer.headers["Content-Range"].startswith(("bytes 10-19/", "bytes 1-"))
        elif answer.status == 200:
            # Where the announced length ends the body, nobody on the way can know that there was more.
            assert answer.body == content or (fault == "announced too short" and content.startswith(answer.body))
        else:
            assert answer.status in {500, 503}
        origin.faults.remove(broken)
        for _ in range(2):
            assert is_the_whole(await rig.client().request("GET", OBJECT), content)


@pytest.mark.parametrize("fault", [actions.CloseAfter(100_000), actions.ResetAfter(100_000)], ids=["close", "reset"])
async def test_a_broken_read_is_resumed_where_it_broke(tmp_path: Path, fault: Action) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, rest=RULES) as rig:
        content = origin.store.put_synthetic("bucket", "key", SIZE)
        origin.faults.add(fault, key="key", times=2)
        answer = await rig.client().request("GET", OBJECT)
        assert is_the_whole(answer, content.expected(Span(0, SIZE)))
        first, *resumed = origin.log.matching("GET", key="key")
        assert "If-Match" not in first.headers
        assert [each.range for each in resumed] == [f"bytes={n}-{SIZE - 1}" for n in (100_000, 200_000)]
        assert {each.headers["If-Match"] for each in resumed} == {content.etag}


async def test_a_read_that_goes_on_breaking_is_aborted(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, rest=RULES) as rig:
        content = origin.store.put_synthetic("bucket", "key", SIZE).expected(Span(0, SIZE))
        origin.faults.add(actions.CloseAfter(1000), key="key")
        answer = await rig.client().request("GET", OBJECT)
        assert (answer.status, answer.aborted) == (200, True)
        assert content.startswith(answer.body)
        assert len(answer.body) <= 3000
        origin.faults.clear()
        assert is_the_whole(await rig.client().request("GET", OBJECT), content)


async def test_unknown_response_headers_are_not_cached(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path) as rig:
        origin.store.put("bucket", "key", b"content")
        added = actions.change_headers(set_cookie="a=b", connection="keep-alive", x_unknown="c", age="5", via="d")
        origin.faults.add(added, key="key")
        for _ in range(2):
            answer = await rig.client().request("GET", OBJECT)
            assert (answer.status, answer.body) == (200, b"content")
            assert not {"Set-Cookie", "X-Unknown", "Age", "Via"} & {name.title() for name, _ in answer.pairs}


async def test_replaced_before_the_head_left_is_read_anew(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, rest=RULES) as rig:
        origin.store.put_synthetic("bucket", "key", SIZE, seed=1)
        await rig.client().request("HEAD", OBJECT)
        new = origin.store.put_synthetic("bucket", "key", SIZE, seed=2)
        answer = await rig.client().request("GET", OBJECT)
        assert is_the_whole(answer, new.expected(Span(0, SIZE)))
        assert answer.headers["ETag"] == new.etag


async def test_object_replaced_before_the_head_is_read_again(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, rest=RULES) as rig:
        origin.store.put_synthetic("bucket", "key", SIZE, seed=1)
        await rig.client().request("HEAD", OBJECT)
        origin.faults.add(actions.HoldRequest(gate := Gate()), method="GET", key="key", times=1)
        async with asyncio.TaskGroup() as group:
            readers = [group.create_task(rig.client().request("GET", OBJECT)) for _ in range(20)]
            await gate.reached()
            new = origin.store.put_synthetic("bucket", "key", SIZE, seed=2)
            gate.open()
        assert all(is_the_whole(reader.result(), new.expected(Span(0, SIZE))) for reader in readers)
        assert origin.log.count("GET", key="key") <= 3


async def test_object_deleted_before_the_head_is_a_404(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, rest=RULES) as rig:
        origin.store.put_synthetic("bucket", "key", SIZE)
        await rig.client().request("HEAD", OBJECT)
        origin.store.delete("bucket", "key")
        answer = await rig.client().request("GET", OBJECT)
        assert (answer.status, b"<Code>NoSuchKey</Code>" in answer.body) == (404, True)


@pytest.mark.parametrize("rest", [RULES, IMMUTABLE], ids=["60s", "immutable"])
async def test_object_replaced_after_the_head_aborts_the_response(tmp_path: Path, rest: str) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, rest=rest) as rig:
        old = origin.store.put_synthetic("bucket", "key", SIZE, seed=1).expected(Span(0, SIZE))
        await rig.client().request("GET", OBJECT, [("Range", "bytes=0-99")])
        new = origin.store.put_synthetic("bucket", "key", SIZE, seed=2).expected(Span(0, SIZE))
        answer = await rig.client().request("GET", OBJECT)  # the first block is at hand, the others are not
        assert (answer.status, answer.aborted) == (200, True)
        assert answer.body == old[:BLOCK]
        for _ in range(2):
            assert is_the_whole(await rig.client().request("GET", OBJECT), new)


async def test_replaced_between_two_blocks_of_a_cold_read_is_never_mixed(tmp_path: Path) -> None:
    async with (
        FakeOrigin() as origin,
        Rig(origin.endpoint, origin.secret, tmp_path, origin=ONE_BLOCK_A_READ, rest=RULES) as rig,
    ):
        old = origin.store.put_synthetic("bucket", "key", SIZE, seed=1).expected(Span(0, SIZE))
        origin.faults.add(actions.HoldAfter(1000, gate := Gate()), key="key", times=1)
        async with await rig.client().open() as connection:
            await connection.send(rig.client().sign("GET", OBJECT).wire)
            assert (await connection.read_head()).status == 200
            body = await connection.read(1000)
            new = origin.store.put_synthetic("bucket", "key", SIZE, seed=2).expected(Span(0, SIZE))
            gate.open()
            rest, short = await connection.read_rest()
        assert short
        assert body + rest == old[:BLOCK]
        assert is_the_whole(await rig.client().request("GET", OBJECT), new)


async def test_another_etag_on_a_later_range_is_another_version(tmp_path: Path) -> None:
    async with (
        FakeOrigin() as origin,
        Rig(origin.endpoint, origin.secret, tmp_path, origin=ONE_BLOCK_A_READ, rest=RULES) as rig,
    ):
        content = origin.store.put_synthetic("bucket", "key", SIZE).expected(Span(0, SIZE))
        wrong = origin.faults.add(actions.WRONG_ETAG, method="GET", key="key", skip=1)
        answer = await rig.client().request("GET", OBJECT)
        assert (answer.status, answer.aborted, answer.body) == (200, True, content[:BLOCK])
        origin.faults.remove(wrong)
        assert is_the_whole(await rig.client().request("GET", OBJECT), content)
        assert "bad" not in (await rig.client().request("HEAD", OBJECT)).headers["ETag"]


async def test_constantly_changing_object_is_forwarded(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, rest=RULES) as rig:
        content = origin.store.put_synthetic("bucket", "key", SIZE).expected(Span(0, SIZE))
        origin.faults.add(
            actions.Respond(412, "PreconditionFailed"), where=lambda asked: "If-Match" in asked.headers, key="key"
        )
        answer = await rig.client().request("GET", OBJECT, [("Range", "bytes=-100")])
        assert (answer.status, answer.body) == (206, content[-100:])
        assert answer.headers["x-forebay-cache"] == "bypass"


async def test_an_origin_without_ranges_is_passed_on(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, rest=RULES) as rig:
        content = origin.store.put_synthetic("bucket", "key", SIZE).expected(Span(0, SIZE))
        origin.faults.add(actions.IgnoreRange(), key="key")
        for headers in ((), (("Range", "bytes=0-9"),), (("Range", "bytes=-9"),), (("If-None-Match", '"other"'),)):
            answer = await rig.client().request("GET", OBJECT, headers)
            assert (headers, answer.status, answer.body == content) == (headers, 200, True)
        assert rig.parts.storage.tiers.memory.occupancy().blocks == 0


PLAIN = '[[rules]]\npath = "**"\naccelerate = false\n'


def version_1_0(request: RawRequest) -> bytes:
    """The request's bytes, in HTTP/1.0."""
    return request.wire.replace(b" HTTP/1.1\r\n", b" HTTP/1.0\r\n", 1)


@pytest.mark.parametrize("secure", [False, True], ids=["TCP", "TLS"])
async def test_http_1_0_body_without_length_is_whole_or_reset(tmp_path: Path, secure: bool) -> None:
    """To an HTTP/1.0 client the end of the connection is the end of such a body."""
    authority = TestAuthority(tmp_path)
    install(tmp_path, authority.issue("server"))
    async with (
        FakeOrigin() as origin,
        Rig(origin.endpoint, origin.secret, tmp_path, rest=PLAIN, server=tls_settings(tmp_path)) as rig,
    ):
        content = origin.store.put_synthetic("bucket", "key", SIZE).expected(Span(0, SIZE))
        client = rig.client()
        if secure:
            trusted = ssl.create_default_context(cafile=str(authority.file))
            client = RawClient(f"https://127.0.0.1:{rig.worker.tls_address[1]}", TRAINER, tls=trusted)
        origin.faults.add(actions.ChunkedBody(), key="key")
        async with await client.open() as connection:
            await connection.send(version_1_0(client.sign("GET", OBJECT)))
            assert "Content-Length" not in (head := await connection.read_head()).headers
            assert (head.status, await connection.read_rest()) == (200, (content, False))
        origin.faults.add(actions.CloseAfter(100_000), key="key")
        async with await client.open() as connection:
            await connection.send(version_1_0(client.sign("GET", OBJECT)))
            assert (await connection.read_head()).status == 200
            _, reset = await connection.read_rest()
            assert reset


async def test_http_1_0_body_without_length_ends_a_kept_connection(tmp_path: Path) -> None:
    """A client that asks to keep it open would wait for more, as nothing else ends the body."""
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, rest=PLAIN) as rig:
        content = origin.store.put_synthetic("bucket", "key", SIZE).expected(Span(0, SIZE))
        client = rig.client()
        origin.faults.add(actions.ChunkedBody(), key="key")
        async with await client.open() as connection, asyncio.timeout(30):
            await connection.send(version_1_0(client.sign("GET", OBJECT, (("Connection", "keep-alive"),))))
            head = await connection.read_head()
            assert (head.status, await connection.read_rest()) == (200, (content, False))
            assert head.headers.get("Connection", "close") == "close"
