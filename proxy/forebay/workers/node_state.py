"""What the supervisor knows of its node: what is in force, which workers run, and what those that died had done."""

import time

import forebay_client
from forebay.core.events import TierName
from forebay.server.admin.stats_schema import BudgetStats, FlightStats, OriginStats, Stats, TierStats
from forebay.server.config_source import ConfigSource, SizeOverrides
from forebay.settings.model import Settings
from forebay.storage.tier_contract import Occupancy
from forebay.workers.merged_metrics import AMPLIFICATION, ExitedCounters
from forebay.workers.merged_stats import added, figures_of, remains_of
from forebay.workers.worker_process import WorkerProcess


class NodeState:
    """See the module."""

    def __init__(self, settings: Settings, source: ConfigSource, text: str | None, mode: int, workers: int) -> None:
        self.settings = settings
        self.source = source
        self.text = text
        self.mode = mode
        """Of the file, for a worker that begins later."""
        self.worker_count = workers
        self.size_overrides = SizeOverrides()
        self.processes: dict[int, WorkerProcess] = {}
        self.restarts = 0
        self._started = time.monotonic()
        self._counted = ExitedCounters()
        self._remains: Stats | None = None

    @property
    def alive(self) -> list[WorkerProcess]:
        """The workers that serve, by their numbers."""
        return [worker for _, worker in sorted(self.processes.items()) if worker.exit_code is None]

    def worker_share(self, tier: TierName, size: int) -> int:
        """What one worker is told, of a size of all."""
        return size // self.worker_count if tier == "memory" else size

    def worker_sizes(self) -> dict[str, int]:
        return {tier: self.worker_share(tier, size) for tier, size in self.size_overrides.items()}

    def record_exit(self, worker: WorkerProcess) -> None:
        """A worker has ended: what it had done, when it was last looked at, stays done."""
        if self.processes.get(worker.number) is worker:
            del self.processes[worker.number]
        if not worker.report:
            return
        self._counted.add(worker.report["metrics"])
        told = remains_of(figures_of(worker.report["figures"]))
        dead = [told] if self._remains is None else [self._remains, told]
        self._remains = added([], dead, self.worker_count, 0.0, self._empty())

    def stats(self) -> Stats:
        """The node's, out of what its workers were last seen to have."""
        living = [figures_of(worker.report["figures"]) for worker in self.alive if worker.report]
        dead = [self._remains] if self._remains is not None else []
        uptime = time.monotonic() - self._started
        return added(living, dead, self.worker_count, uptime, self._empty())

    def metrics_text(self) -> str:
        """Likewise, for Prometheus."""
        looks = [worker.report for worker in self.alive if worker.report]
        gauges: list[tuple[str, dict[str, str], float]] = [
            ("forebay_workers", {}, len(self.alive)),
            ("forebay_worker_restarts_total", {}, self.restarts),
        ]
        fetched: dict[str, float] = {}
        delivered: dict[str, float] = {}
        for rule, (came, went) in (each for look in looks for each in look["delivered"].items()):
            fetched[rule] = fetched.get(rule, 0) + came
            delivered[rule] = delivered.get(rule, 0) + went
        gauges += [(AMPLIFICATION, {"rule": rule}, fetched[rule] / went) for rule, went in delivered.items() if went]
        return self._counted.merged([look["metrics"] for look in looks], gauges)

    def _empty(self) -> Stats:
        """What is told while nobody lives to tell more."""
        settings = self.size_overrides.apply(self.settings)
        tiers = [TierStats("memory", "failing", Occupancy(settings.memory.size, 0, 0, 0))]
        if settings.ssd is not None:
            tiers.append(TierStats("ssd", "failing", Occupancy(settings.ssd.size, 0, 0, 0)))
        return Stats(
            version=forebay_client.__version__,
            uptime=time.monotonic() - self._started,
            workers=self.worker_count,
            workers_alive=0,
            requests={},
            bytes_sent=0,
            bytes_received=0,
            reads=(),
            tiers=tuple(tiers),
            flights=FlightStats(0, 0),
            jobs_running=0,
            budget=BudgetStats(settings.memory.buffers, 0, 0),
            origin=OriginStats(settings.origin.endpoint, "unknown", "closed", 0, 0, 0, 0),
        )
