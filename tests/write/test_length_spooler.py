"""A body of unknown length is spooled, and sent with a length."""

from pathlib import Path

import pytest

from forebay.core.errors import S3Error, SpoolFull
from forebay.core.fair_semaphore import FairSemaphore
from forebay.storage.spool import Spool
from forebay.write.length_spooler import LengthSpooler
from harness.forward_requests import make_forward_request


def a_spool(directory: Path, limit: int = 1000) -> Spool:
    return Spool(limit, FairSemaphore(1000), share=1000, wait=0.01, parent=directory)


async def test_a_spooled_body_has_a_length(tmp_path: Path) -> None:
    spool = a_spool(tmp_path)
    forward = await LengthSpooler(spool, 100, 10).spool(make_forward_request("PUT", "/b/k", b"abc", length=False))
    assert (forward.length, "Transfer-Encoding" in forward.request.headers) == (3, False)
    assert b"".join([bytes(piece) async for piece in forward.request.body.pieces()]) == b"abc"
    assert forward.spooled is not None
    forward.spooled.release()
    assert (len(spool), spool.in_use) == (0, 0)


async def test_a_body_of_known_length_is_not_spooled(tmp_path: Path) -> None:
    spool = a_spool(tmp_path)
    chunks = {"x-amz-content-sha256": "STREAMING-UNSIGNED-PAYLOAD-TRAILER", "x-amz-decoded-content-length": "3"}
    for forward in (
        make_forward_request("PUT", "/b/k", b"abc"),
        make_forward_request("PUT", "/b/k", length=False),
        make_forward_request("PUT", "/b/k", b"abc", headers=chunks, length=False),
    ):
        assert await LengthSpooler(spool, 100, 10).spool(forward) is forward
    assert len(spool) == 0


@pytest.mark.parametrize(
    ("target", "limit", "code"),
    [("/b/k", 1000, "EntityTooLarge"), ("/b/k?tagging", 1000, "EntityTooLarge"), ("/b/k", 2, "No room")],
)
async def test_a_refused_body_leaves_nothing(tmp_path: Path, target: str, limit: int, code: str) -> None:
    spool = a_spool(tmp_path, limit)
    with pytest.raises((S3Error, SpoolFull), match=code):
        await LengthSpooler(spool, 10, 5).spool(make_forward_request("PUT", target, b"x" * 11, length=False))
    assert (len(spool), spool.in_use) == (0, 0)
