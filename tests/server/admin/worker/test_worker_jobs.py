"""The admin port's verbs about jobs, before and after a worker knows those of the run before."""

from pathlib import Path
from typing import Any

from forebay.jobs.state.job_store import JobStore
from forebay.jobs.warm_up.cache_residency import CacheResidency
from forebay.jobs.warm_up.object_warmer import ObjectWarmer
from forebay.jobs.warm_up.warm_up_run import WarmUpRun, WarmUpServices
from forebay.jobs.warm_up.warm_ups import WarmUps
from forebay.origin.turns.request_turns import RequestTurns
from forebay.peers.owners import Peers
from forebay.policy.rules import Rules
from forebay.server.admin.worker.worker_jobs import WorkerJobs
from harness.fetch_rig import DECISION, NAME, FetchRig, fetch_rig
from harness.inspection import run_loop_until
from harness.warm_orders import start_job


def warm_ups(rig: FetchRig, directory: Path) -> WarmUps:
    rules, turns, source = Rules([], DECISION), RequestTurns(64, "reads", rig.timers), rig.block_source(deadline=5.0)
    warmer = ObjectWarmer(rig.resolver, rig.openings, source, lambda _: turns.background, lambda: rules, Peers())
    listing: Any = None
    residency = CacheResidency(rig.tiers, Peers())
    services = WarmUpServices(listing, warmer, residency, rig.timers, lambda _: True, lambda _: None)
    return WarmUps(services, rig.tasks, lambda: rig.now, WarmUpRun, JobStore(directory))


async def test_answers_wait_for_the_jobs_of_the_run_before(tmp_path: Path) -> None:
    async with fetch_rig() as rig:
        first = warm_ups(rig, tmp_path)
        job = await start_job(first, NAME.bucket, keys=("missing",))
        await first.wait(job.id)
        first.close()

        second = warm_ups(rig, tmp_path)
        unused: Any = None
        verbs = WorkerJobs(second, unused, unused, unused, lambda: Rules([], DECISION), lambda: rig.now)
        calls = (verbs.jobs(), verbs.job(job.id), verbs.cancel_job(job.id), verbs.job_failures(job.id))
        asked: list[Any] = [rig.tasks.spawn(call, "ask for jobs") for call in calls]
        await run_loop_until(lambda: len(rig.tasks) == len(asked))
        assert await second.adopt() == 0
        listed, found, cancelled, failures = [await each for each in asked]
        assert [each.id for each in (*listed.jobs, found, cancelled)] == [job.id] * 3
        assert [each.key for each in failures.failures] == ["missing"]
        second.close()
