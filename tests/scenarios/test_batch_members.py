"""Members of archives in batches: the server reads them out of the TAR, as AIStore's GetBatch does."""

import asyncio
import io
import tarfile
from pathlib import Path
from typing import Any

import pytest

from forebay_client import BatchKey, Client
from harness.batches import ReadEntry, read_batch, send_batch
from harness.fake.actions import FORBIDDEN
from harness.fake_origin import FakeOrigin
from harness.packed_objects import shard_and_index
from harness.packed_rig import IDENTITY, PARTNER, PARTNER_THERE
from harness.rig import READER, TRAINER, Rig

RULES = '[[rules]]\npath = "**"\nfreshness = "60s"\nblock = "64KiB"\n'
FILES = {f"{number:04}.jpg": bytes([number % 251]) * (number * 37) for number in range(300)}


def archive(files: dict[str, bytes], kind: int = tarfile.PAX_FORMAT) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w", format=kind) as tar:
        for name, content in files.items():
            information = tarfile.TarInfo(name)
            information.size = len(content)
            tar.addfile(information, io.BytesIO(content))
    return file.getvalue()


def of(member: str, key: str = "shards/0.tar", **more: int) -> dict[str, Any]:
    return {"key": key, "member": member, **more}


def entry(member: str, body: bytes, key: str = "shards/0.tar") -> ReadEntry:
    return ReadEntry(f"{key}/{member}", body)


def rig_of(origin: FakeOrigin, directory: Path, rest: str = RULES) -> Rig:
    return Rig(origin.endpoint, origin.secret, directory, rest=rest)


