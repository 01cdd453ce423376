"""OSS's small parts in front of a real origin that refuses them: coalesced when the upload is completed, or refused
with the reason; never lost or mixed up."""

import asyncio
import random
from collections.abc import Sequence
from pathlib import Path

import pytest

from forebay.protocol.body.crc64 import crc64
from harness.fake.actions import Respond
from harness.fake_origin import FakeOrigin
from harness.inspection import run_loop_until
from harness.oss_client import OssClient, told
from harness.rig import TRAINER, Rig
from harness.swift import SwiftOrigin

KIB, MIB = 1 << 10, 1 << 20


def rig_of(swift: SwiftOrigin, directory: Path, **more: str) -> Rig:
    return Rig(swift.endpoint, swift.secret, directory, **more)


def entries(directory: Path) -> list[Path]:
    return list(directory.glob("*"))


def bytes_of(size: int, seed: int) -> bytes:
    return random.Random(seed).randbytes(size)  # content, no secret


async def upload(
    client: OssClient, target: str, sizes: Sequence[int], *, order: Sequence[int] | None = None
) -> tuple[str, dict[int, str], bytes]:
    """The upload's id, the ETags by number, and what the object is to be. Parts go up several at a time, in `order`."""
    upload_id = await client.initiate(target)
    bodies = {number: bytes_of(size, number) for number, size in enumerate(sizes, start=1)}
    etags: dict[int, str] = {}
    places = asyncio.Semaphore(4)

    async def put(number: int) -> None:
        async with places:
            answer = await client.part(target, upload_id, number, bodies[number])
        assert answer.headers["x-oss-hash-crc64ecma"] == str(crc64(bodies[number]))
        etags[number] = answer.headers["ETag"]

    async with asyncio.TaskGroup() as group:
        for number in order or bodies:
            group.create_task(put(number))
    return upload_id, etags, b"".join(bodies.values())


SIZES = {
    "many small ones": [300 * KIB] * 40 + [7],
    "one small one": [100 * KIB],
    "small ones, then a large one": [3 * MIB, 3 * MIB, MIB, 6 * MIB, 100 * KIB],
    "large ones": [5 * MIB, 5 * MIB, 3],
}


@pytest.mark.parametrize(
    ("case", "buffers"), [*((case, "64MiB") for case in SIZES), ("many small ones", "8MiB")], ids=str
)
async def test_small_parts_become_an_object(tmp_path: Path, swift: SwiftOrigin, case: str, buffers: str) -> None:
    target = f"/{swift.fresh_bucket()}/key"
    async with rig_of(swift, tmp_path, buffers=buffers, rest=f'[limits]\nheld_path = "{tmp_path}/held"\n') as rig:
        client = OssClient(rig.endpoint, TRAINER)
        order = list(range(1, len(SIZES[case]) + 1))
        random.Random(7).shuffle(order)  # an order, no secret
        upload_id, etags, whole = await upload(client, target, SIZES[case], order=order)
        if buffers == "8MiB" and case == "many small ones":
            assert entries(tmp_path / "held")
        listed = await client.request("GET", f"{target}?uploadId={upload_id}")
        assert listed.body.count(b"<Part>") == len(etags)
        done = await client.complete(target, upload_id, sorted(etags.items()))
        assert done.status == 200, done.body
        assert done.headers["x-oss-hash-crc64ecma"] == str(crc64(whole))
        read = await client.request("GET", target)
        assert read.body == whole
        assert read.headers["x-oss-hash-crc64ecma"] == str(crc64(whole))
        assert done.headers["ETag"] == read.headers["ETag"]
        assert (len(rig.parts.storage.spool), rig.parts.storage.spool.in_use) == (0, 0)
    assert not entries(tmp_path / "held")


async def test_the_last_upload_of_a_part_counts(tmp_path: Path, swift: SwiftOrigin) -> None:
    target = f"/{swift.fresh_bucket()}/key"
    async with rig_of(swift, tmp_path) as rig:
        client = OssClient(rig.endpoint, TRAINER)
        upload_id, etags, _ = await upload(client, target, [200 * KIB] * 3)
        again = await client.part(target, upload_id, 2, b"x" * 150 * KIB)
        stale = await client.complete(target, upload_id, sorted(etags.items()))
        assert (stale.status, told(stale, "Code")) == (400, "InvalidPart")
        etags[2] = again.headers["ETag"].lower()
        done = await client.complete(target, upload_id, sorted(etags.items()))
        assert done.status == 200, done.body
        whole = bytes_of(200 * KIB, 1) + b"x" * 150 * KIB + bytes_of(200 * KIB, 3)
        assert (await client.request("GET", target)).body == whole


