"""`warm_on_write`: a written object is cached once the origin has confirmed it, and wrong bytes never are."""

import asyncio
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random

import pytest

from harness.aws_chunked import Framing
from harness.clients import UNSIGNED_PAYLOAD, RawClient
from harness.fake import actions
from harness.fake.gate import Gate
from harness.fake_origin import FakeOrigin
from harness.reference_sigv4 import UNSIGNED_CHUNKS_TRAILER
from harness.rig import Rig

TARGET = "/bucket/key"
BLOCK = 64 << 10
WARM = '[[rules]]\npath = "**"\nwarm_on_write = true\nblock = "64KiB"\nfreshness = "immutable"\n'
TIERS = {"memory": {}, "ssd": {"memory": "0", "ssd": "256MiB"}}


def content(size: int, seed: int = 0) -> bytes:
    return Random(seed).randbytes(size)


async def create(client: RawClient) -> str:
    answer = await client.request("POST", f"{TARGET}?uploads")
    found = re.search(rb"<UploadId>(.*)</UploadId>", answer.body)
    assert found is not None
    return found[1].decode()


async def upload(client: RawClient, upload_id: str, number: int, body: bytes) -> str:
    answer = await client.request("PUT", f"{TARGET}?partNumber={number}&uploadId={upload_id}", (), body)
    assert answer.status == 200
    return answer.headers["ETag"]


async def complete(client: RawClient, upload_id: str, parts: Sequence[tuple[int, str]]) -> int:
    listed = "".join(f"<Part><PartNumber>{number}</PartNumber><ETag>{etag}</ETag></Part>" for number, etag in parts)
    body = f"<CompleteMultipartUpload>{listed}</CompleteMultipartUpload>".encode()
    return (await client.request("POST", f"{TARGET}?uploadId={upload_id}", (), body)).status


async def reads_of_bytes(rig: Rig, origin: FakeOrigin, expected: bytes) -> int:
    """Reads the object through Forebay, whole and in a range; how many GETs that took at the origin."""
    await rig.wait_idle()
    await rig.parts.storage.tiers.flush()
    before = origin.log.count("GET")
    whole = await rig.client().request("GET", TARGET)
    assert (whole.status, whole.body) == (200, expected)
    if expected:
        middle = len(expected) // 2
        part = await rig.client().request("GET", TARGET, (("Range", f"bytes={middle}-{middle + 99}"),))
        assert (part.status, part.body) == (206, expected[middle : middle + 100])
    return origin.log.count("GET") - before


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("size", [1, BLOCK - 1, BLOCK, BLOCK + 1, 5 * BLOCK + 17])
async def test_put_object_is_a_hit(tmp_path: Path, size: int, tier: str) -> None:
    async with (
        FakeOrigin() as origin,
        Rig(origin.endpoint, origin.secret, tmp_path, rest=WARM, **TIERS[tier]) as rig,
    ):
        origin.store.put("bucket", "key", b"old")
        await rig.client().request("GET", TARGET)
        headers = (("Content-Type", "text/plain"), ("x-amz-meta-colour", "blue"))
        assert (await rig.client().request("PUT", TARGET, headers, content(size))).status == 200
        if tier == "ssd":  # memory answers at once; the SSD takes a moment to have it
            await rig.wait_idle()
            await rig.parts.storage.tiers.flush()
        answer = await rig.client().request("GET", TARGET)
        assert (answer.status, answer.body) == (200, content(size))
        assert (answer.headers["Content-Type"], answer.headers["x-amz-meta-colour"]) == ("text/plain", "blue")
        assert answer.headers["x-forebay-cache"] == f"hit-{tier}"
        assert await reads_of_bytes(rig, origin, content(size)) == 0


async def test_aws_chunked_put_is_a_hit(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, rest=WARM) as rig:
        origin.store.create_bucket("bucket")
        body = content(3 * BLOCK + 5)
        await rig.client().request("PUT", TARGET, (), body, framing=Framing(UNSIGNED_CHUNKS_TRAILER))
        assert await reads_of_bytes(rig, origin, body) == 0


@asynccontextmanager
async def multipart(tmp_path: Path, tier: str = "memory") -> AsyncIterator[tuple[Rig, FakeOrigin, str]]:
    """A Forebay in front of an origin that takes small parts, and the id of an upload of an object that isn't there."""
    async with (
        FakeOrigin(smallest_part=0) as origin,
        Rig(origin.endpoint, origin.secret, tmp_path, rest=WARM, **TIERS[tier]) as rig,
    ):
        origin.store.create_bucket("bucket")
        yield rig, origin, await create(rig.client())