@pytest.mark.parametrize("kind", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
async def test_members_come_in_the_order_listed(tmp_path: Path, kind: int) -> None:
    async with FakeOrigin() as origin, rig_of(origin, tmp_path) as rig:
        content = archive(FILES, kind)
        origin.store.put("bucket", "shards/0.tar", content)
        names = [*list(FILES)[200:230], *list(FILES)[:30], "0007.jpg"]
        for _ in range(2):
            found = await read_batch(rig.client(), "bucket", [of(name) for name in names])
            assert found == [entry(name, FILES[name]) for name in names]
        fetched = sum(each.bytes_sent for each in origin.log.matching("GET", key="shards/0.tar"))
        assert fetched <= len(content), "no block was fetched twice"


async def test_ranges_and_what_is_not_there(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, rig_of(origin, tmp_path) as rig:
        origin.store.put("bucket", "shards/0.tar", archive(FILES))
        origin.store.put("bucket", "shards/0.jpg", b"no TAR" * 1000)
        origin.store.put("bucket", "shards/empty", b"")
        origin.store.put("bucket", "loose", b"loose")
        listed = [
            of("0100.jpg", start=5, end=9),
            of("0000.jpg"),
            of("0100.jpg", start=3700),
            of("none"),
            of("0001.jpg", "shards/none.tar"),
            of("a", "shards/0.jpg"),
            of("a", "shards/empty"),
            "loose",
        ]
        for order in ("listed", "arrival"):
            found = sorted(
                await read_batch(rig.client(), "bucket", listed, order=order),
                key=lambda each: each.position or 0,
            )
            assert [(each.status, each.code) for each in found] == [
                (200, ""),
                (200, ""),
                (416, "InvalidRange"),
                (404, "NoSuchKey"),
                (404, "NoSuchKey"),
                (400, "InvalidRequest"),
                (400, "InvalidRequest"),
                (200, ""),
            ]
            assert [each.body for each in found[:2]] == [FILES["0100.jpg"][5:9], b""]
        answer = await send_batch(rig.client(), "bucket", [of("none")], continue_on_error=False)
        assert (answer.status, b"keys[0]" in answer.body) == (404, True)


async def test_a_replaced_archive_is_searched_anew(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, rig_of(origin, tmp_path) as rig:
        origin.store.put("bucket", "shards/0.tar", archive({"a": b"1" * 700, "b": b"first"}))
        assert await read_batch(rig.client(), "bucket", [of("b")]) == [entry("b", b"first")]
        origin.store.put("bucket", "shards/0.tar", archive({"c": b"1", "b": b"second"}))
        rig.advance_clock(61)
        assert await read_batch(rig.client(), "bucket", [of("b"), of("c")]) == [entry("b", b"second"), entry("c", b"1")]
        (gone,) = await read_batch(rig.client(), "bucket", [of("a")])
        assert gone.status == 404


async def test_a_member_is_not_read_where_it_was_in_another_version(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, rig_of(origin, tmp_path) as rig:
        origin.store.put("bucket", "shards/0.tar", archive({"a": b"1" * 700, "b": b"first"}))
        assert await read_batch(rig.client(), "bucket", [of("b")]) == [entry("b", b"first")]
        replaced = archive({"b": b"second", "c": b"2" * 5000})
        origin.store.put("bucket", "shards/0.tar", replaced)
        rig.advance_clock(61)
        assert await read_batch(rig.client(), "bucket", ["shards/0.tar"]) == [ReadEntry("shards/0.tar", replaced)]
        assert await read_batch(rig.client(), "bucket", [of("b")]) == [entry("b", b"second")]


async def test_who_may_not_read_the_archive_reads_no_member(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, rig_of(origin, tmp_path, IDENTITY + RULES) as rig:
        origin.allow(PARTNER_THERE)
        for folder in ("open", "closed"):
            origin.store.put("bucket", f"{folder}/0.tar", archive({"a": b"content", "empty": b""}))
        listed = [of(name, f"{folder}/0.tar") for folder in ("open", "closed") for name in ("a", "empty", "none")]
        statuses = [each.status for each in await read_batch(rig.client(TRAINER), "bucket", listed)]
        assert statuses == [200, 200, 404] * 2
        statuses = [each.status for each in await read_batch(rig.client(READER), "bucket", listed)]
        assert statuses == [200, 200, 404, 403, 403, 403]
        origin.faults.add(FORBIDDEN, where=lambda asked: PARTNER_THERE.access in asked.headers.get("Authorization", ""))
        statuses = [each.status for each in await read_batch(rig.client(PARTNER), "bucket", listed)]
        assert statuses == [403] * 6, "nor is it told which members there are"


async def test_a_shard_of_a_pack_is_read_by_its_index(tmp_path: Path) -> None:
    rules = '[[rules]]\npath = "bucket/train/**"\npacked = "packed/**"\n' + RULES
    objects = {f"train/{number:03}": bytes([number]) * 9000 for number in range(100)}
    async with FakeOrigin() as origin, rig_of(origin, tmp_path, rules) as rig:
        shard, index = shard_and_index(objects, shard_key="packed/0.tar", prefix="train/")
        origin.store.put("bucket", "packed/0.tar", shard)
        origin.store.put("bucket", "packed/train.fbpack", index)
        (found,) = await read_batch(rig.client(), "bucket", [of("train/099", "packed/0.tar")])
        assert found.body == objects["train/099"]
        fetched = sum(each.bytes_sent for each in origin.log.matching("GET", key="packed/0.tar"))
        assert fetched <= 4 * (64 << 10), "its headers were not searched"


async def test_the_client_asks_the_server(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, rig_of(origin, tmp_path) as rig:
        origin.store.put("bucket", "shards/0.tar", archive(FILES))

        def dialogue() -> None:
            with Client(
                rig.endpoint, access_key=TRAINER.access, secret_key=TRAINER.secret, region=TRAINER.region
            ) as client:
                keys = [BatchKey("shards/0.tar", member=name) for name in ("0200.jpg", "0010.jpg")]
                found = [bytes(item.content()) for item in client.get_many("bucket", keys)]
                assert found == [FILES["0200.jpg"], FILES["0010.jpg"]]
                assert not client.stats.fallbacks

        await asyncio.to_thread(dialogue)
