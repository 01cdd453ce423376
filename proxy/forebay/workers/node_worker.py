"""One worker of several, in its own process: listens to the others, gets from the supervisor what to serve, and serves
until SIGTERM.

    open the socket ──> start: configuration, addresses ──> serve, answer the supervisor ──> SIGTERM: drain ──> exit

`python -m forebay.workers.worker_main` runs it.
"""

import asyncio
import logging
import os
import signal
import sys
from dataclasses import replace
from pathlib import Path
from typing import Final

import forebay_client
from forebay.core.errors import SettingsError, StartError
from forebay.core.events import TierName
from forebay.core.names import ObjectName
from forebay.core.task_registry import TaskRegistry
from forebay.peers.frames import Document
from forebay.peers.json_codec import from_json
from forebay.peers.owners import Peers
from forebay.peers.ownership_claims import FILE_NAME, OwnershipClaims
from forebay.peers.peer_client import Peer
from forebay.peers.peer_codec import decode
from forebay.peers.unix_socket import socket_path
from forebay.server.admin.cached_objects import CacheView, LocalCacheView
from forebay.server.admin.schema.pin_schema import PinChange
from forebay.server.allocator import keep_freed_memory
from forebay.server.composition import WorkerGroup
from forebay.server.config_source import ConfigSource, set_log_level
from forebay.server.event_loop import loop_factory
from forebay.server.huge_pages import move_into_huge_pages
from forebay.server.rpc.rpc_server import RpcMethod, RpcServer
from forebay.server.scheduling_slice import shorten_slice
from forebay.server.startup import freeze_long_lived
from forebay.server.telemetry.log_file import PipeLock
from forebay.server.worker import Membership, Worker
from forebay.settings.live_changes import applied_settings
from forebay.settings.loader import Loaded
from forebay.settings.model import Settings
from forebay.settings.worker_share import worker_share
from forebay.workers.worker_process import FAST_SHUTDOWN
from forebay.workers.worker_rpc import (
    START,
    ConfigRefusal,
    StartRequest,
    WorkerOrders,
    WorkerReport,
    WorkerRpc,
    rpc_handlers,
)

_LOG_FORMAT: Final = "%(levelname)s worker {}: %(name)s: %(message)s"


def run(directory: Path, number: int, workers: int, group: str) -> int:
    """Runs worker `number` of `workers` until SIGTERM; the exit code. `directory`: of the sockets."""
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format=_LOG_FORMAT.format(number))
    for name in ("aiohttp", "botocore", "aiobotocore"):
        logging.getLogger(name).setLevel(logging.WARNING)
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        return runner.run(NodeWorker(directory, number, workers, group).run())


class NodeWorker:
    """The process: its socket, its links to the other workers, and the worker itself once it was started."""

    def __init__(self, directory: Path, number: int, workers: int, group: str) -> None:
        self._workers = workers
        self._methods: dict[str, RpcMethod] = {START: self._start}
        self._port = RpcServer(socket_path(directory, number), self._methods)
        self._pipe_lock = PipeLock(directory / "access-log")
        self._links = TaskRegistry()
        others = {
            other: Peer(other, socket_path(directory, other), number, self._links.spawn)
            for other in range(workers)
            if other != number
        }
        claims = OwnershipClaims.open(directory / FILE_NAME, number, workers)
        self._group = WorkerGroup(group, Peers(others, claims))
        self._worker: Worker | None = None

    async def run(self) -> int:
        """Runs until SIGTERM; FAST_SHUTDOWN then ends the draining. The exit code."""
        graceful, fast, loop = asyncio.Event(), asyncio.Event(), asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, graceful.set)
        loop.add_signal_handler(FAST_SHUTDOWN, fast.set)
        await self._port.start()
        await graceful.wait()
        if self._worker is not None:
            await self._worker.stop(fast)
        await self._port.close()
        await self._links.close()
        return 0

    async def _start(self, document: Document) -> Document:
        """Serves; {"refused": sentence} if that is not possible."""
        if document["version"] != forebay_client.__version__:
            here, there = forebay_client.__version__, document["version"]
            return {"refused": f"this is {here}, the supervisor {there}: restart Forebay"}
        request: StartRequest = decode(lambda: from_json(StartRequest, document["request"]))
        source = ConfigSource(Path(request.file) if request.file is not None else None, os.environ, request.flags)
        try:
            settings = _settings_in_force(source, request)
            set_log_level(settings)
            membership = Membership(
                self._group,
                self._port,
                request.run,
                self._pipe_lock,
                request.listen,
                request.tls_listen,
                request.socket_fd,
            )
            worker = Worker(worker_share(settings, self._workers), source, membership=membership)
            await worker.start()
        except (SettingsError, StartError) as error:
            return {"refused": str(error)}
        for tier, size in request.sizes.items():
            await worker.control.resize_to(tier, size)
        for interface, implementation in worker.control.verbs.implementations():
            self._methods |= rpc_handlers(interface, implementation)
        service = WorkerService(worker, self._workers)
        self._methods |= rpc_handlers(WorkerRpc, service) | rpc_handlers(WorkerOrders, service)
        self._methods |= rpc_handlers(CacheView, LocalCacheView(worker.parts.storage.tiers))
        self._worker = worker
        freeze_long_lived(asyncio.get_running_loop())
        keep_freed_memory()
        shorten_slice()
        self._links.spawn(asyncio.to_thread(move_into_huge_pages), "move into huge pages")
        return {}


