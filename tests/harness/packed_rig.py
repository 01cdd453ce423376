"""A rig whose rule names packs, a pack of 300 objects, and a principal with a credential of its own at the origin."""

from pathlib import Path
from typing import Any

from harness.clients import RawClient, path_of
from harness.fake_origin import FakeOrigin
from harness.packed_objects import shard_and_index
from harness.raw_connection import RawAnswer
from harness.reference_sigv4 import Secret
from harness.rig import Rig

RULE = '[[rules]]\npath = "bucket/train/**"\npacked = "packed/**"\nfreshness = "60s"\n'
IMMUTABLE = RULE.replace("60s", "immutable")
"""Nobody looks for tombstones but in doubt."""
OBJECTS = {f"train/{number:03}.jpg": bytes([number % 251]) * (1000 + number) for number in range(300)}
PARTNER, PARTNER_THERE = Secret("partner", "partner-secret"), Secret("partner-there", "partner-own")
IDENTITY = """
[[auth.keys]]
id = "partner"
secret = "partner-secret"
origin_access_key = "partner-there"
origin_secret_key = "partner-own"
grants = [{ path = "**", allow = ["read", "list"] }]
"""
"""The key of PARTNER, whose requests to the origin PARTNER_THERE signs."""


def rig_of(origin: FakeOrigin, directory: Path, rest: str = RULE, **settings: Any) -> Rig:
    return Rig(origin.endpoint, origin.secret, directory, rest=rest, **settings)


def pack(origin: FakeOrigin, objects: dict[str, bytes] = OBJECTS, name: str = "train", **described: Any) -> bytes:
    """Puts a pack of these objects, and nothing else, into the origin. Returns its index."""
    shard, index = shard_and_index(objects, shard_key=f"packed/{name}-0.tar", prefix="train/", **described)
    origin.store.put("bucket", f"packed/{name}-0.tar", shard)
    origin.store.put("bucket", f"packed/{name}.fbpack", index)
    return index


async def read(client: RawClient, key: str, *headers: tuple[str, str], method: str = "GET") -> RawAnswer:
    return await client.request(method, path_of("bucket", key), headers)
