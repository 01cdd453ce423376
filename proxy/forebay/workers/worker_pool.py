"""The worker processes of a node, and the sum of their counters. The supervisor starts and ends them.

The last reported counters of a worker that has exited stay in the sums, so that no counter falls.
"""

from collections.abc import Iterator

from forebay.server.admin.schema.stats_schema import Stats
from forebay.server.admin.schema.stats_sum import add_stats, counters_of, total_of
from forebay.workers.merged_metrics import AMPLIFICATION, ExitedCounters
from forebay.workers.worker_process import WorkerProcess
from forebay.workers.worker_rpc import WorkerReport


class WorkerPool:
    """The processes by the workers' numbers. `worker_count`: how many should run."""

    def __init__(self, worker_count: int) -> None:
        self.worker_count = worker_count
        self.processes: dict[int, WorkerProcess] = {}
        self.restarts = 0
        self._exited_counters = ExitedCounters()
        self._exited_stats: Stats | None = None

    @property
    def alive(self) -> list[WorkerProcess]:
        """The workers that serve, by their numbers."""
        return [worker for _, worker in sorted(self.processes.items()) if worker.exit_code is None]

    def record_exit(self, worker: WorkerProcess) -> None:
        """Removes a worker that has exited, and keeps its last reported counters."""
        if self.processes.get(worker.number) is worker:
            del self.processes[worker.number]
        if worker.report is None:
            return
        self._exited_counters.add(worker.report.metrics)
        counters = counters_of(worker.report.stats)
        self._exited_stats = counters if self._exited_stats is None else add_stats(self._exited_stats, counters)

    def stats(self, empty: Stats) -> Stats:
        """The node's stats by the latest reports. `empty`: those of the node without any worker."""
        exited = [self._exited_stats] if self._exited_stats is not None else []
        return total_of(empty, [report.stats for report in self._reports()], exited)

    def metrics_text(self) -> str:
        """The node's metrics by the latest reports, for Prometheus."""
        reports = list(self._reports())
        gauges: list[tuple[str, dict[str, str], float]] = [
            ("forebay_workers", {}, len(self.alive)),
            ("forebay_worker_restarts_total", {}, self.restarts),
        ]
        if len(self.alive) < self.worker_count:
            gauges.append(("forebay_ready", {}, 0.0))
        fetched: dict[str, float] = {}
        delivered: dict[str, float] = {}
        for rule, (came, went) in (each for report in reports for each in report.amplification.items()):
            fetched[rule] = fetched.get(rule, 0) + came
            delivered[rule] = delivered.get(rule, 0) + went
        gauges += [(AMPLIFICATION, {"rule": rule}, fetched[rule] / went) for rule, went in delivered.items() if went]
        return self._exited_counters.merged([report.metrics for report in reports], gauges)

    def _reports(self) -> Iterator[WorkerReport]:
        return (worker.report for worker in self.alive if worker.report is not None)
