"""A node of several workers that are killed one by one, or all at once, over one journal, under clients that write on.

    async with killed_node(directory, seed, workers=4) as node:
        await node.kill(random_moment(random), [2])
        await node.check()

The supervisor's part is played here: it starts each worker anew at once, by the same call.
"""

import asyncio
import secrets
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Final

import forebay_client
from forebay.core.errors import PeerUnavailable
from forebay.core.task_registry import TaskRegistry
from forebay.peers.frames import Document
from forebay.peers.json_codec import to_json
from forebay.peers.peer_client import Peer
from forebay.peers.unix_socket import make_socket_directory, socket_path
from forebay.server.config_source import ConfigSource
from forebay.settings.addresses import ListenAddress
from forebay.storage.cache_origin import cache_origins
from forebay.storage.run_record import NodeRun, begin_run
from forebay.workers.worker_process import CONNECT_RETRY, SUPERVISOR_NUMBER
from forebay.workers.worker_rpc import START, StartRequest
from forebay_demo.free_ports import free_ports
from harness.fake_origin import FakeOrigin
from harness.fork_server import ForkedProcess, ForkServer, fork_server
from harness.journal_kills import RULES
from harness.journal_writers import JournalWriters
from harness.kill_points import Moment
from harness.origin_history import RecordingStore
from harness.rig import configuration_of

CLIENTS: Final = 3


class KilledNode:
    """See the module. `sockets`: the directory of the workers' sockets."""

    def __init__(
        self,
        origin: FakeOrigin,
        writers: JournalWriters,
        server: ForkServer,
        configuration: Path,
        sockets: Path,
        workers: int,
    ) -> None:
        self.origin = origin
        self.writers = writers
        self.kills = 0
        self._server = server
        self._source = ConfigSource(configuration, {}, {})
        self._sockets = sockets
        self._ports = free_ports(workers)
        self._processes: dict[int, ForkedProcess] = {}
        self._tasks = TaskRegistry()
        self._group = ""
        self._run: NodeRun | None = None

    async def kill(self, moment: Moment, workers: Sequence[int]) -> None:
        """Kills these workers, and starts them anew. No worker: all of them, and another run begins."""
        await self.writers.wait_for(len(self.writers.acknowledged) + moment.writes)
        await asyncio.sleep(moment.seconds)
        killed = [self._processes[number] for number in workers or self._processes]
        for process in killed:
            process.kill()
        for process in killed:
            await process.wait_exit()
        self.kills += 1
        await self.start(workers)

    async def start(self, workers: Sequence[int]) -> None:
        """Starts these workers; none: all, as a run of their own."""
        if not workers:
            self._group, settings = secrets.token_hex(16), self._source.load().settings
            self._run = begin_run(settings.server.state_dir, *cache_origins(settings))
        await asyncio.gather(*(self._start(number) for number in workers or range(len(self._ports))))
        await self.writers.use([self.endpoint(number) for number in self._processes])

    async def _start(self, number: int) -> None:
        path = socket_path(self._sockets, number)
        path.parent.mkdir(mode=0o700, exist_ok=True)
        path.touch(mode=0o600)  # expected here (forebay.workers.worker_process)
        order = {"directory": str(self._sockets), "number": number, "workers": len(self._ports), "group": self._group}
        self._processes[number] = await self._server.fork(order)
        text, mode = self._source.read()
        assert self._run is not None
        listen = ListenAddress("127.0.0.1", self._ports[number])
        file = str(self._source.file)
        request = StartRequest(text, mode, text, mode, file, {}, listen, None, None, {}, self._run)
        document = {"kind": START, "version": forebay_client.__version__, "request": to_json(request)}
        peer = Peer(number, path, SUPERVISOR_NUMBER, self._tasks.spawn)
        try:
            answer = await self._call(peer, document)
            assert answer.keys() <= {"kind", "id"}, answer
        finally:
            peer.close()

    async def _call(self, peer: Peer, document: Document) -> Document:
        while True:
            try:
                return await peer.call(document)
            except PeerUnavailable:
                await asyncio.sleep(CONNECT_RETRY / 4)

    def endpoint(self, worker: int) -> str:
        return f"http://127.0.0.1:{self._ports[worker]}"

    async def check(self) -> None:
        """Every acknowledged write is at the origin in the end, whole, in an order that its clients could have seen."""
        await self.writers.stop()
        await self.writers.check(self.endpoint(0))


@asynccontextmanager
async def killed_node(
    directory: Path, seed: int, workers: int, *, clients: int = CLIENTS, size: str = "256MiB"
) -> AsyncIterator[KilledNode]:
    """A journal of this size, an origin, clients that write, and a node whose workers are to be killed."""
    store = RecordingStore()
    async with FakeOrigin(smallest_part=1) as origin, fork_server(directory / "log") as server:
        origin.store = store
        store.create_bucket("ckpt")
        rules = RULES.format(path=directory / "journal", size=size)
        file = directory / "forebay.toml"
        lines = f"workers = {workers}\n"
        text = configuration_of(origin.endpoint, origin.secret, directory, server=lines, rest=rules)
        await asyncio.to_thread(file.write_text, text)
        await asyncio.to_thread(file.chmod, 0o600)
        sockets, writers = make_socket_directory(workers), JournalWriters(store, Random(seed))
        try:
            node = KilledNode(origin, writers, server, file, sockets.path, workers)
            await node.start([])
            writing = TaskRegistry().spawn(writers.run(clients), "write")
            try:
                yield node
            finally:
                await writers.stop()
                await writing
        finally:
            await server.close()
            sockets.remove()