def _settings_in_force(source: ConfigSource, request: StartRequest) -> Settings:
    """The settings in force in the workers that run. Raises SettingsError."""
    latest = source.load_text(request.text, request.mode).settings
    if (request.first_text, request.first_mode) == (request.text, request.mode):
        return latest
    # Its secrets may be gone meanwhile: those that are used are in the latest text.
    first = source.load_text(request.first_text, request.first_mode, without_secrets=True).settings
    return applied_settings(first, latest)


class WorkerService(WorkerRpc, WorkerOrders):
    """Implements both in a running worker. `workers`: how many share the configured sizes."""

    def __init__(self, worker: Worker, workers: int) -> None:
        self._worker = worker
        self._workers = workers
        self._prepared: Loaded | None = None

    async def report(self) -> WorkerReport:
        """The worker's counters and gauges."""
        control = self._worker.control
        rules = list(self._worker.parts.context.metrics.rules.items())
        return WorkerReport(
            await control.metrics(),
            await control.stats(),
            {rule: (counts.fetched - counts.warmed, counts.sent["flight"]) for rule, counts in rules},
        )

    async def prepare_config(self, text: str | None, mode: int) -> ConfigRefusal | None:
        """Validates a configuration, and keeps it."""
        self._prepared = None
        try:
            loaded = await asyncio.to_thread(self._worker.source.load_text, text, mode)
        except SettingsError as error:
            return ConfigRefusal(error.where, str(error.value), error.allowed)
        self._prepared = replace(loaded, settings=worker_share(loaded.settings, self._workers))
        return None

    async def commit_config(self) -> None:
        """Puts the prepared configuration in force."""
        if self._prepared is not None:
            self._worker.control.apply(self._prepared)
            self._prepared = None

    async def announce_shutdown(self) -> None:
        """Makes readiness fail."""
        await self._worker.announce_shutdown()

    async def reopen_files(self) -> None:
        """Reopens the access log, and reads the certificate again."""
        await self._worker.reopen_files()

    async def resize_tier(self, tier: TierName, capacity: int) -> None:
        """Resizes a tier of this worker."""
        await self._worker.control.resize_to(tier, capacity)

    async def change_pins(self, bucket: str, prefix: str, is_pinned: bool) -> PinChange:
        """Pins or unpins a prefix."""
        return await self._worker.control.pins.change(bucket, prefix, is_pinned=is_pinned)

    async def load_pins(self) -> None:
        """Takes the pins from the file."""
        await self._worker.parts.storage.pins.load()

    async def invalidate(self, names: list[ObjectName]) -> None:
        """Invalidates the objects."""
        await self._worker.parts.metadata.invalidator.invalidate(names)
