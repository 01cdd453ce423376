"""A training job whose loader reads with plans, and what it reads through is killed: the bytes of each sample are
right, each comes once, nothing hangs, and nothing is left."""

from pathlib import Path

import pytest

from harness.fake_origin import FakeOrigin
from harness.training_job import training_job


@pytest.mark.parametrize(
    "by_socket", [pytest.param(False, id="http", marks=pytest.mark.long), pytest.param(True, id="socket")]
)
async def test_a_loader_goes_on_whatever_is_killed(tmp_path: Path, *, by_socket: bool) -> None:
    async with FakeOrigin() as origin, training_job(origin, tmp_path, seed=1, by_socket=by_socket) as job:
        await job.batches(3)
        job.fail_origin()
        job.kill_worker()
        await job.batches(4)
        await job.kill_forebay()
        await job.batches(4)
        job.kill_loader_worker()
        await job.batches(4)
        job.kill_worker()
        job.fail_origin()
        await job.restart_forebay()
        report = await job.finish()
        assert report["kept"] == [], "descriptors and mappings of the job"
        assert report["sent"] > 0, "the order of the epoch, as a plan"
        assert len(report["errors"]) == 1, "of the loader's worker"
        await job.check_nothing_is_left()
