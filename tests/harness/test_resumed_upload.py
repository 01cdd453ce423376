"""A client that loses its workers knows which answers did not come."""

import asyncio

from forebay.core.task_registry import TaskRegistry
from harness.fake.actions import HoldRequest
from harness.fake.gate import Gate
from harness.fake_origin import FakeOrigin
from harness.resumed_upload import ResumedUpload
from harness.write_back_rig import at_origin


async def test_a_completion_that_was_given_up_is_lost() -> None:
    """As when the end of a worker is known before the end of its connections. It is carried out late."""
    async with FakeOrigin(verify=False, smallest_part=1) as origin:
        origin.store.create_bucket("ckpt")
        origin.faults.add(HoldRequest(gate := Gate()), operation="CompleteMultipartUpload", times=1)
        upload = ResumedUpload("upload", [b"one", b"two"])
        running = TaskRegistry().spawn(upload.run(lambda: origin.endpoint), "upload")
        await gate.reached()
        running.cancel()
        await asyncio.wait([running])
        gate.open()
        await origin.log.wait_idle()
        await upload.run(lambda: origin.endpoint)
        assert (upload.lost, at_origin(origin, "upload")) == (1, b"onetwo")
