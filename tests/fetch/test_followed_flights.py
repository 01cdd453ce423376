"""The flights of a body: each followed once and left once, whoever started it."""

from forebay.core.byte_ranges import Span
from forebay.core.events import FlightJoined
from forebay.fetch.fetch_request import ObjectView
from forebay.fetch.followed_flights import FollowedFlights
from harness.fake import actions
from harness.fake.gate import Gate
from harness.fetch_rig import BLOCK, NAME, fetch_rig


async def test_a_flight_ends_when_its_last_follower_leaves() -> None:
    async with fetch_rig() as rig:
        rig.origin.store.put_synthetic(*NAME, 2 * BLOCK)
        head = await rig.head()
        rig.origin.faults.add(actions.HoldHead(gate := Gate()), method="GET")
        view = ObjectView(NAME, head, "rule")
        starter, joiner = (FollowedFlights(rig.block_source(), view) for _ in range(2))
        starter.start(rig.fetch(head, 0, 1))
        for _ in range(2):
            joiner.join(1)
        joiner.join(7)  # nobody fetches that
        flight = joiner.get(1)
        assert flight is not None
        assert flight is starter.get(1)
        assert (flight.followers, len(rig.heard.of(FlightJoined))) == (2, 1)
        assert (starter.is_joined(1), joiner.is_joined(1), 0 in joiner) == (False, True, False)
        gate.open()
        assert await joiner.wait_filled(1, BLOCK)
        assert joiner.piece(1, Span(5, 9))[0] == "joined"
        assert starter.piece(1, Span(5, 9)) == ("flight", joiner.piece(1, Span(5, 9))[1])
        assert starter.leave_all()
        assert not starter.leave_all()
        assert (flight.followers, rig.registry.find(flight.block)) == (1, flight)
        joiner.leave(1)
        await rig.tasks.wait_idle()
        assert rig.registry.find(flight.block) is None
