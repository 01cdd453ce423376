"""The peer service: its method tables, the writes of a dead caller, and requests that do not fit."""

import asyncio
from dataclasses import fields
from typing import Any

import pytest

from forebay.core.errors import PeerUnavailable
from forebay.core.fences import InDoubtWrites
from forebay.core.names import ObjectName
from forebay.peers.frames import Document
from forebay.peers.peer_codec import encode_name
from forebay.server.admin.cached_objects import CacheView
from forebay.server.admin.control import Control
from forebay.server.rpc.job_methods import JobMethods
from forebay.server.rpc.journal_methods import JournalMethods
from forebay.server.rpc.namespace_methods import NamespaceMethods
from forebay.server.rpc.node_read_methods import NodeReadMethods
from forebay.server.rpc.peer_service import PeerService
from forebay.server.rpc.read_methods import ReadMethods
from forebay.server.rpc.rpc_methods import OpenWrites
from forebay.server.rpc.write_methods import WriteMethods
from forebay.workers.worker_rpc import WorkerOrders, WorkerRpc, rpc_handlers

NAME, OTHER = ObjectName("bucket", "key"), ObjectName("other", "b")
METHODS = 42
"""Of all tables together: two with the same kind would be one."""


class Recorder:
    """In place of the invalidator, the hints and the staged objects: records calls."""

    def __init__(self) -> None:
        self.calls: list[tuple[object, ...]] = []

    def mark_in_doubt(self, affected: object, until: float | None = None) -> None:
        self.calls.append(("mark_in_doubt", affected, until))

    def fence(self, affected: object) -> None:
        self.calls.append(("fence", affected))

    def drop(self, affected: object, keep: object) -> None:
        self.calls.append(("drop", affected, keep))

    async def forget(self, affected: object, keep: object = None) -> None:
        self.calls.append(("forget", affected))

    async def look_for_tombstones(self, bucket: str, keys: list[str]) -> None:
        self.calls.append(("look_for_tombstones", bucket, keys))

    def install(self, name: ObjectName, staged: object, identity: object) -> None:
        raise AssertionError("installed")


class Policy:
    """A gateway policy without origin identities."""

    def __init__(self) -> None:
        self.keyring = self
        self.origin_identities: dict[str, object] = {}


def peer_service() -> tuple[PeerService, Recorder, InDoubtWrites]:
    recorder, in_doubt_writes = Recorder(), InDoubtWrites()
    double: Any = recorder
    nothing: Any = None
    policy: Any = Policy()
    service = PeerService(
        WriteMethods(double, in_doubt_writes, double, nothing, nothing, double, lambda: policy, lambda: 1000.0),
        ReadMethods(nothing, nothing, nothing, nothing).methods,
        NamespaceMethods(nothing, nothing, nothing).methods,
        JobMethods(nothing, nothing, nothing, nothing, nothing).methods,
        NodeReadMethods(nothing, nothing, nothing, nothing).methods,
        JournalMethods(nothing, nothing).methods,
    )
    return service, recorder, in_doubt_writes


def fence(write: int | None = None, **rest: object) -> Document:
    return {"names": [encode_name(NAME)], "write": write, **rest}


def test_a_method_is_in_one_table_and_ordered_ones_do_not_wait() -> None:
    service, _, _ = peer_service()
    tables = (service.streaming, service.ordered, service.unary)
    names = [name for table in tables for name in table]
    assert len(names) == len(set(names)) == METHODS
    assert not any(asyncio.iscoroutinefunction(method) for method in service.ordered.values())


def test_no_method_has_the_name_of_a_verb_of_the_supervisor() -> None:
    """Both are kinds on one socket, where the supervisor's come first."""
    service, _, _ = peer_service()
    interfaces = [*(each.type for each in fields(Control)), WorkerRpc, WorkerOrders, CacheView]
    kinds = [kind for each in interfaces for kind in rpc_handlers(each, None)]
    assert len(kinds) == len(set(kinds))
    assert {"PinVerbs.unpin", "WorkerOrders.commit_config"} < set(kinds)
    assert not set(kinds) & {*service.streaming, *service.ordered, *service.unary}


async def test_a_fence_drops_what_it_affects_and_marks_it_in_doubt() -> None:
    service, recorder, _ = peer_service()
    await service.call("fence", fence(doubt=1100.0), OpenWrites())
    assert recorder.calls == [("mark_in_doubt", [NAME], 1100.0), ("fence", [NAME]), ("drop", [NAME], None)]


async def test_the_open_writes_of_a_dead_caller_are_in_doubt() -> None:
    service, recorder, _ = peer_service()
    writes = OpenWrites()
    for write, name in ((1, NAME), (2, NAME), (3, OTHER)):
        await service.call("fence", {"names": [encode_name(name)], "write": write}, writes)
    await service.call("write_ended", {"write": 1}, writes)
    recorder.calls.clear()
    await service.writes.caller_died(writes)
    in_one_step = [("mark_in_doubt", [NAME], None), ("fence", [NAME]), ("mark_in_doubt", [OTHER], None)]
    assert recorder.calls[:4] == [*in_one_step, ("fence", [OTHER])]
    assert recorder.calls[4:6] == [("forget", [NAME]), ("forget", [OTHER])]
    assert sorted(recorder.calls[6:], key=str) == [
        ("look_for_tombstones", NAME.bucket, [NAME.key]),
        ("look_for_tombstones", OTHER.bucket, [OTHER.key]),
    ]


async def test_in_doubt_writes_are_taken_over_at_start() -> None:
    (service, _, known), (starting, _, loaded) = peer_service(), peer_service()
    known.mark_object(NAME, 1100.0)
    known.mark_bucket("whole", 1200.0)
    known.mark_bucket("over", 900.0)
    starting.writes.load_in_doubt_writes(await service.call("in_doubt_writes", {}, OpenWrites()))
    assert [loaded.until(name) for name in (NAME, ObjectName("whole", "k"), ObjectName("over", "k"))] == [1100, 1200, 0]


@pytest.mark.parametrize(
    ("kind", "document"),
    [
        ("nonsense", {}),
        ("fence", {"names": [["bucket"]]}),
        ("write_ended", {"write": "x"}),
        ("install", {"name": ["bucket"], "staged": {}}),
        ("install", {"name": encode_name(NAME), "staged": {}}),
    ],
)
async def test_a_documentthat_does_not_fit_is_refused(kind: str, document: Document) -> None:
    service, recorder, _ = peer_service()
    with pytest.raises(PeerUnavailable):
        await service.call(kind, document, OpenWrites())
    assert recorder.calls == []


async def test_an_unknown_principal_is_never_served_as_forebay() -> None:
    service, _, _ = peer_service()
    staged = {"generation": "00" * 8, "block": 1, "size": 1, "etag": "e"}
    with pytest.raises(PeerUnavailable):
        await service.call("install", {"name": encode_name(NAME), "staged": staged, "identity": "x"}, OpenWrites())
