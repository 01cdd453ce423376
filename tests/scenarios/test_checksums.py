"""x-amz-checksum-*: given with whole objects, to those who ask, if the origin has them; never with anything else."""

import asyncio
from pathlib import Path

import pytest

from harness.fake import actions
from harness.fake.checksums import digest_of
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
async def test_whole_objects_have_them_for_those_who_ask(tmp_path: Path, ssd: str | None) -> None:
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


async def test_a_head_asks_for_what_an_answer_to_a_range_did_not_tell_once(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, rest=RULES) as rig:
        body = b"x" * (9 * MIB)
        origin.store.put("bucket", "key", body)
        client = rig.client()
        await client.request("GET", TARGET, (("Range", "bytes=0-9"),))
        assert origin.log.count(operation="HeadObject") == 0
        for _ in range(3):
            answer = await client.request("HEAD", TARGET, ASKING)
            assert checksums(answer)["x-amz-checksum-crc64nvme"] == digest_of("crc64nvme", body)
        assert origin.log.count(operation="HeadObject") == 1
        answer = await client.request("GET", TARGET, ASKING)
        assert checksums(answer)["x-amz-checksum-crc64nvme"] == digest_of("crc64nvme", body)
        assert answer.body == body


async def test_a_head_is_answered_also_when_the_checksums_can_not_be_asked_for(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, rest=RULES) as rig:
        origin.store.put("bucket", "key", b"x" * (9 * MIB))
        client = rig.client()
        await client.request("GET", TARGET, (("Range", "bytes=0-9"),))
        origin.faults.add(actions.FORBIDDEN, method="HEAD", times=1)
        answer = await client.request("HEAD", TARGET, ASKING)
        assert (answer.status, answer.headers["Content-Length"], checksums(answer)) == (200, str(9 * MIB), {})


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
