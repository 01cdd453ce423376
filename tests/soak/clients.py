"""The clients of the soak: each writes keys of its own and reads all keys in every way."""

import random
import time
from dataclasses import dataclass

from soak.client_requests import RequestSender, SoakServer
from soak.configuration import all_keys
from soak.oracle import Oracle
from soak.read_checks import ReadChecks
from soak.writer import Writer


@dataclass
class SoakClient:
    """One of many."""

    server: SoakServer
    oracle: Oracle
    number: int
    rng: random.Random

    def __post_init__(self) -> None:
        self._sender = RequestSender(self.server, self.oracle, self.rng)
        self._reads = ReadChecks(self.oracle, self.rng)
        self._writer = Writer(self._sender, self.oracle, self.number, self.rng)
        self._everybodys = all_keys()

    async def run(self, deadline: float) -> None:
        while time.monotonic() < deadline:
            await self._act()
        await self._sender.close()

    async def _act(self) -> None:
        roll = self.rng.random()
        if roll < 0.12:
            await self._writer.write()
        elif roll < 0.14:
            await self._writer.delete()
        elif roll < 0.15:
            await self._writer.delete_several()
        elif roll < 0.16:
            await self._writer.upload()
        elif roll < 0.19:
            await self._writer.write_version()
        elif roll < 0.22:
            await self._writer.read_version()
        elif roll < 0.30:
            await self._sender.send_and_disconnect(self._reads.whole(self.rng.choice(self._everybodys)).request)
        elif roll < 0.34:
            read = self._reads.any()
            read.verify(await self._sender.send_reading_slowly(read.request))
        elif roll < 0.45:
            reads = [self._reads.any() for _ in range(self.rng.randrange(2, 9))]
            answers = await self._sender.send_pipelined([read.request for read in reads])
            for read, answer in zip(reads, answers, strict=True):
                read.verify(answer)
        else:
            read = self._reads.any()
            read.verify(await self._sender.send(read.request))
