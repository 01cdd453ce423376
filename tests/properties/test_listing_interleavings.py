"""Listings from snapshots while all else goes on: programs by their seeds, see harness.listing_world."""

import asyncio
from collections import Counter
from pathlib import Path
from random import Random

from harness.clients import RawClient, path_of, query_of
from harness.conformance import parsed
from harness.fake.store import md5_etag
from harness.listing_history import History, PagedOrigin
from harness.listing_world import BUCKET, KEYS, ListingWorld
from harness.model_listings import page_of
from harness.reference_model import Query
from harness.worker_node import Node
from security.scale import SCALE

PROGRAMS = 12
STEPS = 60
ROUNDS = 30


async def test_interleaved_listings_are_neither_stale_nor_torn(tmp_path: Path) -> None:
    sources = Counter[str]()
    for seed in range(PROGRAMS * SCALE):
        world = ListingWorld(seed, tmp_path / str(seed))
        try:
            await world.run(STEPS)
        except AssertionError as error:
            error.add_note(f"the program with seed {seed}")
            raise
        sources.update(world.sources)
    assert {"hit-ssd", "partial", "miss", "bypass"} <= set(sources), sources


async def test_workers_list_each_others_writes_while_these_go_on(tmp_path: Path) -> None:
    """Writes and listings of three workers at once; one of them is killed in the middle."""
    random, history = Random(1), History(KEYS)
    rest = '[[rules]]\npath = "**"\nlisting = "immutable"\n'
    async with PagedOrigin(history, BUCKET, 3) as origin, Node(origin, tmp_path, 3, rest=rest, ssd="64MiB") as node:

        async def write(client: RawClient, key: str, body: bytes) -> None:
            began, etag = (
                history.moment(0.0),
                md5_etag(body) if body else None,
            )
            answer = await client.request("PUT" if body else "DELETE", path_of(BUCKET, key), (), body)
            assert answer.status in {200, 204}, answer
            history.acknowledge(key, etag, began)

        async def list_all(client: RawClient) -> None:
            query = Query(random.choice(("", "a/", "b/")), random.choice(("", "/")), random.choice((2, 5, 1000)))
            parameters = {"prefix": query.prefix, "delimiter": query.delimiter, "max-keys": str(query.max_keys)}
            began = history.moment(0.0)
            target = query_of({name: value for name, value in parameters.items() if value})
            answer = await client.request("GET", f"/{BUCKET}?{target}")
            assert answer.status == 200, answer
            history.check_page(query, page_of(parsed(answer)), began, float("inf"))

        for number in range(ROUNDS * SCALE):
            clients = [node.client(worker) for worker in range(3)]
            keys = random.sample(KEYS, 3)
            bodies = [f"{number} {key}".encode() if random.random() < 0.7 else b"" for key in keys]
            await asyncio.gather(
                *(write(random.choice(clients), key, body) for key, body in zip(keys, bodies, strict=True)),
                *(list_all(client) for client in clients),
            )
            await asyncio.gather(*(list_all(client) for client in clients))
            if number % ROUNDS == ROUNDS // 2:
                worker = random.randrange(3)
                await node.wait_restarted(worker, await node.kill_worker(worker))
