"""One worker in the loop of the soak, checked to its last task when it stops (harness.rig)."""

import random
from functools import partial
from pathlib import Path

from harness.clients import RawClient
from harness.fake_origin import FakeOrigin
from harness.rig import Rig
from harness.worker_node import request_admin
from soak.configuration import settings_of
from soak.disturbances import disturb
from soak.oracle import Oracle
from soak.tls_clients import SHARE, TlsClients


class SingleWorker:
    def __init__(self, origin: FakeOrigin, directory: Path, oracle: Oracle) -> None:
        self._origin, self._oracle = origin, oracle
        self._secure = TlsClients(directory)
        self._rig = Rig(
            origin.endpoint,
            origin.secret,
            directory,
            **settings_of(origin),
            memory="16MiB",
            buffers="16MiB",
            server=self._secure.settings,
        )

    async def start(self) -> None:
        await self._rig.start()

    def client(self, rng: random.Random) -> RawClient:
        if rng.random() < SHARE:
            return self._secure.client(self._rig.worker.tls_address[1])
        return self._rig.client()

    def record_duration(self, client: RawClient, what: str, seconds: float) -> None:
        pass

    async def disturb(self, rng: random.Random) -> None:
        admin = partial(request_admin, self._rig.admin)
        await disturb(rng, self._origin.faults, self._rig.directory, admin, self._oracle)

    async def wait_idle(self) -> None:
        await self._rig.wait_idle()

    def worker_clients(self) -> list[RawClient]:
        """A client of each worker."""
        return [self._rig.client()]

    async def stop(self) -> None:
        await self._rig.stop()
