"""The clients: each has keys of its own to write, and reads everybody's, in whatever way one can."""

import random
import time
from dataclasses import dataclass

from soak.client_requests import Asking, Door
from soak.configuration import everybodys
from soak.oracle import Truth
from soak.read_checks import Reads
from soak.writer import Writer


@dataclass
class Client:
    """One of many."""

    door: Door
    truth: Truth
    number: int
    chance: random.Random

    def __post_init__(self) -> None:
        self._asking = Asking(self.door, self.truth, self.chance)
        self._reads = Reads(self.truth, self.chance)
        self._writer = Writer(self._asking, self.truth, self.number, self.chance)
        self._everybodys = everybodys()

    async def go_on(self, deadline: float) -> None:
        while time.monotonic() < deadline:
            await self._something()
        await self._asking.close()

    async def _something(self) -> None:
        roll = self.chance.random()
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
            await self._asking.leave(self._reads.whole(self.chance.choice(self._everybodys)).wanted)
        elif roll < 0.34:
            read = self._reads.any()
            read.judge(await self._asking.ask_slowly(read.wanted))
        elif roll < 0.45:
            reads = [self._reads.any() for _ in range(self.chance.randrange(2, 9))]
            answers = await self._asking.ask_at_once([read.wanted for read in reads])
            for read, answer in zip(reads, answers, strict=True):
                read.judge(answer)
        else:
            read = self._reads.any()
            read.judge(await self._asking.ask(read.wanted))
