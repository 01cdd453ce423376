"""One worker in the loop of the soak, checked to its last task when it stops (harness.rig)."""

import random
from pathlib import Path
from typing import Any

from forebay_demo.free_ports import free_ports
from harness.clients import RawClient
from harness.fake_origin import FakeOrigin
from harness.rig import TRAINER, Rig
from harness.worker_node import request_admin
from soak.configuration import settings_of, socket_of
from soak.disturbances import disturb
from soak.oracle import Oracle
from soak.switches import Switches
from soak.tls_clients import SHARE, TlsClients
from soak.upper_forebay import UpperForebay


class SingleWorker:
    def __init__(self, origin: FakeOrigin | UpperForebay, directory: Path, oracle: Oracle, switches: Switches) -> None:
        self._origin, self._oracle = origin, oracle
        self._secure = TlsClients(directory)
        self._rig = Rig(
            origin.endpoint,
            origin.secret,
            directory,
            **settings_of(origin, directory, self._secure.settings, switches),
        )
        self._endpoint = f"http://127.0.0.1:{(port := free_ports(1)[0])}"
        self._rig.configuration = self._rig.configuration.replace("127.0.0.1:0", f"127.0.0.1:{port}", 1)
        self._tls_port = 0

    async def start(self) -> None:
        await self._rig.start()
        self._tls_port = self._rig.worker.tls_address[1]

    async def restart(self, *, is_last: bool = False) -> None:
        """As an operator does it, with whatever is pending."""
        self._rig.configuration = self.configuration.read_text()
        await self._rig.stop()
        await self.start()
        self._oracle.done["restarts"] += 1

    @property
    def configuration(self) -> Path:
        return self._rig.directory / "forebay.toml"

    @property
    def socket(self) -> str:
        return socket_of(self._rig.directory)

    def endpoints(self) -> list[str]:
        return [self._endpoint]

    def client(self, rng: random.Random) -> RawClient:
        """Also while it does not run."""
        if rng.random() < SHARE:
            return self._secure.client(self._tls_port)
        return RawClient(self._endpoint, TRAINER)

    async def request_admin(self, method: str, path: str, body: object = None) -> tuple[int, Any]:
        return await request_admin(self._rig.admin, method, path, body)

    def record_duration(self, client: RawClient, what: str, seconds: float) -> None:
        pass

    async def disturb(self, rng: random.Random) -> None:
        await disturb(rng, self._origin.faults, self._rig.directory, self.request_admin, self._oracle)

    async def end_disturbances(self) -> None:
        """There are none of the worker itself."""

    async def wait_idle(self) -> None:
        await self._rig.wait_idle()

    def worker_clients(self) -> list[RawClient]:
        """A client of each worker."""
        return [self._rig.client()]

    async def stop(self) -> None:
        await self._rig.stop()
