"""What is recorded of a write, and when nothing is."""

import time
from pathlib import Path
from typing import Any

import pytest

from forebay.core.fair_semaphore import FairSemaphore
from forebay.core.heads import HeaderPairs
from forebay.core.names import ObjectName
from forebay.core.task_registry import TaskRegistry
from forebay.peers.owners import Peers
from forebay.policy.part_coalescing import MIN_PART_SIZE
from forebay.policy.rules import Decision
from forebay.protocol.body.crc64 import crc64
from forebay.protocol.xml.s3_documents import UploadedPart
from forebay.storage.memory.memory_tier import MemoryTier
from forebay.storage.spool import Spool
from forebay.storage.tiers import Tiers
from forebay.write.body_digest import WrittenDigests
from forebay.write.forward_request import ForwardRequest
from forebay.write.multipart.multipart_registry import MultipartRegistry
from forebay.write.multipart.part_coalescer import PartCoalescer
from forebay.write.tracked_write import TrackedWrite, WriteTracker
from forebay.write.warm_on_write import WarmOnWrite
from harness.forward_requests import CannedOrigin, CannedResponse, make_forward_request

NAME = ObjectName("b", "k")
WARM: Any = type("Warm", (), {"accelerate": True, "warm_on_write": True, "block": 4, "write": "through"})
RESULT = b'<CompleteMultipartUploadResult><ETag>"whole"</ETag></CompleteMultipartUploadResult>'


class Installs:
    """In place of the staged objects: records what is installed."""

    def __init__(self) -> None:
        self.installed: list[tuple[ObjectName, int, str]] = []

    def install(self, name: ObjectName, staged: Any, _identity: object) -> None:
        self.installed.append((name, staged.size, staged.etag))


class Fixture:
    def __init__(self, directory: Path, least: int = MIN_PART_SIZE) -> None:
        self.tasks, self.installs = TaskRegistry(), Installs()
        self.budget = FairSemaphore(100)
        self.spool = Spool(100, self.budget, share=100, wait=0.01, parent=directory)
        self.registry = MultipartRegistry(Peers(), time.monotonic, 3600)
        doubles: Any = (CannedOrigin(), self.installs)
        tiers = Tiers(MemoryTier(1 << 20), None)
        coalescer = PartCoalescer(doubles[0], self.spool, self.registry, least)
        warm = WarmOnWrite(tiers, self.budget, doubles[1], self.registry, self.tasks)
        self.tracker = WriteTracker(WrittenDigests(Peers()), self.registry, coalescer, warm)

    async def begin(self, forward: ForwardRequest, body: bytes = b"", decision: Decision | None = None) -> TrackedWrite:
        write = await self.tracker.track(forward, decision)
        if body:
            await write.update(body)
        return write

    async def carry_out(self, forward: ForwardRequest, body: bytes = b"", *, etag: str = '"e"') -> HeaderPairs:
        write = await self.begin(forward, body, WARM)
        answer: Any = CannedResponse(200, ETag=etag)
        headers = await write.confirm(answer, b"")
        await write.close()
        return headers


def part(number: int, body: bytes, *, oss: bool = False, method: str = "PUT") -> ForwardRequest:
    return make_forward_request(method, f"/b/k?partNumber={number}&uploadId=u", body, oss=oss)


async def test_a_confirmed_put_is_digested_and_installed(tmp_path: Path) -> None:
    subject = Fixture(tmp_path)
    headers = await subject.carry_out(make_forward_request("PUT", "/b/k", b"abcde", oss=True), b"abcde")
    assert headers == (("x-oss-hash-crc64ecma", str(crc64(b"abcde"))),)
    assert (subject.installs.installed, len(subject.tracker.digests)) == ([(NAME, 5, '"e"')], 1)
    assert await subject.carry_out(make_forward_request("PUT", "/b/k", b"abcde"), b"abcde") == ()
    assert subject.budget.in_use == 0


async def test_an_append_is_neither_digested_nor_staged(tmp_path: Path) -> None:
    subject = Fixture(tmp_path)
    forward = make_forward_request("PUT", "/b/k", b"abc", headers={"x-amz-write-offset-bytes": "3"}, oss=True)
    assert await subject.carry_out(forward, b"abc") == ()
    assert (subject.installs.installed, len(subject.tracker.digests)) == ([], 0)


async def test_a_completion_installs_its_staged_parts(tmp_path: Path) -> None:
    subject = Fixture(tmp_path, least=0)
    for number, body in ((1, b"abcdef"), (2, b"gh")):
        await subject.carry_out(part(number, body), body, etag=f'"{number}"')
    assert subject.installs.installed == []
    completion = make_forward_request("POST", "/b/k?uploadId=u", b"x", oss=True)
    listed = [UploadedPart(1, "1"), UploadedPart(2, "2")]
    write = await subject.tracker.track(completion, WARM, b"x", listed)
    answer: Any = CannedResponse()
    assert await write.confirm(answer, RESULT) == (("x-oss-hash-crc64ecma", str(crc64(b"abcdefgh"))),)
    await write.close()
    await subject.tasks.wait_idle()
    assert subject.installs.installed == [(NAME, 8, '"whole"')]
    assert (len(subject.registry), len(subject.tracker.digests)) == (0, 1)


async def test_an_aborted_upload_is_forgotten(tmp_path: Path) -> None:
    subject = Fixture(tmp_path)
    await subject.carry_out(part(1, b"ab", oss=True), b"ab")
    assert (len(subject.registry), len(subject.spool)) == (1, 1)
    await subject.carry_out(make_forward_request("DELETE", "/b/k?uploadId=u"))
    assert (len(subject.registry), len(subject.spool), subject.spool.in_use) == (0, 0, 0)


@pytest.mark.parametrize("method", ["DELETE", "POST"])
async def test_an_upload_that_the_origin_lacks_is_forgotten(tmp_path: Path, method: str) -> None:
    """Its completion was carried out, and the answer lost: no part is spooled for it any longer."""
    subject = Fixture(tmp_path)
    await subject.carry_out(part(1, b"ab", oss=True), b"ab")
    write = await subject.begin(make_forward_request(method, "/b/k?uploadId=u"))
    write.refuse()
    assert (len(subject.registry), len(subject.spool)) == (1, 1)
    await write.forget_missing_upload()
    await write.close()
    assert (len(subject.registry), len(subject.spool), subject.spool.in_use) == (0, 0, 0)


@pytest.mark.parametrize("copied", [False, True])
async def test_a_part_of_unknown_outcome_is_removed(tmp_path: Path, copied: bool) -> None:
    subject, listed = Fixture(tmp_path), [UploadedPart(1, "e")]
    await subject.carry_out(part(1, b"ab", oss=True), b"ab")
    again = part(1, b"cd", oss=True)
    if copied:
        source = {"x-amz-copy-source": "/b/other"}
        again = make_forward_request("PUT", "/b/k?partNumber=1&uploadId=u", headers=source)
    write = await subject.begin(again, b"" if copied else b"c")
    await write.close()
    assert subject.registry.lookup(again.upload, listed) == [None]
    assert (len(subject.spool), subject.spool.in_use) == (0, 0)


async def test_a_refused_part_leaves_the_one_before(tmp_path: Path) -> None:
    subject, forward = Fixture(tmp_path), part(1, b"ab", oss=True)
    await subject.carry_out(forward, b"ab")
    write = await subject.begin(forward, b"cd")
    write.refuse()
    await write.close()
    await write.close()
    assert subject.registry.lookup(forward.upload, [UploadedPart(1, "e")]) != [None]
    assert (len(subject.spool), subject.spool.in_use) == (1, 2)
