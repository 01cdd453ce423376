"""A listing through Forebay is the origin's, page by page, also after writes: random queries, every kind of origin."""

import base64
import hashlib
import os
from pathlib import Path
from random import Random
from xml.sax.saxutils import escape

import pytest

from harness.clients import RawClient, path_of
from harness.fake_origin import FakeOrigin
from harness.listing_pages import compare_pages, random_key, random_query
from harness.oss_client import OssClient
from harness.oss_origin import OssOrigin
from harness.raw_connection import RawAnswer
from harness.rig import TRAINER, Rig
from harness.swift import SwiftOrigin

QUERIES = int(os.environ.get("FOREBAY_LISTING_QUERIES", "150"))
"""Of each test; `make listings` has 2,000."""
LISTED = '[[rules]]\npath = "**"\nlisting = "immutable"\n'
WRITES_BETWEEN = 10


async def write_somewhere(client: RawClient, bucket: str, random: Random, keys: list[str]) -> None:
    """A write through Forebay, of whatever kind."""
    existing = random.choice(keys) if keys else "a"
    kind = random.choice(("put", "put", "overwrite", "delete", "delete many", "copy"))
    if kind in {"put", "overwrite"}:
        key = existing if kind == "overwrite" else random_key(random)
        answer = await client.request("PUT", path_of(bucket, key), (), random.randbytes(random.randrange(9)))
        keys.append(key)
    elif kind == "delete":
        answer = await client.request("DELETE", path_of(bucket, existing))
    elif kind == "copy":
        key = random_key(random)
        await client.request("PUT", path_of(bucket, existing), (), b"source")
        source = path_of(bucket, existing)
        answer = await client.request("PUT", path_of(bucket, key), [("x-amz-copy-source", source)])
        keys += [key, existing]
    else:
        listed = "".join(f"<Object><Key>{escape(each)}</Key></Object>" for each in {existing, random_key(random)})
        body = f"<Delete>{listed}</Delete>".encode()
        digest = base64.b64encode(hashlib.md5(body, usedforsecurity=False).digest()).decode()
        answer = await client.request("POST", f"/{bucket}?delete", [("Content-MD5", digest)], body)
    assert answer.status in {200, 204}, (kind, answer.body)


async def compare(rig: Rig, direct: RawClient | OssClient, bucket: str, seed: int, *, oss: bool = False) -> None:
    random, writer = Random(seed), rig.client()
    keys: list[str] = []
    for _ in range(60):
        key = random_key(random)
        keys.append(key)
        answer = await writer.request("PUT", path_of(bucket, key), (), b"x" * random.randrange(9))
        assert answer.status == 200, answer.body
    here = OssClient(rig.endpoint, TRAINER) if oss else writer

    async def ours(target: str) -> RawAnswer:
        return await here.request("GET", target)

    async def origins(target: str) -> RawAnswer:
        return await direct.request("GET", target)

    sources: list[str] = []
    for number in range(QUERIES):
        if number % WRITES_BETWEEN == WRITES_BETWEEN - 1:
            await write_somewhere(writer, bucket, random, keys)
        sources += await compare_pages(bucket, random_query(random, keys, oss=oss), ours, origins)
    passed_on = sources.count("bypass") / len(sources)
    assert passed_on < 0.2, f"{passed_on:.0%} were passed on"
    assert {"hit-ssd", "partial"} <= set(sources)


@pytest.mark.parametrize("seed", [1, 2])
async def test_listings_of_the_fake_are_its_own(tmp_path: Path, seed: int) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, rest=LISTED) as rig:
        origin.store.create_bucket("bucket")
        await compare(rig, RawClient(origin.endpoint, origin.secret), "bucket", seed)


async def test_listings_of_swift_are_its_own(tmp_path: Path, swift: SwiftOrigin) -> None:
    async with Rig(swift.endpoint, swift.secret, tmp_path, rest=LISTED) as rig:
        await compare(rig, RawClient(swift.endpoint, swift.secret), swift.fresh_bucket(), 3)


async def test_listings_for_oss_clients_are_the_forwarded_ones(tmp_path: Path) -> None:
    """The origin's answers, as a second Forebay translates them that answers no listing itself."""
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path / "a", rest=LISTED) as rig:
        origin.store.create_bucket("bucket")
        async with Rig(origin.endpoint, origin.secret, tmp_path / "b") as forwarding:
            await compare(rig, OssClient(forwarding.endpoint, TRAINER), "bucket", 4, oss=True)


async def test_listings_of_an_oss_origin_are_its_own(tmp_path: Path) -> None:
    async with OssOrigin() as origin:
        origin.store.create_bucket("bucket")
        async with (
            Rig(origin.endpoint, origin.secret, tmp_path / "a", dialect="oss", rest=LISTED) as rig,
            Rig(origin.endpoint, origin.secret, tmp_path / "b", dialect="oss") as forwarding,
        ):
            await compare(rig, OssClient(forwarding.endpoint, TRAINER), "bucket", 5, oss=True)
