"""x-amz-checksum-*: sent with whole objects, on request, if the origin has them; never with anything else."""

import asyncio
from pathlib import Path

import pytest

from forebay.metadata.object_checksums import CHECKSUM_PAUSE as CHECKSUMS_PAUSE
from forebay.metadata.object_checksums import CHECKSUM_TIMEOUT as CHECKSUMS_PATIENCE
from harness.fake import actions
from harness.fake.actions import Action
from harness.fake.checksums import digest_of
from harness.fake.gate import Gate
from harness.fake_origin import FakeOrigin
from harness.raw_connection import RawAnswer
from harness.rig import Rig

RULES = '[[rules]]\npath = "**"\nfreshness = "immutable"\n'
TARGET = "/bucket/key"
# A connection that ends with its answer is not for the fast lane.
ASKING = (("x-amz-checksum-mode", "ENABLED"), ("Connection", "close"))
MIB = 1 << 20


def checksums(answer: RawAnswer) -> dict[str, str]:
    return {name.lower(): value for name, value in answer.pairs if name.lower().startswith("x-amz-checksum-")}


@pytest.mark.parametrize("ssd", [None, "256MiB"])
async def test_whole_object_has_its_checksum_if_requested(tmp_path: Path, ssd: str | None) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, rest=RULES, ssd=ssd) as rig:
        origin.store.put("bucket", "key", b"content")
        expected = {
            "x-amz-checksum-crc64nvme": digest_of("crc64nvme", b"content"),
            "x-amz-checksum-type": "FULL_OBJECT",
        }
        for restarted in (False, True):
            if restarted and ssd is not None:
                await rig.restart()
            client = rig.client()
            for _ in range(2):
                for method in ("GET", "HEAD"):
                    assert checksums(await client.request(method, TARGET, ASKING)) == expected
                    assert checksums(await client.request(method, TARGET)) == {}
                    ranged = await client.request(method, TARGET, (*ASKING, ("Range", "bytes=0-6")))
                    assert (ranged.status, checksums(ranged)) == (206, {})
        assert origin.log.count("GET") == 1


@pytest.mark.parametrize("method", ["HEAD", "GET"])
async def test_checksum_missing_from_a_range_is_fetched_once(tmp_path: Path, method: str) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, rest=RULES) as rig:
        body = b"x" * (9 * MIB)
        origin.store.put("bucket", "key", body)
        client = rig.client()
        await client.request("GET", TARGET, (("Range", "bytes=0-9"),))
        assert origin.log.count(operation="HeadObject") == 0
        for _ in range(3):
            answer = await client.request(method, TARGET, ASKING)
            assert checksums(answer)["x-amz-checksum-crc64nvme"] == digest_of("crc64nvme", body)
        answer = await client.request("GET", TARGET, ASKING)
        assert origin.log.count(operation="HeadObject") == 1
        assert checksums(answer)["x-amz-checksum-crc64nvme"] == digest_of("crc64nvme", body)
        assert answer.body == body


async def test_body_and_checksum_are_fetched_concurrently(tmp_path: Path) -> None:
    """From the second object on: its bytes and its facts are under way at the same time."""
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, rest=RULES) as rig:
        for number in range(4):
            origin.store.put("bucket", f"key{number}", b"x" * (9 * MIB))
        client = rig.client()
        assert checksums(await client.request("GET", "/bucket/key0", ASKING))
        for first, second in (("GET", "HEAD"), ("HEAD", "GET")):
            gate = Gate()
            key = f"key{1 + (first == 'HEAD')}"
            origin.faults.add(actions.HoldHead(gate), method=first, key=key)
            other = Gate()
            origin.faults.add(actions.HoldHead(other), method=second, key=key)
            async with asyncio.TaskGroup() as group:
                reading = group.create_task(client.request("GET", f"/bucket/{key}", ASKING))
                await gate.reached()
                await other.reached()  # both are under way
                other.open()
                gate.open()
            assert checksums(reading.result())["x-amz-checksum-crc64nvme"] == digest_of("crc64nvme", b"x" * (9 * MIB))
            assert origin.log.count("HEAD", key=key) == 1
        # A refusal of the one spoils nothing, and nobody asks where nothing is wanted.
        assert (await client.request("GET", "/bucket/none", ASKING)).status == 404
        before = origin.log.count("HEAD")
        assert not checksums(await client.request("GET", "/bucket/key3"))
        assert origin.log.count("HEAD") == before


async def test_object_without_a_checksum_is_looked_up_once(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, rest=RULES) as rig:
        origin.store.put_synthetic("bucket", "key", 9 * MIB)  # which has none
        for _ in range(3):
            answer = await rig.client().request("GET", TARGET, ASKING)
            assert len(answer.body) == 9 * MIB
            assert not checksums(answer).keys() - {"x-amz-checksum-type"}
        assert origin.log.count(operation="HeadObject") == 1


