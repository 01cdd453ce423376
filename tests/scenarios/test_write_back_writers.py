"""The sequences of real writers: every state that the bucket goes through is one that its clients could have seen."""

import itertools
import time
from pathlib import Path
from random import Random

import pytest

from harness.clients import path_of
from harness.fake.actions import LoseAnswer, Respond
from harness.fake_origin import FakeOrigin
from harness.origin_history import AcknowledgedWrite, Effect, RecordingStore, check_history
from harness.write_back_rig import WriteBackRig

Sequence = list[tuple[str, str]]
"""PUT, DELETE or COPY (from the key with `.tmp`), and the key."""


def _distributed_checkpoint(step: int) -> Sequence:
    """torch's DCP over fsspec: shards, then the metadata by a temporary name."""
    metadata = f"a/{step}/.metadata"
    shards = [("PUT", f"a/{step}/__{rank}_0.distcp") for rank in range(3)]
    return [
        *shards,
        ("PUT", f"{metadata}.tmp"),
        ("DELETE", metadata),
        ("COPY", metadata),
        ("DELETE", f"{metadata}.tmp"),
    ]


def _unfinished_marker(step: int) -> Sequence:
    """NeMo: a marker stands beside a checkpoint until it is whole."""
    marker = f"a/{step}-unfinished"
    return [("PUT", marker), *[("PUT", f"a/{step}/{rank}.pt") for rank in range(3)], ("DELETE", marker)]


def _tracker(step: int) -> Sequence:
    """Megatron: the tracker is written last, and then the checkpoint before goes."""
    shards = [("PUT", f"a/{step}/mp_rank_{rank:02}") for rank in range(3)]
    before = [("DELETE", f"a/{step - 1}/mp_rank_{rank:02}") for rank in range(3)] if step else []
    return [*shards, ("PUT", "a/latest"), *before]


@pytest.mark.parametrize("faulty", [False, True], ids=["sound", "faulty"])
@pytest.mark.parametrize("writer", [_distributed_checkpoint, _unfinished_marker, _tracker])
async def test_the_bucket_shows_what_a_writer_did_in_order(tmp_path: Path, writer: object, faulty: bool) -> None:
    assert callable(writer)
    random, numbers, acknowledged = Random(7), itertools.count(), list[AcknowledgedWrite]()
    store = RecordingStore()
    async with FakeOrigin() as origin:
        origin.store = store
        async with WriteBackRig(origin, tmp_path) as rig:
            await rig.prove()
            store.history.clear()
            if faulty:
                origin.faults.add(Respond(503, "SlowDown"), where=lambda _: random.random() < 0.1)
                origin.faults.add(LoseAnswer(), where=lambda request: random.random() < 0.05)
            contents: dict[str, bytes] = {}
            for action, key in [pair for step in range(2) for pair in writer(step)]:
                headers = (("x-amz-copy-source", f"/ckpt/{key}.tmp"),) if action == "COPY" else ()
                body = b"%d" % next(numbers) if action == "PUT" else b""
                effect: Effect = (key, contents[f"{key}.tmp"] if action == "COPY" else body or None)
                began = time.monotonic()
                method = "DELETE" if action == "DELETE" else "PUT"
                answer = await rig.client().request(method, path_of("ckpt", key), headers, body)
                while action == "COPY" and answer.status == 503:  # it goes through if its source has arrived already
                    answer = await rig.client().request(method, path_of("ckpt", key), headers, body)
                durable = {"local", "origin"} if action == "COPY" else {"local"}
                assert answer.status in {200, 204}, answer
                assert answer.headers.get("x-forebay-durable") in durable, answer
                acknowledged.append(AcknowledgedWrite(effect, began, time.monotonic()))
                contents[key] = effect[1] or b""
            await rig.settled()
    check_history(acknowledged, store.history)
