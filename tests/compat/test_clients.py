"""Real clients, unmodified, through Forebay before a real origin. `make clients` installs them; see clients.toml.

What a client tells of its errand must be what the table says that it does, and Forebay must have seen it.
Where one fails, it is sent to the origin directly, to tell a fault of Forebay from one of the client or the origin.
"""

import json
from pathlib import Path
from typing import Any, Final

import pytest

from compat.clients import Client, load_clients
from compat.host_names import CNAME, DOMAIN, TELLING
from compat.reports import GUEST, GUEST_TOKEN, PATIENCE, Report, send
from harness.oss_origin import OSS_SECRET, OssOrigin
from harness.rig import TRAINER, Rig
from harness.swift import SwiftOrigin

CLIENTS: Final = load_clients()
BEFORE_OSS: Final = [
    client
    for client in CLIENTS
    if client.name in {"boto3", "boto3-oldest", "oss2", "alibabacloud-oss-v2", "oss-training"}
]
WITNESSES: Final = {
    "put": {"PutObject"},
    "get": {"GetObject"},
    "parts up": {"CompleteMultipartUpload"},
    "list": {"ListObjects", "ListObjectsV2"},
    "copy": {"CopyObject"},
    "delete": {"DeleteObject", "DeleteObjects"},
    "head": {"HeadObject"},
    "resume": {"ListParts"},
}
"""Which operations a deed is seen by. A range is seen by its status."""
RANGED: Final = {"range", "ranges down", "parquet"}
DOMAINS: Final = json.dumps([DOMAIN, TELLING, "oss-cn-hangzhou.aliyuncs.com"])
"""ali-oss sends its requests to an address with the Host of Alibaba's own endpoint."""
REST: Final = f"""
[[auth.keys]]
id = "{GUEST.access}"
secret = "{GUEST.secret}"
session_token = "{GUEST_TOKEN}"
grants = [{{ path = "**", allow = ["read", "write"] }}]
"""


@pytest.mark.timeout(3 * PATIENCE)
@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)
async def test_a_real_client(client: Client, swift: SwiftOrigin, tmp_path: Path) -> None:
    bucket = _bucket_for(client, swift)
    errand, retry = _empty(tmp_path / "errand"), _empty(tmp_path / "directly")
    where = tmp_path / "forebay"
    async with Rig(swift.endpoint, swift.secret, where, ssd="256MiB", server=_server(bucket), rest=REST) as rig:
        report = await send(client, rig.endpoint, bucket, TRAINER, errand)
    lines = [json.loads(line) for line in rig.access_lines()]
    if report.ended != 0:
        # Nobody but Forebay speaks OSS here.
        speaks = client.speaks == "s3"
        directly = await send(client, swift.endpoint, swift.fresh_bucket(), swift.secret, retry) if speaks else None
        pytest.fail(_story(report, directly, lines))
    _judge(client, report, lines, bucket)


@pytest.mark.timeout(3 * PATIENCE)
@pytest.mark.parametrize("client", BEFORE_OSS, ids=lambda client: client.name)
async def test_a_real_client_before_oss(client: Client, tmp_path: Path) -> None:
    """The same errand, before an origin that speaks OSS's own protocol: which a client of S3 need not know."""
    missing = client.missing()
    if missing is not None:
        pytest.skip(missing)
    errand = _empty(tmp_path / "errand")
    async with OssOrigin() as origin:
        origin.store.create_bucket("bucket")
        where, server = tmp_path / "forebay", _server("bucket")
        async with Rig(origin.endpoint, OSS_SECRET, where, dialect="oss", server=server, rest=REST) as rig:
            report = await send(client, rig.endpoint, "bucket", TRAINER, errand)
    lines = [json.loads(line) for line in rig.access_lines()]
    if report.ended != 0:
        pytest.fail(_story(report, None, lines))
    _judge(client, report, lines, "bucket")


def _server(bucket: str) -> str:
    return f'domains = {DOMAINS}\ncnames = {{ "{CNAME}" = "{bucket}" }}'


def _bucket_for(client: Client, swift: SwiftOrigin) -> str:
    missing = client.missing()
    if missing is not None:
        pytest.skip(missing)
    return swift.fresh_bucket()


def _empty(directory: Path) -> Path:
    directory.mkdir()
    return directory


def _judge(client: Client, report: Report, lines: list[dict[str, Any]], bucket: str) -> None:
    """What the client told is what the table says that it does, and Forebay saw it."""
    assert report.version == client.version
    assert sorted(report.did) == sorted(client.does)
    done = [line for line in lines if line["bucket"] == bucket and line["status"] < 300]
    operations = {line["operation"] for line in done}
    assert [deed for deed in client.does if deed in WITNESSES and not WITNESSES[deed] & operations] == []
    assert RANGED.isdisjoint(client.does) or 206 in {line["status"] for line in done}
    assert report.again
    reads = {line["key"]: line["cache"] for line in done if line["operation"] == "GetObject"}  # the last of each
    assert [key for key in report.again if not reads[key].startswith("hit")] == []
    assert [line for line in lines if line["status"] in {500, 503}] == []
    assert [line for line in lines if line.get("aborted") and not client.leaves] == []


def _story(report: Report, directly: Report | None, lines: list[dict[str, Any]]) -> str:
    """What there is to know of an errand that failed."""
    last = "\n".join(str(line) for line in lines[-8:])
    told = f"ended {report.ended} after {report.did}:\n{report.complaint}\n{last}"
    if directly is None:
        return told
    verdict = "works" if directly.ended == 0 else f"fails, after {directly.did}: {directly.complaint[-1000:]}"
    return f"{told}\nDirectly at the origin it {verdict}"
