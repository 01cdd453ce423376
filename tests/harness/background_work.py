"""Waiting for what Forebay does by itself after a read: batches of reads that are delivered, and what they cause."""

from forebay.core.read_stream import ReadBatch
from harness.clients import path_of
from harness.fake_origin import FakeOrigin
from harness.inspection import run_loop_until
from harness.rig import Rig

MARKER = "markers", "read last"


async def wait_settled(rig: Rig, origin: FakeOrigin) -> None:
    """Until all reads so far were delivered, and nothing runs in the background."""
    if MARKER[0] not in origin.store.buckets:
        origin.store.put(*MARKER, b"m")
    delivered: list[ReadBatch] = []
    unsubscribe = rig.parts.jobs.node_reads.subscribe(delivered.append)
    await rig.client().request("GET", path_of(*MARKER))
    await run_loop_until(lambda: any(read.name == MARKER for batch in delivered for read in batch.reads))
    unsubscribe()
    await rig.wait_idle()
