"""The metrics of plans: counts of one worker's coordinator. Implements jobs.plans.plan_counts.PlanMetrics."""

from forebay.server.telemetry.metrics import Metrics


class CountedPlans:
    """Counts in `metrics`."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def count_entries(self, result: str, by: int) -> None:
        """Counts entries by their result."""
        self._metrics.count("forebay_plan_entries_total", result, by=by)

    def count_fetched(self, blocks: int, size: int) -> None:
        """Counts blocks and their bytes."""
        self._metrics.count("forebay_plan_blocks_total", by=blocks)
        self._metrics.count("forebay_plan_bytes_total", "fetched", by=size)

    def count_useless(self, size: int) -> None:
        """Counts bytes that were dropped unread."""
        self._metrics.count("forebay_plan_bytes_total", "useless", by=size)
