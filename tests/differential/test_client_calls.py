"""Each call of the client library on several ways: its outcome is the same with a Forebay and without one.

    direct      plain S3
    http        a Forebay, over HTTP
    socket      a Forebay beside it, for a key that may read everything: descriptors of memory files and SSD segments
    ring        likewise, for a key of a few buckets: copies
    async       AsyncClient, likewise

A failure is printed with the steps that it needs.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from differential.client_arguments import LOOSE_RULE, contents
from differential.client_call_generator import CallGenerator
from differential.client_calls import Step, Way
from harness.fake_origin import FakeOrigin
from harness.reference_sigv4 import Secret
from harness.rig import TRAINER
from harness.socket_rig import SocketRig

SEEDS: Final = int(os.environ.get("FOREBAY_DIFFERENTIAL_SEEDS", "6")) // 6
"""Programs."""
FIRST: Final = int(os.environ.get("FOREBAY_DIFFERENTIAL_FIRST", "1"))
"""The first of the seeds."""
STEPS: Final = 40 if "FOREBAY_DIFFERENTIAL_SEEDS" in os.environ else 8
"""Of a program."""
FEW: Final = Secret("few", "few-secret")
RULES: Final = f"""\
[[auth.keys]]
id = "few"
secret = "few-secret"
grants = [{{ path = "ring*/**", allow = ["read", "write", "list", "delete"] }}]

{LOOSE_RULE}
[[rules]]
path = "**"
freshness = "immutable"
block = "64KiB"
"""
SETTINGS: Final[dict[str, dict[str, Any]]] = {
    "memory": {},
    "ssd": {"ssd": "64MiB", "memory": "1MiB"},
}


class Ways:
    """Ways to equal objects, anew for each program."""

    def __init__(self, origin: FakeOrigin, rig: SocketRig) -> None:
        self._origin, self._rig, self._made = origin, rig, 0

    def new(self) -> list[Way]:
        self._made += 1
        kinds: list[tuple[str, Secret, str, str, bool]] = [
            ("direct", self._origin.secret, self._origin.endpoint, "", False),
            ("http", TRAINER, self._rig.endpoint, "", False),
            ("socket", TRAINER, self._rig.endpoint, self._rig.socket, False),
            ("ring", FEW, self._rig.endpoint, self._rig.socket, False),
            ("async", TRAINER, self._rig.endpoint, self._rig.socket, True),
        ]
        ways = []
        for name, secret, endpoint, socket, is_async in kinds:
            bucket = f"{name}-{self._made}"
            for key, content in contents(direct=name == "direct").items():
                self._origin.store.put(bucket, key, content)
            arguments = {
                "endpoint": endpoint,
                "socket": socket,
                "access_key": secret.access,
                "secret_key": secret.secret,
                "region": secret.region,
                "retries": 0,
                "timeout": 30.0,
            }
            ways.append(Way(name, arguments, bucket, self._rig.directory / bucket, is_async))
        return ways


@asynccontextmanager
async def running(directory: Path, setting: str) -> AsyncIterator[Ways]:
    async with (
        FakeOrigin(keep_log=False) as origin,
        SocketRig(origin, directory, rest=RULES, **SETTINGS[setting]) as rig,
    ):
        yield Ways(origin, rig)


def first_difference(ways: Ways, steps: Sequence[Step]) -> tuple[int, str] | None:
    """The number of the first step with several outcomes, and what they are."""
    made = ways.new()
    try:
        for number, step in enumerate(steps):
            outcomes = {way.name: step.outcome(way) for way in made}
            expected = outcomes["direct"]
            if any(outcome != expected for outcome in outcomes.values()):
                lines = "\n".join(f"  {name}: {_short(outcome)}" for name, outcome in outcomes.items())
                return number, f"{step.text}\n{lines}"
    finally:
        for way in made:
            way.close()
    return None


def check(ways: Ways, seed: int) -> None:
    steps = CallGenerator(seed).steps(STEPS)
    found = first_difference(ways, steps)
    if found is None:
        return
    steps, text = list(steps[: found[0] + 1]), found[1]
    at = len(steps) - 2
    while at >= 0:
        shorter = [*steps[:at], *steps[at + 1 :]]
        again = first_difference(ways, shorter)
        if again is not None and again[0] == len(shorter) - 1:
            steps, text = shorter, again[1]
        at -= 1
    before = "\n".join(step.text for step in steps[:-1])
    pytest.fail(f"seed {seed}: after\n{before}\n{text}", pytrace=False)


def _short(outcome: object) -> str:
    text = repr(outcome)
    return text if len(text) < 1500 else f"{text[:1400]}... ({len(text)})"


@pytest.mark.parametrize("setting", SETTINGS)
async def test_calls_have_one_outcome_on_all_ways(tmp_path: Path, setting: str) -> None:
    async with running(tmp_path, setting) as ways:
        for seed in range(FIRST, FIRST + SEEDS):
            await asyncio.to_thread(check, ways, seed)