@pytest.mark.parametrize("tier", TIERS)
async def test_multipart_upload_of_odd_part_sizes_is_a_hit(tmp_path: Path, tier: str) -> None:
    async with multipart(tmp_path, tier) as (rig, origin, upload_id):
        client, sizes = rig.client(), {3: BLOCK - 1, 1: BLOCK + 7, 7: 1, 9: 3 * BLOCK}
        parts = {number: content(size, number) for number, size in sizes.items()}
        etags = {number: await upload(client, upload_id, number, body) for number, body in parts.items()}
        assert await complete(client, upload_id, sorted(etags.items())) == 200
        assert await reads_of_bytes(rig, origin, b"".join(parts[number] for number in sorted(parts))) == 0


async def test_a_part_that_is_uploaded_again_counts_as_it_was_last(tmp_path: Path) -> None:
    async with multipart(tmp_path) as (rig, origin, upload_id):
        client, first, second = rig.client(), content(2 * BLOCK, 2), content(100, 3)
        await upload(client, upload_id, 1, content(BLOCK, 1))
        etags = [(1, await upload(client, upload_id, 1, first)), (2, await upload(client, upload_id, 2, second))]
        assert await complete(client, upload_id, etags) == 200
        assert await reads_of_bytes(rig, origin, first + second) == 0


async def test_an_upload_completed_with_fewer_parts_is_of_these(tmp_path: Path) -> None:
    async with multipart(tmp_path) as (rig, origin, upload_id):
        client, parts = rig.client(), {number: content(BLOCK + number, number) for number in (1, 2, 3)}
        etags = {number: await upload(client, upload_id, number, body) for number, body in parts.items()}
        assert await complete(client, upload_id, [(1, etags[1]), (3, etags[3])]) == 200
        assert await reads_of_bytes(rig, origin, parts[1] + parts[3]) == 0


async def test_upload_with_a_part_not_seen_is_correct_and_not_warm(tmp_path: Path) -> None:
    async with multipart(tmp_path) as (rig, origin, upload_id):
        client, direct = rig.client(), RawClient(origin.endpoint, origin.secret)
        await upload(client, upload_id, 1, content(BLOCK, 9))
        etags = [
            (1, await upload(direct, upload_id, 1, content(BLOCK, 1))),
            (2, await upload(client, upload_id, 2, content(100, 2))),
        ]
        assert await complete(client, upload_id, etags) == 200
        assert await reads_of_bytes(rig, origin, content(BLOCK, 1) + content(100, 2)) > 0


async def test_an_upload_that_is_aborted_leaves_the_object_as_it_was(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, rest=WARM) as rig:
        origin.store.put("bucket", "key", b"old")
        client = rig.client()
        upload_id = await create(client)
        etag = await upload(client, upload_id, 1, content(BLOCK))
        assert (await client.request("DELETE", f"{TARGET}?uploadId={upload_id}")).status == 204
        assert await complete(client, upload_id, [(1, etag)]) == 404
        await reads_of_bytes(rig, origin, b"old")


async def test_a_completion_that_fails_late_installs_nothing(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, rest=WARM) as rig:
        origin.store.put("bucket", "key", b"old")
        client = rig.client()
        upload_id = await create(client)
        etag = await upload(client, upload_id, 1, content(BLOCK))
        origin.faults.add(actions.LateError(), operation="CompleteMultipartUpload")
        assert await complete(client, upload_id, [(1, etag)]) == 200
        await reads_of_bytes(rig, origin, b"old")


async def test_object_replaced_before_installation_is_not_installed(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, rest=WARM) as rig:
        origin.store.create_bucket("bucket")
        gate = Gate()
        origin.faults.add(actions.HoldRequest(gate), method="HEAD", key="key", times=1)
        assert (await rig.client().request("PUT", TARGET, (), content(2 * BLOCK, 1))).status == 200
        await gate.reached()
        origin.store.put("bucket", "key", content(2 * BLOCK, 2))
        gate.open()
        await reads_of_bytes(rig, origin, content(2 * BLOCK, 2))