async def test_parts_may_be_omitted_and_completion_retried(tmp_path: Path, swift: SwiftOrigin) -> None:
    target = f"/{swift.fresh_bucket()}/key"
    async with rig_of(swift, tmp_path) as rig:
        client = OssClient(rig.endpoint, TRAINER)
        upload_id, etags, _ = await upload(client, target, [200 * KIB] * 4)
        broken = await client.complete(target, upload_id, [(1, etags[1]), (2, etags[2]), (9, etags[2])])
        assert broken.status == 400
        done = await client.complete(target, upload_id, [(1, etags[1]), (3, etags[3])])
        assert done.status == 200, done.body
        assert (await client.request("GET", target)).body == bytes_of(200 * KIB, 1) + bytes_of(200 * KIB, 3)
        again = await client.complete(target, upload_id, [(1, etags[1]), (3, etags[3])])
        assert again.status in {200, 404}, again.body  # some origins answer it again


async def test_all_parts_there_are(tmp_path: Path, swift: SwiftOrigin) -> None:
    target = f"/{swift.fresh_bucket()}/key"
    async with rig_of(swift, tmp_path) as rig:
        client = OssClient(rig.endpoint, TRAINER)
        upload_id, _, whole = await upload(client, target, [200 * KIB] * 4)
        headers = [("x-oss-complete-all", "yes")]
        assert (await client.request("POST", f"{target}?uploadId={upload_id}", headers)).status == 200
        assert (await client.request("GET", target)).body == whole
        gone = await client.request("POST", f"{target}?uploadId={upload_id}x", headers)
        assert (gone.status, told(gone, "Code")) == (404, "NoSuchUpload")


async def test_parts_that_cannot_be_coalesced_are_reported(tmp_path: Path, swift: SwiftOrigin) -> None:
    target = f"/{swift.fresh_bucket()}/key"
    async with rig_of(swift, tmp_path) as rig:
        client = OssClient(rig.endpoint, TRAINER)
        upload_id, etags, _ = await upload(client, target, [5 * MIB, 200 * KIB, 5 * MIB])
        refused = await client.complete(target, upload_id, sorted(etags.items()))
        assert (refused.status, told(refused, "Code"), told(refused, "PartNumber")) == (400, "EntityTooSmall", "2")
        assert (await client.request("GET", target)).status == 404
        assert (await client.request("DELETE", f"{target}?uploadId={upload_id}")).status == 204
        assert len(rig.parts.storage.spool) == 0

        small, etags, whole = await upload(client, target, [200 * KIB] * 3)
        await rig.restart()
        client = OssClient(rig.endpoint, TRAINER)
        refused = await client.complete(target, small, sorted(etags.items()))
        assert (refused.status, told(refused, "Code")) == (400, "EntityTooSmall")
        for number in (1, 2, 3):
            etags[number] = (await client.part(target, small, number, bytes_of(200 * KIB, number))).headers["ETag"]
        assert (await client.complete(target, small, sorted(etags.items()))).status == 200
        assert (await client.request("GET", target)).body == whole


async def test_spool_is_bounded(tmp_path: Path, swift: SwiftOrigin) -> None:
    target = f"/{swift.fresh_bucket()}/key"
    async with rig_of(swift, tmp_path, rest='[limits]\nheld = "1MiB"\n') as rig:
        client = OssClient(rig.endpoint, TRAINER)
        upload_id = await client.initiate(target)
        first = await client.part(target, upload_id, 1, b"1" * 900 * KIB)
        query = f"{target}?partNumber=2&uploadId={upload_id}"
        refused = await client.request("PUT", query, (), b"2" * 200 * KIB)
        assert (refused.status, told(refused, "Code")) == (503, "SlowDown")
        assert "limits.held" in told(refused, "Message")
        second = await client.part(target, upload_id, 2, b"2" * 100 * KIB)
        listed = [(1, first.headers["ETag"]), (2, second.headers["ETag"])]
        assert (await client.complete(target, upload_id, listed)).status == 200
        assert rig.parts.storage.spool.in_use == 0


async def test_an_idle_upload_lets_go_of_its_bytes(tmp_path: Path, swift: SwiftOrigin) -> None:
    target = f"/{swift.fresh_bucket()}/key"
    rig = rig_of(swift, tmp_path, rest='[limits]\nheld_idle = "1s"\n')
    rig.check_interval = 0.05
    async with rig:
        client = OssClient(rig.endpoint, TRAINER)
        upload_id = await client.initiate(target)
        part = await client.part(target, upload_id, 1, b"x" * 100 * KIB)
        assert rig.parts.storage.spool.in_use == 100 * KIB
        await run_loop_until(lambda: rig.parts.storage.spool.in_use == 0)
        # As a last part it need not be gathered, so it is none the worse.
        assert (await client.complete(target, upload_id, [(1, part.headers["ETag"])])).status == 200


async def test_a_part_that_fails_is_not_held(tmp_path: Path, swift: SwiftOrigin) -> None:
    target = f"/{swift.fresh_bucket()}/key"
    async with rig_of(swift, tmp_path) as rig:
        client = OssClient(rig.endpoint, TRAINER)
        upload_id = await client.initiate(target)
        place = f"{target}?partNumber=1&uploadId={upload_id}"
        wrong = await client.request("PUT", place, [("Content-MD5", "1B2M2Y8AsgTpgAmY7PhCfg==")], b"x" * 200 * KIB)
        assert (wrong.status, told(wrong, "Code")) == (400, "InvalidDigest")
        gone = await client.request("PUT", f"{place}x", (), b"x" * 200 * KIB)
        assert gone.status == 404
        assert (len(rig.parts.storage.spool), rig.parts.storage.spool.in_use, rig.parts.storage.budget.in_use) == (
            0,
            0,
            0,
        )


