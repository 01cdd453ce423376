"""A warm-up job adopts the flights that came with its head request, and joins no others."""

from pathlib import Path

from harness.fake_origin import FakeOrigin
from harness.rig import Rig
from harness.warm_orders import start_job


async def test_a_job_does_not_join_the_flights_that_it_began(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path) as rig:
        keys = [f"key-{number}" for number in range(8)]
        for key in keys:
            origin.store.put("bucket", key, bytes(3 << 20))
        job = await start_job(rig.parts.jobs.warm_ups, "bucket", keys=tuple(keys))
        await rig.parts.jobs.warm_ups.wait(job.id)
        assert (job.state, job.done) == ("done", len(keys))
        assert rig.parts.context.metrics.total("forebay_flights_joined_total") == 0
        assert origin.log.count("GET") == len(keys)
