"""Listings show what is pending at once, page by page as S3 would, whether a snapshot answers them or the origin."""

import asyncio
from pathlib import Path
from random import Random
from urllib.parse import quote
from xml.etree import ElementTree

import pytest

from harness.clients import path_of
from harness.fake.actions import Respond
from harness.fake_origin import FakeOrigin
from harness.oss_client import OssClient
from harness.rig import TRAINER
from harness.write_back_rig import WriteBackRig, at_origin

_XML = "{http://s3.amazonaws.com/doc/2006-03-01/}"
SEGMENTS = ("a", "b", "b&c", "d e", "é", "z")


def _names(keys: list[str], prefix: str, delimiter: str) -> list[str]:
    """What a listing of all these keys shows: keys, and common prefixes with a star."""
    shown = []
    for key in sorted(key for key in keys if key.startswith(prefix)):
        found = key.find(delimiter, len(prefix)) if delimiter else -1
        shown.append(key[: found + 1] + "*" if found >= 0 else key)
    return sorted(set(shown), key=lambda name: name.removesuffix("*"))


async def _pages(rig: WriteBackRig, version: int, prefix: str, delimiter: str, most: int) -> list[list[str]]:
    pages: list[list[str]] = []
    go_on: dict[str, str] = {}
    while True:
        query = {"prefix": prefix, "delimiter": delimiter, "max-keys": str(most), **go_on}
        query |= {"list-type": "2"} if version == 2 else {}
        if not delimiter:
            del query["delimiter"]
        text = "&".join(f"{name}={quote(value, safe='')}" for name, value in query.items())
        answer = await rig.client().request("GET", f"/ckpt?{text}")
        assert answer.status == 200, answer.body
        tree = ElementTree.fromstring(answer.body)
        keys = [each.findtext(f"{_XML}Key") or "" for each in tree.iter(f"{_XML}Contents")]
        prefixes = [each.findtext(f"{_XML}Prefix") or "" for each in tree.iter(f"{_XML}CommonPrefixes")]
        pages.append(sorted([*keys, *(f"{each}*" for each in prefixes)], key=lambda name: name.removesuffix("*")))
        if tree.findtext(f"{_XML}IsTruncated") != "true":
            return pages
        last = max(pages[-1], key=lambda name: name.removesuffix("*")).removesuffix("*")
        token = tree.findtext(f"{_XML}NextContinuationToken") or ""
        go_on = {"continuation-token": token} if version == 2 else {"marker": last}


@pytest.mark.parametrize("snapshots", [False, True], ids=["merged", "snapshots"])
@pytest.mark.parametrize("seed", range(3))
async def test_every_page_is_that_of_a_bucket_with_all_writes(tmp_path: Path, seed: int, snapshots: bool) -> None:
    random = Random(seed)
    rule = 'listing = "10m"\n' if snapshots else ""
    async with FakeOrigin() as origin, WriteBackRig(origin, tmp_path, rule=rule) as rig:
        await rig.prove()

        def key() -> str:
            return "/".join(["a", *(random.choice(SEGMENTS) for _ in range(random.randrange(1, 4)))])

        keys = {key() for _ in range(20)}
        for each in keys:
            origin.store.put("ckpt", each, b"old")
        if snapshots and seed:
            await _pages(rig, 2, "", "", 1000)  # one that has begun before the writes
        refusal = origin.faults.add(Respond(503, "SlowDown"), where=lambda request: request.method in {"PUT", "DELETE"})
        for _ in range(15):
            if random.random() < 0.4:
                keys.discard(name := random.choice(sorted(keys)))
                assert (await rig.client().request("DELETE", path_of("ckpt", name))).status == 204
            else:
                keys.add(name := key())
                await rig.put(name, b"new")
        for prefix, delimiter in (("", "/"), ("a/", "/"), ("a/", ""), ("a/b", "/"), ("a/b/", ""), ("q", "")):
            expected = _names(sorted(keys), prefix, delimiter)
            for version, most in ((1, 3), (2, 4), (2, 1000)):
                cut = [expected[start : start + most] for start in range(0, len(expected), most)] or [[]]
                assert await _pages(rig, version, prefix, delimiter, most) == cut, (prefix, delimiter, version)
        origin.faults.remove(refusal)
        await rig.settled()
        assert (await _pages(rig, 2, "", "", 1000)) == [sorted(keys)]
        assert sorted(origin.store.bucket("ckpt").versions) == sorted(keys)


async def test_an_entry_is_that_of_the_acknowledged_object(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, WriteBackRig(origin, tmp_path) as rig:
        await rig.prove()
        refusal = origin.faults.add(Respond(503, "SlowDown"), method="PUT")
        etag = await rig.put("a/object", b"content")
        client = rig.boto3()

        def entries() -> list[tuple[str, str, int]]:
            found = client.list_objects_v2(Bucket="ckpt", Prefix="a/", FetchOwner=True)["Contents"]
            head = client.head_object(Bucket="ckpt", Key="a/object")
            assert [each["LastModified"] for each in found] == [head["LastModified"]]
            return [(each["Key"], each["ETag"], each["Size"]) for each in found]

        before = await asyncio.to_thread(entries)
        assert before == [("a/object", etag, 7)]
        origin.faults.remove(refusal)
        await rig.settled()
        assert await asyncio.to_thread(entries) == before
        client.close()


async def test_a_client_of_oss_lists_what_is_pending(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, WriteBackRig(origin, tmp_path) as rig:
        await rig.prove()
        origin.faults.add(Respond(503, "SlowDown"), method="PUT")
        await rig.put("a/one", b"1")
        await rig.put("a/b/two", b"22")
        client = OssClient(rig.endpoint, TRAINER)
        for query in ("list-type=2&prefix=a%2F&delimiter=%2F", "prefix=a%2F&delimiter=%2F"):
            listed = await client.request("GET", f"/ckpt/?{query}")
            assert listed.status == 200, listed.body
            assert b"<Key>a/one</Key>" in listed.body
            assert b"<Prefix>a/b/</Prefix>" in listed.body


async def test_a_large_delete_is_seen_in_one_listing(tmp_path: Path) -> None:
    """The folder of an old checkpoint is gone at once, though the origin has all of its objects."""
    async with FakeOrigin() as origin, WriteBackRig(origin, tmp_path) as rig:
        await rig.prove()
        for nth in range(1500):
            origin.store.put("ckpt", f"a/old/{nth:04}", b"")
        origin.store.put("ckpt", "a/new/0", b"")
        client = rig.boto3()
        origin.faults.add(Respond(503, "SlowDown"), method="DELETE")

        def delete(first: int, stop: int) -> None:
            listed = [{"Key": f"a/old/{nth:04}"} for nth in range(first, stop)]
            assert "Errors" not in client.delete_objects(Bucket="ckpt", Delete={"Objects": listed})

        await asyncio.to_thread(delete, 0, 1000)
        await asyncio.to_thread(delete, 1000, 1499)
        assert await _pages(rig, 2, "a/", "/", 1000) == [["a/new/*", "a/old/*"]]
        await asyncio.to_thread(delete, 1499, 1500)
        client.close()
        assert await _pages(rig, 2, "a/", "/", 1000) == [["a/new/*"]]
        assert await _pages(rig, 1, "a/", "", 1000) == [["a/new/0"]]
        assert at_origin(origin, "a/old/0000") == b""