async def test_replaced_version_is_looked_up_again(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, rest=RULES) as rig:
        origin.store.create_bucket("bucket")
        for byte in (b"x", b"y"):
            body = byte * (9 * MIB)
            await rig.client().request("PUT", TARGET, (), body)
            await rig.client().request("GET", TARGET, (("Range", "bytes=0-9"),))
            answer = await rig.client().request("GET", TARGET, ASKING)
            assert answer.body == body
            assert checksums(answer)["x-amz-checksum-crc64nvme"] == digest_of("crc64nvme", body)


@pytest.mark.parametrize("fault", [actions.FORBIDDEN, actions.Drop()], ids=["refused", "dropped"])
@pytest.mark.parametrize("method", ["HEAD", "GET"])
async def test_nobody_waits_for_checksums_that_can_not_be_had(tmp_path: Path, method: str, fault: Action) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, rest=RULES) as rig:
        origin.store.put("bucket", "key", b"x" * (9 * MIB))
        client = rig.client()
        await client.request("GET", TARGET)
        origin.store.put("bucket", "other", b"y" * (9 * MIB))
        await client.request("GET", "/bucket/other")
        broken = origin.faults.add(fault, method="HEAD", key="key")
        asked = []
        for _ in range(3):
            answer = await client.request(method, TARGET, ASKING)
            assert (answer.status, answer.headers["Content-Length"], checksums(answer)) == (200, str(9 * MIB), {})
            asked.append(origin.log.count(operation="HeadObject"))
        assert asked[0] == asked[-1] > 0
        # It is nobody else's fault.
        assert checksums(await client.request(method, "/bucket/other", ASKING))
        origin.faults.remove(broken)
        rig.advance_clock(CHECKSUMS_PAUSE + 1)
        assert checksums(await client.request(method, TARGET, ASKING))


async def test_slow_checksum_lookup_does_not_block_other_objects(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, rest=RULES) as rig:
        client, asking, gate = rig.client(), rig.parts.metadata.resolver.checksums, Gate()
        keys = ["slow", "fine", "slower", "slowest", "nobody"]
        for key in keys:
            origin.store.put("bucket", key, b"x" * (9 * MIB))
            await client.request("GET", f"/bucket/{key}")
            if key.startswith("slow"):
                origin.faults.add(actions.HoldRequest(gate), method="HEAD", key=key)

        async def told(key: str, *, patience: float = CHECKSUMS_PATIENCE) -> int:
            """Read; how often the origin has been asked for checksums by then."""
            asking.timeout = patience
            answer = await client.request("GET", f"/bucket/{key}", ASKING)
            assert (answer.status, bool(checksums(answer))) == (200, key == "fine")
            return origin.log.count(operation="HeadObject")

        for _ in range(3):
            assert await told("slow", patience=0.01) <= 1
        assert await told("fine") <= 2
        await told("slower", patience=0.01)
        await told("slowest", patience=0.01)
        before = origin.log.count(operation="HeadObject")
        assert await told("nobody") == before
        gate.open()


async def test_the_checks_of_boto3_pass_on_hits(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, rest=RULES) as rig:
        boto = rig.boto3()

        def work() -> None:
            boto.create_bucket(Bucket="bucket")
            for algorithm in ("CRC32", "CRC32C", "CRC64NVME", "SHA1", "SHA256"):
                boto.put_object(Bucket="bucket", Key=algorithm, Body=b"content", ChecksumAlgorithm=algorithm)
                for _ in range(3):
                    assert boto.get_object(Bucket="bucket", Key=algorithm)["Body"].read() == b"content"
                    found = boto.head_object(Bucket="bucket", Key=algorithm, ChecksumMode="ENABLED")
                    assert found["ContentLength"] == 7
            boto.close()

        await asyncio.to_thread(work)


async def test_a_presigned_url_may_ask_for_them_in_its_query(tmp_path: Path) -> None:
    """Signers move the header there; both lanes take it for what it is."""
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, rest=RULES) as rig:
        origin.store.put("bucket", "key", b"content")
        client, fast = rig.client(), rig.worker.listener.reads.fast_lane
        for asking in ("?x-amz-checksum-mode=ENABLED", ""):
            target = client.presign("GET", TARGET + asking)
            await client.unsigned("GET", target)
            for lane in (fast, fast, None):
                rig.worker.listener.reads.fast_lane = lane
                answer = await client.unsigned("GET", target)
                assert answer.body == b"content"
                assert bool(checksums(answer)) == bool(asking)
            rig.worker.listener.reads.fast_lane = fast
        assert fast is not None
        assert rig.parts.context.metrics.total("forebay_requests_total", "GetObject", "200", "fast") == 5
