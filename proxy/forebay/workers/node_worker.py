"""One worker of several, in its own process: listens to the others, is told by the supervisor what to serve, and serves
until SIGTERM.

What it is told it is told over its socket (forebay.server.rpc.rpc_server): no secret is on a command line.
"""

import asyncio
import logging
import os
import signal
import sys
from pathlib import Path
from typing import Any, Final

import forebay_client
from forebay.core.errors import SettingsError
from forebay.core.task_registry import TaskRegistry
from forebay.peers.frames import Document
from forebay.peers.owners import Peers
from forebay.peers.peer_client import Peer
from forebay.peers.unix_socket import socket_path
from forebay.server.composition import WorkerGroup
from forebay.server.config_source import ConfigSource, set_log_level
from forebay.server.event_loop import loop_factory
from forebay.server.http.listening_sockets import AddressUnavailable
from forebay.server.rpc.rpc_server import RpcMethod, RpcServer
from forebay.server.startup import freeze_long_lived
from forebay.server.telemetry.log_file import PipeLock
from forebay.server.worker import Membership, Worker
from forebay.settings.addresses import ListenAddress
from forebay.settings.worker_share import worker_share
from forebay.workers.rpc_methods import Answers
from forebay.workers.worker_process import FAST_SHUTDOWN

_log = logging.getLogger(__name__)

_LOG_FORMAT: Final = "%(levelname)s worker {}: %(name)s: %(message)s"


class NodeWorker:
    """See the module."""

    def __init__(self, directory: Path, number: int, workers: int, family: str) -> None:
        self._number = number
        self._workers = workers
        self._control: dict[str, RpcMethod] = {"begin": self._begin}
        self._port = RpcServer(socket_path(directory, number), self._control)
        self._turns = PipeLock(directory / "access-log")
        self._links = TaskRegistry()
        others = [other for other in range(workers) if other != number]
        self._family = WorkerGroup(
            family,
            Peers({one: Peer(one, socket_path(directory, one), number, self._links.spawn) for one in others}),
        )
        self._worker: Worker | None = None

    async def run(self) -> int:
        """Until SIGTERM; with HURRY, without waiting for open requests."""
        ending, hurry, loop = asyncio.Event(), asyncio.Event(), asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, ending.set)
        loop.add_signal_handler(FAST_SHUTDOWN, hurry.set)
        await self._port.start()
        await ending.wait()
        if self._worker is not None:
            await self._worker.stop(hurry)
        await self._port.close()
        await self._links.close()
        return 0

    async def _begin(self, order: Document) -> Document:
        """Serve. Answers with what is refused, if it is."""
        if order["version"] != forebay_client.__version__:
            return {
                "refused": f"this is {forebay_client.__version__}, the supervisor {order['version']}: restart Forebay"
            }
        file = order["file"]
        source = ConfigSource(Path(file) if file is not None else None, os.environ, order["flags"])
        try:
            loaded = source.load_text(order["text"], order["mode"])
            set_log_level(loaded.settings)
            settings = worker_share(loaded.settings, self._workers)
            seat = Membership(
                self._family, self._port, self._turns, _address(order["listen"]), _address_or_none(order["tls_listen"])
            )
            worker = Worker(settings, source, membership=seat)
            await worker.start()
        except (SettingsError, AddressUnavailable) as error:
            return {"refused": str(error)}
        for tier, size in order["sizes"].items():
            await worker.control.resize_to("ssd" if tier == "ssd" else "memory", size)
        self._control |= Answers(worker, self._workers).table()
        self._worker = worker
        freeze_long_lived(asyncio.get_running_loop())
        return {}


def _address(given: Any) -> ListenAddress:
    host, port = given
    return ListenAddress(str(host), int(port))


def _address_or_none(given: Any) -> ListenAddress | None:
    return _address(given) if given is not None else None


def run(directory: Path, number: int, workers: int, family: str) -> int:
    """Until it is told to end; the exit code."""
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format=_LOG_FORMAT.format(number))
    for name in ("aiohttp", "botocore", "aiobotocore"):
        logging.getLogger(name).setLevel(logging.WARNING)
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        return runner.run(NodeWorker(directory, number, workers, family).run())
