"""Every fault, as it shows on the wire."""

import asyncio
import gzip
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any, Literal

import pytest

from harness.clients import RawClient
from harness.conformance import code
from harness.fake import actions
from harness.fake.gate import Gate
from harness.fake.response_bytes import ResponseBytes
from harness.fake_origin import FakeOrigin
from harness.raw_connection import RawAnswer

BODY = bytes(range(256)) * 400  # more than goes into one write
RANGE = ("Range", "bytes=10-19")


@pytest.fixture
async def fake() -> AsyncIterator[FakeOrigin]:
    async with FakeOrigin() as origin:
        origin.store.put("bucket", "k", BODY)
        yield origin


async def spoilt(fake: FakeOrigin, client: RawClient, action: actions.Action, *headers: tuple[str, str]) -> RawAnswer:
    fake.faults.add(action, times=1)
    answer = await client.request("GET", "/bucket/k", headers)
    after = await client.request("GET", "/bucket/k")
    assert (after.status, after.body, after.aborted) == (200, BODY, False)
    return answer


async def test_the_head_is_held(fake: FakeOrigin, client: RawClient) -> None:
    fake.faults.add(actions.HoldHead(gate := Gate()))
    async with await client.open() as connection, asyncio.TaskGroup() as group:
        await connection.send(client.sign("GET", "/bucket/k").wire)
        await gate.reached()
        head = group.create_task(connection.read_head())
        fake.store.put("bucket", "k", b"changed meanwhile")
        assert not head.done()
        gate.open()
        assert (await head).headers["Content-Length"] == str(len(BODY))


async def test_the_body_is_held(fake: FakeOrigin, client: RawClient) -> None:
    fake.faults.add(actions.HoldAfter(5, gate := Gate()))
    async with await client.open() as connection:
        await connection.send(client.sign("GET", "/bucket/k").wire)
        assert (await connection.read_head()).status == 200
        assert await connection.read(5) == BODY[:5]
        await gate.reached()
        assert fake.log.requests[0].bytes_sent == 5
        gate.open()
        assert await connection.read_rest() == (BODY[5:], False)


@pytest.mark.parametrize("action", [actions.CloseAfter(1000), actions.ResetAfter(1000)])
async def test_a_short_body(fake: FakeOrigin, client: RawClient, action: actions.Action) -> None:
    answer = await spoilt(fake, client, action)
    assert (answer.status, answer.headers["Content-Length"]) == (200, str(len(BODY)))
    assert (answer.body, answer.aborted) == (BODY[:1000], True)


@pytest.mark.parametrize(
    "action", [actions.Drop(), actions.Drop(reset=True), actions.LoseAnswer(), actions.Garbage(b"?")]
)
async def test_no_answer(fake: FakeOrigin, client: RawClient, action: actions.Action) -> None:
    assert await spoilt(fake, client, action) == RawAnswer(0, (), aborted=True)


async def test_an_announced_length_that_is_not_so(fake: FakeOrigin, client: RawClient) -> None:
    answer = await spoilt(fake, client, actions.AnnounceLength(len(BODY) + 1))
    assert (answer.body, answer.aborted) == (BODY, True)
    answer = await spoilt(fake, client, actions.AnnounceLength(3))
    assert answer.body == BODY[:3]


async def test_a_longer_body(fake: FakeOrigin, client: RawClient) -> None:
    fake.faults.add(actions.LongerBody(b"more"))
    async with await client.open() as connection:
        await connection.send(client.sign("GET", "/bucket/k").wire)
        assert (await connection.answer()).body == BODY
        assert not await connection.ended()


async def test_a_range_ignored(fake: FakeOrigin, client: RawClient) -> None:
    answer = await spoilt(fake, client, actions.IgnoreRange(), RANGE)
    assert (answer.status, answer.body) == (200, BODY)


async def test_another_range(fake: FakeOrigin, client: RawClient) -> None:
    answer = await spoilt(fake, client, actions.AnotherRange("bytes=0-9"), RANGE)
    assert (answer.status, answer.headers["Content-Range"]) == (206, f"bytes 0-9/{len(BODY)}")
    assert answer.body == BODY[:10]


async def test_a_wrong_total(fake: FakeOrigin, client: RawClient) -> None:
    answer = await spoilt(fake, client, actions.WrongTotal(7), RANGE)
    assert (answer.status, answer.headers["Content-Range"], answer.body) == (206, "bytes 10-19/7", BODY[10:20])


