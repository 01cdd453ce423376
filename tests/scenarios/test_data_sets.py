"""Data sets as the admin port shows them, after real reads."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from harness.clients import path_of
from harness.fake_origin import FakeOrigin
from harness.rig import Rig
from harness.worker_node import Node, request_admin

PATIENCE = 60.0
OBJECTS = 60
SIZE = 20_000
RULES = """\
[[rules]]
path = "data/train/**"
name = "train"
freshness = "immutable"

[[rules]]
path = "data/**"
name = "rest"
freshness = "immutable"
"""


def fill(origin: FakeOrigin) -> None:
    for number in range(OBJECTS):
        origin.store.put("data", f"train/{number}", bytes([number]) * SIZE)


async def data_sets(admin: str, is_there: Callable[[list[Any]], bool]) -> list[Any]:
    """What GET /v1/datasets shows, when the reads have been reported."""
    async with asyncio.timeout(PATIENCE):
        while True:
            status, answer = await request_admin(admin, "GET", "/v1/datasets")
            assert status == 200
            if is_there(answer["data_sets"]):
                found: list[Any] = answer["data_sets"]
                return found


async def read_epochs(epochs: int, get: Callable[[str], Awaitable[Any]]) -> None:
    order = random.Random(1)
    for _ in range(epochs):
        for number in order.sample(range(OBJECTS), OBJECTS):
            assert len((await get(path_of("data", f"train/{number}"))).body) == SIZE


async def test_epochs_and_their_hits(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, rest=RULES) as rig:
        fill(origin)
        origin.store.put("data", "other", b"x")
        origin.store.put("else", "other", b"x")
        client = rig.client()
        await read_epochs(3, lambda path: client.request("GET", path))
        for bucket in ("data", "else"):
            await client.request("GET", path_of(bucket, "other"))
        other, train = await data_sets(rig.admin, lambda sets: sum(each["reads"] for each in sets) == 3 * OBJECTS + 1)
    assert (other["name"], other["reads"], other["epoch"]["number"]) == ("rest", 1, 1)
    assert (train["name"], train["objects"], train["size"]) == ("train", OBJECTS, OBJECTS * SIZE)
    assert (train["epoch"]["number"], train["epoch"]["hit_share"], train["hit_share"]) == (3, 1.0, pytest.approx(2 / 3))
    assert train["last_epoch"]["number"] == 2
    assert train["last_epoch"]["reads"] == pytest.approx(OBJECTS, abs=5)
    assert train["last_epoch"]["hit_share"] > 0.9


async def test_a_reload_names_the_data_sets_anew(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, rest=RULES) as rig:
        fill(origin)
        client = rig.client()
        await read_epochs(1, lambda path: client.request("GET", path))
        await data_sets(rig.admin, lambda sets: [each["name"] for each in sets] == ["train"])
        await rig.worker.control.replace_config(rig.configuration.replace('name = "train"', 'name = "new"'))
        await data_sets(rig.admin, lambda sets: not sets)
        await read_epochs(2, lambda path: client.request("GET", path))
        [new] = await data_sets(rig.admin, lambda sets: [each["reads"] for each in sets] == [2 * OBJECTS])
        assert (new["name"], new["epoch"]["number"], new["hit_share"]) == ("new", 2, 1.0)
        await rig.worker.control.replace_config(rig.configuration.replace(RULES, ""))
        await read_epochs(1, lambda path: client.request("GET", path))
        assert await data_sets(rig.admin, lambda sets: True) == []


async def test_a_node_shows_the_reads_of_all_workers(tmp_path: Path) -> None:
    """A pass begins when the one before has been reported: workers report in batches of their own, and those of two
    passes come in any order. So all reads of the second pass are hits, and its border is off by a window at most."""
    async with FakeOrigin() as origin, Node(origin, tmp_path, rest=RULES) as node:
        fill(origin)
        clients, choice = [node.client(0), node.client(1)], random.Random(2)
        for epoch in range(1, 4):
            await read_epochs(1, lambda path: choice.choice(clients).request("GET", path))
            [train] = await data_sets(node.admin, lambda sets: [each["reads"] for each in sets] == [epoch * OBJECTS])  # noqa: B023 # called within the turn
    assert (train["name"], train["objects"], train["epoch"]["number"]) == ("train", OBJECTS, 3)
    assert train["hit_share"] == pytest.approx(2 / 3)
    assert train["last_epoch"]["hit_share"] == 1.0
    assert train["last_epoch"]["reads"] == pytest.approx(OBJECTS, abs=OBJECTS // 8)


async def test_what_the_tiers_keep_of_a_data_set(tmp_path: Path) -> None:
    """A set of 1.2 MB, of which 1 MB of memory keeps a share; and after a restart, before anybody has read."""
    rules = RULES.replace('name = "train"', 'name = "train"\neviction = "epoch"\nquota = "4MiB"')
    settings = {"memory": "1000000", "ssd": "8MiB", "rest": rules}
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, **settings) as rig:
        fill(origin)
        client = rig.client()
        await read_epochs(2, lambda path: client.request("GET", path))
        await rig.parts.storage.tiers.flush()
        [train] = await data_sets(
            rig.admin,
            lambda sets: [(each["reads"], each["ssd"] >= OBJECTS * SIZE) for each in sets] == [(2 * OBJECTS, True)],
        )
        assert (train["eviction"], train["quota"]) == ("epoch", 4 << 20)
        assert train["ssd"] < 1.1 * OBJECTS * SIZE
        assert train["memory"] == 0  # what the SSD has, memory needs not keep
        await rig.restart()
        # The writer of the SSD tier counts its segments when it has started.
        [kept] = await data_sets(rig.admin, lambda sets: [each["ssd"] for each in sets] == [train["ssd"]])
        assert (kept["name"], kept["reads"]) == ("train", 0)
