"""Real clients, unmodified, through Forebay before a real origin. `make clients` installs them; see clients.toml.

What a client tells of its errand must be what the table says that it does, and Forebay must have seen it.
Where one fails, it is sent to the origin directly, to tell a fault of Forebay from one of the client or the origin.
"""

import json
from pathlib import Path
from typing import Any, Final

import pytest

from compat.clients import Client, load_clients
from compat.reports import PATIENCE, Report, send
from harness.rig import TRAINER, Rig
from harness.swift import SwiftOrigin

WITNESSES: Final = {
    "put": {"PutObject"},
    "get": {"GetObject"},
    "parts up": {"CompleteMultipartUpload"},
    "list": {"ListObjects", "ListObjectsV2"},
    "copy": {"CopyObject"},
    "delete": {"DeleteObject", "DeleteObjects"},
}
"""Which operations a deed is seen by. A range is seen by its status."""
RANGED: Final = {"range", "ranges down", "parquet"}


@pytest.mark.timeout(3 * PATIENCE)
@pytest.mark.parametrize("client", load_clients(), ids=lambda client: client.name)
async def test_a_real_client(client: Client, swift: SwiftOrigin, tmp_path: Path) -> None:
    missing = client.missing()
    if missing is not None:
        pytest.skip(missing)
    errand, retry = tmp_path / "errand", tmp_path / "directly"
    errand.mkdir()
    retry.mkdir()
    bucket = swift.fresh_bucket()
    async with Rig(swift.endpoint, swift.secret, tmp_path / "forebay", ssd="256MiB") as rig:
        report = await send(client, rig.endpoint, bucket, TRAINER, errand)
    lines = [json.loads(line) for line in rig.access_lines()]
    if report.ended != 0:
        directly = await send(client, swift.endpoint, swift.fresh_bucket(), swift.secret, retry)
        pytest.fail(_story(report, directly, lines))
    assert report.version == client.version
    assert sorted(report.did) == sorted(client.does)
    done = [line for line in lines if line["bucket"] == bucket and line["status"] < 300]
    operations = {line["operation"] for line in done}
    assert [deed for deed in client.does if deed in WITNESSES and not WITNESSES[deed] & operations] == []
    assert RANGED.isdisjoint(client.does) or 206 in {line["status"] for line in done}
    assert report.again
    reads = {line["key"]: line["cache"] for line in done if line["operation"] == "GetObject"}  # the last of each
    assert [key for key in report.again if not reads[key].startswith("hit")] == []
    assert [line for line in lines if line["status"] in {500, 503} or line.get("aborted")] == []


def _story(report: Report, directly: Report, lines: list[dict[str, Any]]) -> str:
    """What there is to know of an errand that failed."""
    verdict = "works" if directly.ended == 0 else f"fails, after {directly.did}: {directly.complaint[-1000:]}"
    last = "\n".join(str(line) for line in lines[-8:])
    return f"ended {report.ended} after {report.did}:\n{report.complaint}\n{last}\nDirectly at the origin it {verdict}"
