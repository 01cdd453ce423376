"""OSS clients in front of an S3 origin that fails late or loses responses, and spooled bytes that are damaged: no
failure is mistaken for success."""

from pathlib import Path

from forebay.protocol.body.crc64 import crc64
from harness.fake.actions import LateError, LoseAnswer
from harness.fake_origin import FakeOrigin
from harness.oss_client import OssClient, told
from harness.rig import TRAINER, Rig

KIB, MIB = 1 << 10, 1 << 20
TARGET = "/bucket/key"


def origin_of_s3() -> FakeOrigin:
    """It takes no small parts."""
    return FakeOrigin(smallest_part=5 * MIB)


async def test_an_error_inside_a_success_is_an_error(tmp_path: Path) -> None:
    async with origin_of_s3() as origin, Rig(origin.endpoint, origin.secret, tmp_path) as rig:
        origin.store.put("bucket", "source", b"copied")
        client = OssClient(rig.endpoint, TRAINER)
        upload = await client.initiate(TARGET)
        parts = [(number, (await client.part(TARGET, upload, number, b"x")).headers["ETag"]) for number in (1, 2)]
        late = origin.faults.add(LateError())
        failed = await client.request("PUT", TARGET, [("x-oss-copy-source", "/bucket/source")])
        assert (failed.status, told(failed, "Code")) == (500, "InternalError")
        origin.faults.remove(late)
        late = origin.faults.add(LateError(), method="POST")
        failed = await client.complete(TARGET, upload, parts)
        assert (failed.status, told(failed, "Code")) == (500, "InternalError")
        assert "x-oss-hash-crc64ecma" not in failed.headers
        origin.faults.remove(late)
        assert (await client.request("GET", TARGET)).status == 404
        # Nothing was let go of, so it may be asked again.
        assert (await client.complete(TARGET, upload, parts)).status == 200
        assert (await client.request("GET", TARGET)).body == b"xx"


async def test_a_part_whose_answer_was_lost_is_not_the_one_before(tmp_path: Path) -> None:
    async with origin_of_s3() as origin, Rig(origin.endpoint, origin.secret, tmp_path) as rig:
        origin.store.create_bucket("bucket")
        client = OssClient(rig.endpoint, TRAINER)
        upload = await client.initiate(TARGET)
        parts = [(number, (await client.part(TARGET, upload, number, b"old")).headers["ETag"]) for number in (1, 2)]
        origin.faults.add(LoseAnswer(), method="PUT", times=1)
        place = f"{TARGET}?partNumber=1&uploadId={upload}"
        assert (await client.request("PUT", place, (), b"new")).status == 503
        assert len(rig.parts.storage.spool) == 1
        failed = await client.complete(TARGET, upload, parts)
        assert (failed.status, told(failed, "Code")) in {(400, "InvalidPart"), (400, "EntityTooSmall")}
        assert (await client.request("GET", TARGET)).status == 404


async def test_a_write_whose_answer_was_lost_leaves_no_crc(tmp_path: Path) -> None:
    async with origin_of_s3() as origin, Rig(origin.endpoint, origin.secret, tmp_path) as rig:
        origin.store.create_bucket("bucket")
        client = OssClient(rig.endpoint, TRAINER)
        origin.faults.add(LoseAnswer(), method="PUT", times=1)
        assert (await client.request("PUT", TARGET, (), b"new")).status == 503
        read = await client.request("GET", TARGET)
        assert (read.body, "x-oss-hash-crc64ecma" in read.headers) == (b"new", False)


async def test_damaged_spooled_bytes_create_no_object(tmp_path: Path) -> None:
    settings = f'[limits]\nheld_path = "{tmp_path}/held"\n'
    async with (
        origin_of_s3() as origin,
        Rig(origin.endpoint, origin.secret, tmp_path, buffers="8MiB", rest=settings) as rig,
    ):
        origin.store.create_bucket("bucket")
        client = OssClient(rig.endpoint, TRAINER)
        upload = await client.initiate(TARGET)
        body = b"x" * 900 * KIB
        parts = [(number, (await client.part(TARGET, upload, number, body)).headers["ETag"]) for number in (1, 2, 3, 4)]
        damage(tmp_path / "held")
        failed = await client.complete(TARGET, upload, parts)
        assert (failed.status, told(failed, "Code")) == (500, "InternalError")
        assert (await client.request("GET", TARGET)).status == 404
        again = await client.part(TARGET, upload, 1, body)
        assert again.headers["x-oss-hash-crc64ecma"] == str(crc64(body))


def damage(directory: Path) -> None:
    """The first byte of every file."""
    for file in directory.glob("*/[0-9]*"):
        with file.open("r+b") as open_file:
            open_file.write(b"y")


async def test_crc_is_not_copied_to_another_version(tmp_path: Path) -> None:
    async with origin_of_s3() as origin, Rig(origin.endpoint, origin.secret, tmp_path, ssd="64MiB") as rig:
        origin.store.create_bucket("bucket")
        client = OssClient(rig.endpoint, TRAINER)
        await client.request("PUT", TARGET, (), b"one")
        assert "x-oss-hash-crc64ecma" in (await client.request("GET", TARGET)).headers
        await rig.parts.storage.tiers.flush()
        await rig.restart()  # what is known besides the head is gone
        client = OssClient(rig.endpoint, TRAINER)
        assert "x-oss-hash-crc64ecma" in (await client.request("HEAD", TARGET)).headers
        origin.store.put("bucket", "key", b"two")  # as large, and behind its back
        rig.advance_clock(61)
        assert "x-oss-hash-crc64ecma" not in (await client.request("HEAD", TARGET)).headers
        assert (await client.request("GET", TARGET)).body == b"two"