async def test_etags(fake: FakeOrigin, client: RawClient) -> None:
    right = (await client.request("HEAD", "/bucket/k")).headers["ETag"]
    assert "ETag" not in (await spoilt(fake, client, actions.MISSING_ETAG)).headers
    assert (await spoilt(fake, client, actions.WEAK_ETAG)).headers.getall("ETag")[0].startswith("W/")
    assert (await spoilt(fake, client, actions.WRONG_ETAG)).headers.getall("ETag") != [right]


async def test_other_headers(fake: FakeOrigin, client: RawClient) -> None:
    answer = await spoilt(fake, client, actions.change_headers(set_cookie="a=b"))
    assert (answer.headers["Set-Cookie"], answer.body) == ("a=b", BODY)


async def test_slow_down_n_times(fake: FakeOrigin, client: RawClient) -> None:
    rule = fake.faults.add(actions.SLOW_DOWN, method="GET", key="k", skip=1, times=2)
    answers = [await client.request("GET", "/bucket/k") for _ in range(5)]
    assert [each.status for each in answers] == [200, 503, 503, 200, 200]
    assert code(answers[1]) == "SlowDown"
    assert (rule.matched, rule.applied) == (5, 2)


@pytest.mark.parametrize(
    ("action", "status", "expected"),
    [
        (actions.FORBIDDEN, 403, "AccessDenied"),
        (actions.NO_SUCH_KEY, 404, "NoSuchKey"),
        (actions.INTERNAL_ERROR, 500, "InternalError"),
        (actions.LateError(), 200, "InternalError"),
        (actions.Redirect("http://127.0.0.1:1/"), 307, "TemporaryRedirect"),
        (actions.Redirect("http://127.0.0.1:1/", 301), 301, "PermanentRedirect"),
    ],
)
async def test_documents(
    fake: FakeOrigin, client: RawClient, action: actions.Action, status: int, expected: str
) -> None:
    answer = await spoilt(fake, client, action)
    assert (answer.status, code(answer)) == (status, expected)
    assert ("Location" in answer.headers) == isinstance(action, actions.Redirect)


async def test_not_modified_out_of_the_blue(fake: FakeOrigin, client: RawClient) -> None:
    answer = await spoilt(fake, client, actions.NOT_MODIFIED)
    assert (answer.status, answer.body) == (304, b"")


async def test_compressed_on_the_way(fake: FakeOrigin, client: RawClient) -> None:
    answer = await spoilt(fake, client, actions.Compress())
    assert answer.headers["Content-Encoding"] == "gzip"
    assert gzip.decompress(answer.body) == BODY


async def test_no_content_length(fake: FakeOrigin, client: RawClient) -> None:
    answer = await spoilt(fake, client, actions.ChunkedBody())
    assert "Content-Length" not in answer.headers
    assert answer.body == BODY


