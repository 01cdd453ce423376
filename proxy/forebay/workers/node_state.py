"""What the supervisor knows of its node: what is in force, which workers run, and what those that died had done."""

import time

import forebay_client
from forebay.core.events import TierName
from forebay.server.admin.stats_model import BudgetFigures, Figures, FlightFigures, OriginFigures, TierFigures
from forebay.server.config_source import ConfigSource
from forebay.server.size_overrides import ResizedTiers
from forebay.settings.model import Settings
from forebay.storage.tier_contract import Occupancy
from forebay.workers.merged_metrics import AMPLIFICATION, Counted
from forebay.workers.merged_stats import added, figures_of, remains_of
from forebay.workers.worker_process import WorkerProcess


class Standing:
    """See the module."""

    def __init__(self, settings: Settings, source: ConfigSource, text: str | None, mode: int, workers: int) -> None:
        self.settings = settings
        self.source = source
        self.text = text
        self.mode = mode
        """Of the file, for a worker that begins later."""
        self.workers = workers
        self.resized = ResizedTiers()
        self.processes: dict[int, WorkerProcess] = {}
        self.restarts = 0
        self._started = time.monotonic()
        self._counted = Counted()
        self._remains: Figures | None = None

    @property
    def alive(self) -> list[WorkerProcess]:
        """The workers that serve, by their numbers."""
        return [worker for _, worker in sorted(self.processes.items()) if worker.code is None]

    def share(self, tier: TierName, size: int) -> int:
        """What one worker is told, of a size of all."""
        return size // self.workers if tier == "memory" else size

    def sizes_of_one(self) -> dict[str, int]:
        return {tier: self.share(tier, size) for tier, size in self.resized.all()}

    def bury(self, worker: WorkerProcess) -> None:
        """A worker has ended: what it had done, when it was last looked at, stays done."""
        if self.processes.get(worker.number) is worker:
            del self.processes[worker.number]
        if not worker.look:
            return
        self._counted.bury(worker.look["metrics"])
        told = remains_of(figures_of(worker.look["figures"]))
        dead = [told] if self._remains is None else [self._remains, told]
        self._remains = added([], dead, self.workers, 0.0, self._empty())

    def figures(self) -> Figures:
        """The node's, out of what its workers were last seen to have."""
        living = [figures_of(worker.look["figures"]) for worker in self.alive if worker.look]
        dead = [self._remains] if self._remains is not None else []
        uptime = time.monotonic() - self._started
        return added(living, dead, self.workers, uptime, self._empty())

    def exposition(self) -> str:
        """Likewise, for Prometheus."""
        looks = [worker.look for worker in self.alive if worker.look]
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

    def _empty(self) -> Figures:
        """What is told while nobody lives to tell more."""
        settings = self.resized.over(self.settings)
        tiers = [TierFigures("memory", "failing", Occupancy(settings.memory.size, 0, 0, 0))]
        if settings.ssd is not None:
            tiers.append(TierFigures("ssd", "failing", Occupancy(settings.ssd.size, 0, 0, 0)))
        return Figures(
            version=forebay_client.__version__,
            uptime=time.monotonic() - self._started,
            workers=self.workers,
            workers_alive=0,
            requests={},
            bytes_sent=0,
            bytes_received=0,
            reads=(),
            tiers=tuple(tiers),
            flights=FlightFigures(0, 0),
            jobs_running=0,
            budget=BudgetFigures(settings.memory.buffers, 0, 0),
            origin=OriginFigures(settings.origin.endpoint, "unknown", "closed", 0, 0, 0, 0),
        )
