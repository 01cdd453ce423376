"""Deletions of a member of a pack: tombstones at the origin, and each way by which a reader may find the member."""

from typing import Any

from harness.clients import path_of
from harness.conformance import texts
from harness.fake.s3_request import S3Request
from harness.fake_origin import FakeOrigin
from harness.packed_rig import read

KEY, OTHER = "train/007.jpg", "train/008.jpg"
TOMBSTONES = "packed/train.deleted/"
LISTINGS = {
    "v1": "/bucket?prefix=train%2F00",
    "v2": "/bucket?list-type=2&prefix=train%2F00",
    "rolled": "/bucket?list-type=2&prefix=train%2F00&delimiter=%2F",
    "behind": "/bucket?list-type=2&prefix=train%2F00&start-after=train%2F006.jpg",
}


def tombstones(origin: FakeOrigin) -> list[str]:
    keys = origin.store.bucket("bucket").keys_from(TOMBSTONES)
    return [key for key in keys if key.startswith(TOMBSTONES) and origin.store.current("bucket", key)]


def is_tombstone(asked: S3Request) -> bool:
    return asked.method == "PUT" and (asked.key or "").startswith(TOMBSTONES)


async def delete(client: Any, *keys: str) -> int:
    answers = [await client.request("DELETE", path_of("bucket", key)) for key in keys]
    assert len({answer.status for answer in answers}) == 1
    return int(answers[0].status)


async def is_gone(client: Any, key: str = KEY) -> bool:
    """By GET, HEAD and all listings, which must agree."""
    shown = {(await read(client, key, method=method)).status for method in ("GET", "HEAD")}
    listed = {key in texts(await client.request("GET", path), "Contents/Key") for path in LISTINGS.values()}
    assert (shown, listed) in (({404}, {False}), ({200}, {True}))
    return shown == {404}