async def test_a_trickle_without_a_clock(fake: FakeOrigin, client: RawClient) -> None:
    pauses: list[float] = []

    async def pause(seconds: float) -> None:
        pauses.append(seconds)

    answer = await spoilt(fake, client, actions.Throttle(rate=100_000, tick=0.1, pause=pause))
    assert answer.body == BODY
    assert pauses == [0.1] * -(-len(BODY) // 10_000)


async def test_a_connection_that_goes_stale(fake: FakeOrigin, client: RawClient) -> None:
    fake.faults.add(actions.CloseWhenDone(), times=1)
    async with await client.open() as connection:
        answer = await client.request("GET", "/bucket/k", connection=connection)
        assert (answer.body, "Connection" in answer.headers) == (BODY, False)
        assert await connection.ended()


async def test_an_answer_lost_is_a_write_done(fake: FakeOrigin, client: RawClient) -> None:
    fake.faults.add(actions.LoseAnswer(), method="PUT")
    answer = await client.request("PUT", "/bucket/k", body=b"written")
    assert answer.aborted
    assert fake.store.get("bucket", "k").size == len(b"written")


async def test_a_late_write_happens_after_its_client_has_gone(fake: FakeOrigin, client: RawClient) -> None:
    fake.faults.add(actions.HoldRequest(gate := Gate()), method="PUT")
    async with await client.open() as connection:
        await connection.send(client.sign("PUT", "/bucket/k", body=b"late").wire)
        await gate.reached()
        connection.reset()
    assert fake.store.get("bucket", "k").size == len(BODY)
    gate.open()
    await fake.log.wait_idle()
    assert fake.store.get("bucket", "k").size == 4


async def test_a_late_error_performs_nothing(fake: FakeOrigin, client: RawClient) -> None:
    fake.faults.add(actions.LateError(), operation="CopyObject")
    answer = await client.request("PUT", "/bucket/to", [("x-amz-copy-source", "/bucket/k")])
    assert (answer.status, code(answer)) == (200, "InternalError")
    assert fake.store.current("bucket", "to") is None


async def test_fault_rules_match_their_conditions(fake: FakeOrigin, client: RawClient) -> None:
    fake.store.put("bucket", "other", b"0123456789abcdefghijklmnop")
    conditions: list[tuple[dict[str, Any], list[int]]] = [
        ({"key": "other"}, [200, 200, 503]),
        ({"range": True}, [200, 503, 200]),
        ({"range": "bytes=10-19"}, [200, 503, 200]),
        ({"range": False}, [503, 206, 503]),
        ({"method": "PUT"}, [200, 206, 200]),
    ]
    for condition, expected in conditions:
        rule = fake.faults.add(actions.SLOW_DOWN, **condition)
        answers = [await client.request("GET", "/bucket/k", headers) for headers in ((), (RANGE,))]
        answers.append(await client.request("GET", "/bucket/other"))
        statuses = [each.status for each in answers]
        assert statuses == [206 if want == 200 and at == 1 else want for at, want in enumerate(expected)], condition
        fake.faults.remove(rule)


async def test_a_test_may_end_while_requests_hang() -> None:
    async with FakeOrigin() as fake:
        fake.store.put("bucket", "k", BODY)
        fake.faults.add(actions.HoldRequest(gate := Gate()))
        client = RawClient(fake.endpoint, fake.secret)
        connection = await client.open()
        await connection.send(client.sign("GET", "/bucket/k").wire)
        await gate.reached()
    assert await connection.ended()
    await connection.close()


async def test_a_response_is_rewritten(fake: FakeOrigin, client: RawClient) -> None:
    def change(response: ResponseBytes) -> ResponseBytes:
        assert (response.method, response.status_line) == ("GET", "HTTP/1.1 206 Partial Content")
        cut = replace(response.without("etag").adding(("X-A", "1"), ("X-A", "2")), body=response.body[:5])
        return replace(cut.replacing("Content-Length", "5"), before=b"HTTP/1.1 100 Continue\r\n\r\n", piece=7)

    answer = await spoilt(fake, client, actions.Rewrite(change), RANGE)
    assert (answer.status, answer.body, answer.aborted) == (206, BODY[10:15], False)
    assert answer.headers.getall("X-A") == ["1", "2"]
    assert "ETag" not in answer.headers


@pytest.mark.parametrize("ending", ["close", "reset"])
@pytest.mark.parametrize("stop", [0, 20, -1])
async def test_a_rewritten_response_is_cut(
    fake: FakeOrigin, client: RawClient, stop: int, ending: Literal["close", "reset"]
) -> None:
    answer = await spoilt(
        fake, client, actions.Rewrite(lambda response: replace(response, stop=stop, ending=ending)), RANGE
    )
    assert answer.aborted
    assert answer.body == (BODY[10:19] if stop == -1 else b"")


async def test_what_comes_late_follows_the_response(fake: FakeOrigin, client: RawClient) -> None:
    fake.faults.add(actions.Rewrite(lambda response: replace(response, late=b"more", ending="close")), times=1)
    async with await client.open() as connection:
        await connection.send(client.sign("GET", "/bucket/k", [RANGE]).wire)
        assert (await connection.answer()).body == BODY[10:20]
        assert await connection.ended() is False


async def test_a_rewritten_response_waits_for_its_gate(fake: FakeOrigin, client: RawClient) -> None:
    gate = Gate()
    fake.faults.add(actions.Rewrite(lambda response: replace(response, stop=20, gate=gate, ending="close")), times=1)
    async with await client.open() as connection, asyncio.TaskGroup() as group:
        await connection.send(client.sign("GET", "/bucket/k").wire)
        head = group.create_task(connection.read_head())
        await gate.reached()
        assert not head.done()
        gate.open()
        assert (await head).aborted


async def test_a_request_s_body_is_left_unread(fake: FakeOrigin, client: RawClient) -> None:
    fake.faults.add(actions.IgnoreBody(), actions.Respond(403, "AccessDenied"), actions.CloseWhenDone(), times=1)
    async with await client.open() as connection:
        request = client.sign("PUT", "/bucket/new", (), BODY)
        await connection.send(request.wire.removesuffix(BODY))  # and not a byte of the body
        assert (await connection.answer("PUT")).status == 403
        assert await connection.ended()
    assert fake.store.current("bucket", "new") is None
