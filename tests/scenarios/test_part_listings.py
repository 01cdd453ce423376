"""ListParts: of uploads that the origin has, and of those that the journal has, in one form."""

from pathlib import Path
from urllib.parse import unquote
from xml.etree import ElementTree as Tree

import pytest

from harness.clients import path_of
from harness.fake_origin import FakeOrigin
from harness.oss_client import told
from harness.oss_origin import OssOrigin
from harness.rig import Rig
from harness.write_back_rig import WriteBackRig

KEY = "a/k <ü>"
PAGES = (
    "encoding-type=url",
    "max-parts=0",
    "max-parts=1",
    "max-parts=1&part-number-marker=1",
    "max-parts=2&part-number-marker=1&encoding-type=url",
    "part-number-marker=7",
    "max-parts=x",
)
OWN_FIELDS = {"Bucket", "UploadId", "Part"}


async def _pages(rig: Rig, bucket: str) -> dict[str, tuple[int, dict[str, str]]]:
    """The status of each page, and its fields, but for those that differ from upload to upload."""
    client, target = rig.client(), path_of(bucket, KEY)
    upload = told(await client.request("POST", f"{target}?uploads"), "UploadId")
    for number in (1, 3):
        answer = await client.request("PUT", f"{target}?partNumber={number}&uploadId={upload}", (), b"x" * number)
        assert answer.status == 200, answer.body
    found = {}
    for page in PAGES:
        answer = await client.request("GET", f"{target}?uploadId={upload}&{page}")
        fields = {each.tag.partition("}")[2] or each.tag: each.text or "" for each in Tree.fromstring(answer.body)}
        if answer.status != 200:
            found[page] = answer.status, {"Code": fields["Code"]}
            continue
        if fields.pop("EncodingType", None) is not None:  # S3 ignores the parameter, others obey it
            assert "encoding-type=url" in page
            fields["Key"] = unquote(fields["Key"])
        found[page] = answer.status, {name: fields[name] for name in fields.keys() - OWN_FIELDS}
    return found


@pytest.mark.parametrize("dialect", ["aws", "oss"])
async def test_pages_of_parts_are_those_of_the_origin(tmp_path: Path, dialect: str) -> None:
    async with (
        (OssOrigin if dialect == "oss" else FakeOrigin)() as origin,
        WriteBackRig(origin, tmp_path, dialect=dialect) as rig,
    ):
        await rig.prove()
        origin.store.create_bucket("plain")
        local = await _pages(rig, "ckpt")
        assert origin.log.count(operation="ListParts") == 0
        assert local == await _pages(rig, "plain")
        assert origin.log.count(operation="ListParts") > 0
        assert (local["max-parts=0"][0], local["encoding-type=url"][0]) == (200, 200)
        assert local["encoding-type=url"][1]["Key"] == KEY
