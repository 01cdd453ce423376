"""One worker, in the loop of the soak itself: what it leaves behind is seen to its last task (harness.rig)."""

import random
from functools import partial
from pathlib import Path

from harness.clients import RawClient
from harness.fake_origin import FakeOrigin
from harness.rig import Rig
from harness.worker_node import ask_admin
from soak.configuration import settings_of
from soak.disturbances import some_trouble
from soak.oracle import Truth
from soak.tls_clients import SHARE, Secure


class Alone:
    def __init__(self, origin: FakeOrigin, directory: Path, truth: Truth) -> None:
        self._origin, self._truth = origin, truth
        self._secure = Secure(directory)
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

    def client(self, chance: random.Random) -> RawClient:
        if chance.random() < SHARE:
            return self._secure.client(self._rig.worker.tls_address[1])
        return self._rig.client()

    def took(self, client: RawClient, what: str, seconds: float) -> None:
        pass

    async def trouble(self, chance: random.Random) -> None:
        admin = partial(ask_admin, self._rig.admin)
        await some_trouble(chance, self._origin.faults, self._rig.directory, admin, self._truth)

    async def settled(self) -> None:
        await self._rig.settled()

    def everywhere(self) -> list[RawClient]:
        """A client of each worker."""
        return [self._rig.client()]

    async def stop(self) -> None:
        await self._rig.stop()
