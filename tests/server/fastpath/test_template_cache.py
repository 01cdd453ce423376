"""The shapes of a worker: found by whoever sends heads of their kind, bounded, and of one policy."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from forebay.server.fastpath.fast_lane import Caller
from forebay.server.fastpath.head_template import Shape
from forebay.server.fastpath.template_cache import MOST, Shapes
from harness.fake_origin import FakeOrigin
from harness.lanes import fresh_lane
from harness.rig import TRAINER, Rig
from security.forms import Pairs
from security.ossforms import ALL_SIGNERS

HEADER = ("SignedV4", "header")


def wire_of(rig: Rig, pairs: Pairs = (), form: tuple[str, str] = HEADER, method: str = "GET") -> bytes:
    return ALL_SIGNERS[form](TRAINER, method, "/b/key", pairs, b"", rig.now(), None).wire


def shape_of(rig: Rig, wire: bytes) -> Shape:
    caller = Caller("127.0.0.1")
    assert fresh_lane(rig).answer(wire, caller) is not None
    assert caller.shape is not None
    return caller.shape


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path) as rig:
        origin.store.put("b", "key", b"content")
        await rig.client().request("GET", "/b/key")
        yield rig


async def test_a_shape_is_found_by_heads_of_its_kind(rig: Rig) -> None:
    shapes, policy = Shapes(), rig.parts.gateway.policy
    wires = [wire_of(rig), wire_of(rig, [("Range", "bytes=0-1")]), wire_of(rig, [("User-Agent", "a")])]
    wires += [wire_of(rig, form=("SignedOssV1", "query")), wire_of(rig, form=("SignedV4", "query"))]
    kept = []
    for wire in wires:
        assert shapes.find(wire, policy) is None
        kept.append(shape_of(rig, wire))
        shapes.keep(wire, kept[-1])
    for wire, shape in zip(wires, kept, strict=True):
        found = shapes.find(wire, policy)
        assert found is not None
        assert found[0] is shape
        assert found[1] == shape.read(wire)
    assert shapes.find(wire_of(rig, [("User-Agent", "b")]), policy) is None
    assert shapes.find(b"", policy) is None


async def test_another_policy_has_other_shapes(rig: Rig) -> None:
    shapes, policy, wire = Shapes(), rig.parts.gateway.policy, wire_of(rig)
    shapes.keep(wire, shape_of(rig, wire))
    other = replace(policy, domains=("forebay.test",))
    assert shapes.find(wire, other) is None
    assert shapes.find(wire, policy) is not None
    rig.parts.gateway.policy = other
    shapes.keep(wire, shape_of(rig, wire))
    assert shapes.find(wire, policy) is None
    assert len(shapes) == 1


async def test_the_least_recently_used_leaves(rig: Rig) -> None:
    shapes, policy = Shapes(), rig.parts.gateway.policy
    wires = [wire_of(rig, [("User-Agent", f"client/{number}")]) for number in range(MOST + 5)]
    for number, wire in enumerate(wires):
        shapes.keep(wire, shape_of(rig, wire))
        assert len(shapes) == min(MOST, number + 1)
        assert shapes.find(wires[0], policy) is not None
    assert [number for number, wire in enumerate(wires) if shapes.find(wire, policy) is None] == [1, 2, 3, 4, 5]


async def test_connections_share_what_is_learnt(rig: Rig) -> None:
    """A new connection's first request is read by the shape that another one's had; and heads of two shapes in turns
    are, too."""
    lane, first = fresh_lane(rig), Caller("127.0.0.1")
    get, head = wire_of(rig, [("Range", "bytes=0-1")]), wire_of(rig, method="HEAD")
    shapes = []
    for wire in (get, head, get, head):
        assert lane.answer(wire, first) is not None
        shapes.append(first.shape)
    assert shapes[0] is shapes[2] is not shapes[1] is shapes[3]
    for wire, shape in ((get, shapes[0]), (head, shapes[1])):
        another = Caller("127.0.0.1")
        assert lane.answer(wire, another) is not None
        assert another.shape is shape
