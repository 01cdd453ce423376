"""What operators and the origin do to the data bucket meanwhile: faults of writes, rules that change, pins, warm-ups,
looks at what is known."""

import asyncio
import random
import time
from pathlib import Path
from typing import Final

from forebay.core.task_registry import TaskRegistry
from harness.clients import query_of
from harness.fake import actions
from harness.fake.faults import Faults
from harness.fake.gate import Gate
from soak.data_bucket import CHANGES, DATA, PACKED, PREFIXES
from soak.disturbances import Admin
from soak.foreign_bucket import FOREIGN
from soak.foreign_history import ForeignHistory
from soak.write_history import WriteHistory

_WRITE_FAULTS: Final = (
    actions.SLOW_DOWN,
    actions.INTERNAL_ERROR,
    actions.Drop(),
    actions.Drop(reset=True),
    actions.LoseAnswer(),
    actions.LoseAnswer(reset=True),
)
_METHODS: Final = ("PUT", "POST", "DELETE", "HEAD")


class Operators:
    """See the module. `configuration`: the file that the server was started with."""

    def __init__(
        self,
        faults: Faults,
        configuration: Path,
        admin: Admin,
        history: WriteHistory,
        foreign: ForeignHistory,
        rng: random.Random,
    ) -> None:
        self._faults, self._configuration, self._admin = faults, configuration, admin
        self._history, self._foreign, self._rng = history, foreign, rng
        self._gates = TaskRegistry()

    async def pack(self) -> None:
        """Makes the pack of the members, before anybody reads."""
        _, job = await self._admin("POST", "/v1/packs", {"bucket": DATA, "prefix": PACKED, "shard_size": "1MiB"})
        while True:
            _, told = await self._admin("GET", f"/v1/jobs/{job['id']}")
            if told["state"] not in {"running", "queued"}:
                break
            await asyncio.sleep(0.05)
        assert told["state"] == "done", told

    async def disturb(self) -> None:
        """One fault of writes, and perhaps something that an operator does."""
        roll = self._rng.random()
        method, times = self._rng.choice(_METHODS), self._rng.randrange(1, 3)
        bucket = self._rng.choice((DATA, DATA, FOREIGN))
        if roll < 0.2:
            self._faults.add(self._rng.choice(_WRITE_FAULTS), method=method, bucket=bucket, times=times)
        elif roll < 0.25:
            gate = Gate()
            self._faults.add(actions.HoldHead(gate), method=method, bucket=bucket, times=times)
            self._gates.spawn(self._open_later(gate), "open a gate")
        if self._rng.random() < 0.2:
            await self.end_conflicts()
        roll = self._rng.random()
        if roll < 0.05:
            self._change_rules()
            await self._ask("reloaded", "POST", "/v1/config/reload")
        elif roll < 0.09:
            pin = {"bucket": DATA, "prefix": self._rng.choice(PREFIXES)}
            await self._ask("pinned", "POST", "/v1/pins", pin)
        elif roll < 0.13:
            await self._ask("unpinned", "DELETE", f"/v1/pins?bucket={DATA}&prefix={self._rng.choice(PREFIXES)}")
        elif roll < 0.16:
            await self._ask("warmed", "POST", "/v1/jobs", {"bucket": DATA, "prefix": self._rng.choice(PREFIXES)})
        elif roll < 0.18:
            await self._ask("purged", "DELETE", f"/v1/cache?bucket={DATA}&prefix={self._rng.choice(PREFIXES)}")
        elif roll < 0.2:
            await self._ask("asked for recordings", "GET", "/v1/recordings")
        elif roll < 0.22:
            await self._ask(
                "flushed", "POST", "/v1/flush", {"bucket": DATA, "prefix": self._rng.choice(PREFIXES), "wait": 1}
            )

    async def end_conflicts(self) -> None:
        """Gives up what can't be carried out, as others have written the object meanwhile."""
        status, page = await self._admin("GET", f"/v1/writes?bucket={FOREIGN}&state=conflict")
        for write in page["writes"] if status == 200 else ():
            given_up = self._foreign.begin_to_give_up(write["key"], write["accepted_at"])
            target = f"/v1/writes/{write['id']}?{query_of({'bucket': FOREIGN, 'key': write['key']})}"
            status, _ = await self._admin("DELETE", target)
            if status == 200:
                given_up.ended = min(given_up.ended, time.monotonic())
            self._history.done[f"given up in conflict: {status}"] += 1

    async def end(self) -> None:
        """Takes back what was done."""
        for prefix in PREFIXES:
            await self._ask("unpinned", "DELETE", f"/v1/pins?bucket={DATA}&prefix={prefix}")
        await self._gates.wait_idle()

    async def _open_later(self, gate: Gate) -> None:
        await asyncio.sleep(self._rng.random() * 2)
        gate.open()

    def _change_rules(self) -> None:
        """Writes of two prefixes go through from now on, or are acknowledged from the journal; others stay fresh for
        another time, and so on."""
        lines = self._configuration.read_text().splitlines()
        for number, line in enumerate(lines):
            if line.endswith("# changes"):
                name = line.partition(" = ")[0]
                lines[number] = f'{name} = "{self._rng.choice(CHANGES[name])}" # changes'
        self._configuration.write_text("\n".join(lines))

    async def _ask(self, what: str, method: str, path: str, body: object = None) -> None:
        status, _ = await self._admin(method, path, body)
        self._history.done[f"{what}: {status}"] += 1
