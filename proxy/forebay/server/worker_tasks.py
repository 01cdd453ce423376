"""The background tasks of one worker: once after its start, and every few seconds."""

import asyncio
import logging
import time
from typing import Final

from forebay.core.task_registry import TaskRegistry
from forebay.jobs.recordings.recorder import Recorder
from forebay.server.admin.worker.worker_control import WorkerControl
from forebay.server.clock_watch import ClockWatch
from forebay.server.composition import Parts
from forebay.server.http.tls import Certificate, CertificateRefused, CertificateRenewed, CertificateUnchanged
from forebay.server.origin_watch import OriginWatch
from forebay.server.telemetry.metrics import Metrics

_log = logging.getLogger(__name__)

CHECK_INTERVAL: Final = 5.0
"""Seconds between two checks of states that change by themselves: the origin, the clock, jobs, recordings, a TLS
certificate."""


class WorkerTasks(TaskRegistry):
    """See the module. `check_interval`: see CHECK_INTERVAL."""

    def __init__(self, check_interval: float) -> None:
        super().__init__()
        self._check_interval = check_interval

    def start(
        self, parts: Parts, control: WorkerControl, origin_watch: OriginWatch, certificate: Certificate | None
    ) -> None:
        """Starts them."""
        self.spawn(self._watch_origins(parts, control, origin_watch), "watch the origin")
        self.spawn(self._watch_clock(parts), "watch the clock")
        self.spawn(self._adopt_jobs(parts), "adopt warm-up jobs")
        self.spawn(asyncio.to_thread(parts.storage.spool.remove_abandoned), "remove abandoned spools")
        if parts.jobs.plans.coordinates:
            parts.context.tasks.spawn(parts.jobs.plans.coordinator.start(), "take up the plans")
        if (kept := parts.jobs.kept_recordings) is not None:
            self.spawn(kept.start(), "open the recordings")
            self.spawn(self._tend_recordings(kept.recorder), "tend the recordings")
        if parts.storage.ssd is not None:
            self.spawn(parts.storage.ssd.attach_while_serving(), "attach the SSD tier")
        if parts.writes.write_back is not None:
            self.spawn(parts.writes.write_back.watch.run(), "watch the journal")
        if certificate is not None:
            self.spawn(self._watch_certificate(certificate, parts.context.metrics), "certificate")

    async def _watch_origins(self, parts: Parts, control: WorkerControl, origin_watch: OriginWatch) -> None:
        while True:
            await origin_watch.check(control.settings)
            parts.writes.uploads.expire()
            await asyncio.sleep(self._check_interval)

    async def _watch_clock(self, parts: Parts) -> None:
        def forget_permissions() -> None:
            parts.metadata.resolver.permissions.clear()
            parts.requests.listing_permissions.clear()

        context = parts.context
        watch = ClockWatch(
            context.clock, time.monotonic, context.in_doubt_writes, forget_permissions, self._check_interval
        )
        while True:
            await asyncio.sleep(self._check_interval)
            if step := watch.check():
                _log.warning("the clock was set back by %.0f s: cached objects are revalidated once", step)

    async def _adopt_jobs(self, parts: Parts) -> None:
        """Resumes the jobs of the run before; from then on, those of a worker that has ended."""
        while True:
            await parts.jobs.warm_ups.adopt()
            await asyncio.sleep(self._check_interval)

    async def _tend_recordings(self, recorder: Recorder) -> None:
        while True:
            await asyncio.sleep(self._check_interval)
            recorder.save_tracks()

    async def _watch_certificate(self, certificate: Certificate, metrics: Metrics) -> None:
        while True:
            await asyncio.sleep(self._check_interval)
            await reload_certificate(certificate, metrics)


async def reload_certificate(certificate: Certificate, metrics: Metrics, *, force: bool = False) -> None:
    """Reads the certificate's files again, if they have changed or by `force`. A refused one changes nothing."""
    match await asyncio.to_thread(lambda: certificate.reload(force=force)):
        case CertificateRenewed():
            metrics.count("forebay_certificate_renewals_total")
            _log.info("new TLS connections are shown the certificate that was read now")
        case CertificateRefused(reason):
            metrics.count("forebay_certificate_refusals_total")
            _log.error("the new TLS certificate is refused, the old one stays: %s", reason)
        case CertificateUnchanged():
            pass
