"""Advice against runs: the hit shares that it predicts for other tiers are those that such tiers have.

A data set is read four times, each time in a new order, with memory of one size. What `GET /v1/advice` then says of
other sizes is compared with Forebays of these sizes, by the bytes that the origin has sent.
"""

import asyncio
import random
from pathlib import Path
from typing import Any

import pytest

from harness.clients import path_of
from harness.fake_origin import FakeOrigin
from harness.rig import Rig
from harness.worker_node import request_admin

PATIENCE = 30.0
OBJECTS = 250
SIZE = 60_000
EPOCHS = 4
MEMORY = 6_000_000
"""Two fifths of the set: less than that of its bytes, as blocks and heads have overhead."""
WITHIN = 0.03
SOURCES = ("reads", "recordings")
RULE = """\
[[rules]]
path = "data/**"
name = "data"
freshness = "immutable"
eviction = "{}"
record = true
"""


async def hit_shares(origin: FakeOrigin, directory: Path, memory: int, rule: str) -> tuple[list[float], list[Any]]:
    """The share of each epoch's bytes that the origin did not send; and the advice, by the reads and by what was
    recorded of them: all epochs but the last, which has not ended."""
    order = random.Random(1)
    async with Rig(origin.endpoint, origin.secret, directory, memory=f"{memory}", rest=rule) as rig:
        client, shares = rig.client(), []
        async with await client.open() as connection:
            for _ in range(EPOCHS):
                sent = origin.log.bytes_sent
                for number in order.sample(range(OBJECTS), OBJECTS):
                    answer = await client.request("GET", path_of("data", f"{number}"), connection=connection)
                    assert len(answer.body) == SIZE
                shares.append(1 - (origin.log.bytes_sent - sent) / (OBJECTS * SIZE))
        async with asyncio.timeout(PATIENCE):
            while True:  # until the last reads were reported
                [data_set] = (await request_admin(rig.admin, "GET", "/v1/datasets"))[1]["data_sets"]
                if data_set["reads"] == EPOCHS * OBJECTS:
                    break
        return shares, [
            (await request_admin(rig.admin, "GET", f"/v1/advice?source={source}"))[1]["data_sets"][0]
            for source in SOURCES
        ]


@pytest.mark.parametrize("eviction", ["lru", "epoch"])
async def test_predicted_hit_shares_are_those_of_runs(tmp_path: Path, eviction: str) -> None:
    async with FakeOrigin() as origin:
        for number in range(OBJECTS):
            origin.store.put("data", f"{number}", bytes([number]) * SIZE)
        present, advices = await hit_shares(origin, tmp_path / "1", MEMORY, RULE.format(eviction))
        measured = {1.0: present}
        for factor in (0.5, 2.0):
            measured[factor], _ = await hit_shares(
                origin, tmp_path / f"{factor}", int(factor * MEMORY), RULE.format(eviction)
            )
    for source, advice in zip(SOURCES, advices, strict=True):
        # Under lru a recorded epoch has the hits that its own order gives; a stable share needs two epochs to settle.
        epochs = slice(1, 3) if (source, eviction) == ("recordings", "lru") else slice(2, 4)
        means = {factor: sum(shares[epochs]) / 2 for factor, shares in measured.items()}
        predicted = {each["factor"]: each[eviction] for each in advice["outlooks"]}
        assert predicted.pop(4.0) == 1.0
        assert predicted == pytest.approx(means, abs=WITHIN), source
        assert advice["size"] == OBJECTS * SIZE
        assert (advice["current"], advice["eviction"]) == (eviction, "epoch")