async def test_an_s3_client_s_small_parts_are_not_held(tmp_path: Path, swift: SwiftOrigin) -> None:
    target = f"/{swift.fresh_bucket()}/key"
    async with rig_of(swift, tmp_path) as rig:
        upload_id = told(await rig.client().request("POST", f"{target}?uploads"), "UploadId")
        part = await rig.client().request("PUT", f"{target}?partNumber=1&uploadId={upload_id}", (), b"x" * 1000)
        assert part.status == 200
        assert len(rig.parts.storage.spool) == 0


async def test_a_copied_part_is_left_as_it_is(tmp_path: Path, swift: SwiftOrigin) -> None:
    bucket = swift.fresh_bucket()
    target = f"/{bucket}/key"
    async with rig_of(swift, tmp_path) as rig:
        client = OssClient(rig.endpoint, TRAINER)
        source = bytes_of(6 * MIB, 1)
        assert (await client.request("PUT", f"/{bucket}/source", (), source)).status == 200
        upload_id = await client.initiate(target)
        replaced = await client.part(target, upload_id, 1, b"x" * 100 * KIB)
        place = f"{target}?partNumber=1&uploadId={upload_id}"
        copied = await client.request("PUT", place, [("x-oss-copy-source", f"/{bucket}/source")])
        assert (copied.status, len(rig.parts.storage.spool)) == (200, 0)
        assert copied.headers["ETag"] != replaced.headers["ETag"]
        last = await client.part(target, upload_id, 2, b"end")
        parts = [(1, copied.headers["ETag"]), (2, last.headers["ETag"])]
        done = await client.complete(target, upload_id, parts)
        assert done.status == 200, done.body
        assert "x-oss-hash-crc64ecma" not in done.headers  # one part is not known
        read = await client.request("GET", target)
        assert (read.body == source + b"end", "x-oss-hash-crc64ecma" in read.headers) == (True, False)


@pytest.mark.parametrize("lists", ["ETags of both dialects", "ETags in lower case"])
async def test_a_client_of_s3_completes_what_one_of_oss_began(tmp_path: Path, lists: str) -> None:
    """An OSS client was answered ETags in upper case, and the origin compares them as they are."""
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path) as rig:
        origin.store.create_bucket("bucket")
        target, bodies = "/bucket/key", [bytes_of(5 * MIB, 1), b"end"]
        oss, s3 = OssClient(rig.endpoint, TRAINER), rig.client()
        upload_id = await oss.initiate(target)
        etags = [(await oss.part(target, upload_id, 1, bodies[0])).headers["ETag"]]
        part = await s3.request("PUT", f"{target}?partNumber=2&uploadId={upload_id}", (), bodies[1])
        etags.append(part.headers["ETag"])
        assert (etags[0].isupper(), etags[1].islower()) == (True, True)
        if lists == "ETags in lower case":
            etags = [each.lower() for each in etags]
        listed = "".join(
            f"<Part><PartNumber>{number}</PartNumber><ETag>{each}</ETag></Part>" for number, each in enumerate(etags, 1)
        )
        document = f"<CompleteMultipartUpload>{listed}</CompleteMultipartUpload>".encode()
        done = await s3.request("POST", f"{target}?uploadId={upload_id}", (), document)
        assert done.status == 200, done.body
        assert (await s3.request("GET", target)).body == b"".join(bodies)


async def test_a_client_of_s3_completes_no_joined_parts(tmp_path: Path) -> None:
    """After a completion that failed behind the joining, a listing shows the joined bytes under the number of the first
    part, and beside them the other parts: completed as listed, these bytes would be in the object twice."""
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path) as rig:
        origin.store.create_bucket("bucket")
        target, s3, oss = "/bucket/key", rig.client(), OssClient(rig.endpoint, TRAINER)
        upload_id, etags, whole = await upload(oss, target, [9 * MIB // 2, MIB])
        origin.faults.add(Respond(403, "AccessDenied"), operation="CompleteMultipartUpload", times=1)
        assert (await oss.complete(target, upload_id, sorted(etags.items()))).status == 403
        listing = (await s3.request("GET", f"{target}?uploadId={upload_id}")).body.decode()
        listed = [part.partition("</Part>")[0] for part in listing.split("<Part>")[1:]]
        sizes = [int(part.split("<Size>")[1].split("</Size>")[0]) for part in listed]
        assert sizes == [11 * MIB // 2, MIB]
        document = "".join(f"<Part>{part}</Part>" for part in listed)
        document = f"<CompleteMultipartUpload>{document}</CompleteMultipartUpload>"
        refused = await s3.request("POST", f"{target}?uploadId={upload_id}", (), document.encode())
        assert (refused.status, told(refused, "Code")) == (400, "InvalidPart")
        assert (await oss.complete(target, upload_id, sorted(etags.items()))).status == 200
        assert (await s3.request("GET", target)).body == whole