async def test_rewrite_before_installation_installs_the_later_object(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, rest=WARM) as rig:
        origin.store.create_bucket("bucket")
        gate = Gate()
        origin.faults.add(actions.HoldHead(gate), method="HEAD", key="key", times=1)
        await rig.client().request("PUT", TARGET, (), content(2 * BLOCK, 1))
        await gate.reached()
        await rig.client().request("PUT", TARGET, (), content(2 * BLOCK, 2))
        gate.open()
        assert await reads_of_bytes(rig, origin, content(2 * BLOCK, 2)) == 0


async def test_two_uploads_at_once_end_with_the_one_that_the_origin_has(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, rest=WARM) as rig:
        origin.store.create_bucket("bucket")
        async with asyncio.TaskGroup() as group:
            for seed in range(4):
                group.create_task(rig.client().request("PUT", TARGET, (), content(3 * BLOCK, seed)))
        kept = b"".join(origin.store.get("bucket", "key").content.views(0, 3 * BLOCK))
        await reads_of_bytes(rig, origin, kept)


async def test_write_without_spare_memory_succeeds_and_is_not_warm(tmp_path: Path) -> None:
    async with (
        FakeOrigin() as origin,
        Rig(origin.endpoint, origin.secret, tmp_path, rest=WARM, buffers="8MiB") as rig,
    ):
        origin.store.create_bucket("bucket")
        budget = rig.parts.storage.budget
        assert budget.try_acquire(budget.capacity)
        answer = await rig.client().request("PUT", TARGET, (), content(2 * BLOCK))
        budget.release(budget.capacity)
        assert answer.status == 200
        assert await reads_of_bytes(rig, origin, content(2 * BLOCK)) > 0


async def test_customer_encrypted_object_is_not_cached(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, rest=WARM) as rig:
        origin.store.create_bucket("bucket")
        customers = (
            ("x-amz-server-side-encryption-customer-algorithm", "AES256"),
            ("x-amz-server-side-encryption-customer-key", "a2V5"),
            ("x-amz-server-side-encryption-customer-key-MD5", "bWQ1"),
        )
        await rig.client().request("PUT", TARGET, customers, content(BLOCK))
        await rig.wait_idle()
        assert rig.parts.storage.tiers.memory.occupancy().blocks == 0
        assert await reads_of_bytes(rig, origin, content(BLOCK)) > 0


@pytest.mark.parametrize("rule", ["", "accelerate = false\nwarm_on_write = true"])
async def test_writes_are_cached_by_warm_on_write_only(tmp_path: Path, rule: str) -> None:
    rest = f'[[rules]]\npath = "**"\n{rule}\n'
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, rest=rest) as rig:
        origin.store.create_bucket("bucket")
        await rig.client().request("PUT", TARGET, (), content(BLOCK))
        await rig.wait_idle()
        assert rig.parts.storage.tiers.memory.occupancy().blocks == 0


async def test_upload_with_a_wrong_digest_installs_nothing(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, rest=WARM) as rig:
        origin.store.put("bucket", "key", b"old")
        client, body = rig.client(), content(2 * BLOCK)
        for headers, payload in (
            ((("x-amz-checksum-crc32", "AAAAAA=="),), None),
            ((("Content-MD5", "AAAAAAAAAAAAAAAAAAAAAA=="),), UNSIGNED_PAYLOAD),
            ((), "0" * 64),
        ):
            answer = await client.request("PUT", TARGET, headers, body, payload=payload)
            assert answer.status == 400
            await reads_of_bytes(rig, origin, b"old")
        assert origin.store.get("bucket", "key").size == 3


async def test_an_upload_that_the_origin_refused_installs_nothing(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, rest=WARM) as rig:
        origin.store.put("bucket", "key", b"old")
        answer = await rig.client().request("PUT", TARGET, (("If-None-Match", "*"),), content(2 * BLOCK))
        assert answer.status == 412
        await reads_of_bytes(rig, origin, b"old")


async def test_a_completion_that_only_the_origin_understands_is_a_success(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, rest=WARM) as rig:
        origin.store.create_bucket("bucket")
        client = rig.client()
        upload_id = await create(client)
        etag = await upload(client, upload_id, 1, content(BLOCK))
        part = f"<Part><!-- the first --><PartNumber>1</PartNumber><ETag>{etag}</ETag></Part>"
        body = f"<CompleteMultipartUpload>{part}</CompleteMultipartUpload>".encode()
        answer = await client.request("POST", f"{TARGET}?uploadId={upload_id}", (), body)
        assert (answer.status, b"<CompleteMultipartUploadResult" in answer.body) == (200, True)
        await reads_of_bytes(rig, origin, content(BLOCK))
