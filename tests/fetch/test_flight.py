"""Flights: bytes as they arrive, for every follower; the buffer is released exactly once."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.core.errors import OriginBroken
from forebay.fetch.flight import Flight, FlightRegistry
from harness.ssd_rig import block_id


class Released(list[Flight]):
    def __call__(self, flight: Flight) -> None:
        self.append(flight)


def flight_of(length: int) -> tuple[Flight, Released]:
    released = Released()
    return Flight(block_id("key"), length, released), released


def receive(flight: Flight, received: bytes) -> None:
    flight.unfilled()[: len(received)] = received
    flight.advance(len(received))


async def test_bytes_are_readable_as_they_arrive() -> None:
    flight, _ = flight_of(10)
    waiting = asyncio.gather(flight.wait_filled(3), flight.wait_filled(10))
    await asyncio.sleep(0)
    receive(flight, b"abcd")
    await flight.wait_filled(4)
    assert bytes(flight.buffer) == b"abcd"
    assert flight.buffer.readonly
    assert not waiting.done()
    assert len(flight.unfilled()) == 6  # ends with the block
    receive(flight, b"efghij")
    await waiting
    assert (flight.has_landed, bytes(flight.buffer)) == (True, b"abcdefghij")


async def test_a_waiter_for_bytes_that_never_came_gets_the_failure() -> None:
    flight, _ = flight_of(10)
    receive(flight, b"abc")
    waiting = asyncio.gather(flight.wait_filled(4), flight.wait_filled(5), return_exceptions=True)
    await asyncio.sleep(0)
    flight.fail(OriginBroken("why"))
    assert [str(error) for error in await waiting] == ["why", "why"]
    await flight.wait_filled(3)
    with pytest.raises(OriginBroken, match="why"):
        await flight.wait_filled(4)


async def test_a_cancelled_waiter_does_not_disturb_the_flight() -> None:
    flight, _ = flight_of(2)
    task = asyncio.gather(flight.wait_filled(1))
    await asyncio.sleep(0)
    task.cancel()
    receive(flight, b"ab")
    with pytest.raises(asyncio.CancelledError):
        await task


def test_a_landed_flight_can_no_longer_fail() -> None:
    flight, _ = flight_of(2)
    receive(flight, b"ab")
    flight.fail(OriginBroken("late"))
    assert "landed" in repr(flight)


@given(st.permutations(["over", "leave", "leave", "end"]), st.booleans())
def test_the_buffer_is_released_once_after_the_last_follower(order: list[str], lands: bool) -> None:
    flight, released = flight_of(2)
    flight.follow()
    flight.follow()
    for step in order:
        match step:
            case "over":
                flight.finish()
            case "leave":
                flight.leave()
            case _ if lands:
                receive(flight, b"ab")
            case _:
                flight.fail(OriginBroken("why"))
        assert not released or (flight.has_ended and not flight.is_wanted)
    flight.finish()
    assert released == [flight]


def test_the_registry_has_one_flight_per_block() -> None:
    registry = FlightRegistry()
    first, _ = flight_of(2)
    second, _ = flight_of(2)
    registry.add([first])
    with pytest.raises(RuntimeError, match="second flight"):
        registry.add([second])
    registry.remove(second)  # not registered: nothing is removed
    assert registry.find(block_id("key")) is first
    first.follow()
    assert (len(registry), registry.followers) == (1, 1)
    registry.remove(first)
    assert registry.find(block_id("key")) is None


async def test_the_registry_knows_the_age_of_the_oldest_flight() -> None:
    registry = FlightRegistry()
    assert registry.oldest_age(100.0) == 0.0
    flights = [Flight(block_id("a", number), 4, registry.remove) for number in range(3)]
    for flight, started in zip(flights, (10.0, 30.0, 60.0), strict=True):
        flight.started = started
    registry.add(flights)
    flights[0].follow()
    receive(flights[0], b"done")  # landed, and still read
    assert registry.oldest_age(100.0) == 70.0
