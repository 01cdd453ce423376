"""Attempts of a read, against a scripted origin. Whole reads: test_object_reads, tests/request/test_forwarded_reads."""

import pytest

from forebay.core.errors import OriginBroken, OriginUnreachable
from forebay.core.events import Event, OriginRetried
from forebay.origin.origin_limits import OriginLimits
from forebay.origin.reads.read_attempts import ReadAttempts
from harness.origin_client import client_of, get
from harness.scripted_origin import respond_always, scripted_origin

LIMITS = OriginLimits(attempts=3, backoff_base=1.0, backoff_cap=8.0)


async def test_pauses_grow_until_the_last_attempt() -> None:
    pauses, observed = list[float](), list[Event]()

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)

    async with client_of("http://127.0.0.1:1", LIMITS, observed.append) as client:
        attempts = ReadAttempts(client, "ListObjectsV2", sleep=sleep, jitter=lambda: 0.5)
        await attempts.pause_or_raise(OriginUnreachable("connection lost"))
        await attempts.pause_or_raise(OriginUnreachable("connection lost"))
        with pytest.raises(OriginBroken, match="the third"):
            await attempts.pause_or_raise(OriginBroken("the third"))
    assert pauses == [0.5, 1.0]
    assert observed == [OriginRetried("ListObjectsV2")] * 2


async def test_a_repeated_response_gives_its_turn_back_before_the_pause() -> None:
    async with scripted_origin(respond_always(503, "", b"busy")) as origin, client_of(origin.url, LIMITS) as client:

        async def sleep(_seconds: float) -> None:
            assert client.reads.in_use == 0

        attempts = ReadAttempts(client, "GetObject", sleep=sleep, jitter=lambda: 0.5)
        for repeated in (True, True, False):
            async with await client.send(get()) as response:
                assert await attempts.is_repeated(response) is repeated
    assert origin.connections == 1


async def test_a_success_is_not_repeated() -> None:
    async with (
        scripted_origin(respond_always(200, "", b"x")) as origin,
        client_of(origin.url, LIMITS) as client,
        await client.send(get()) as response,
    ):
        assert not await ReadAttempts(client, "GetObject").is_repeated(response)
        assert await response.read(10) == b"x"
