"""Strange keys stay what they are: acknowledged, listed, exported, and carried out."""

import asyncio
import json
from pathlib import Path
from typing import Final
from xml.sax.saxutils import escape

from forebay.write.back.journal_check import MANIFEST, check_journal, export_writes
from harness.clients import path_of
from harness.fake.actions import Respond
from harness.fake_origin import FakeOrigin
from harness.oss_client import OssClient
from harness.rig import TRAINER
from harness.write_back_rig import WriteBackRig, at_origin

KEYS: Final = (
    "a/é",
    "a/e\u0301",
    "a/%2F",
    "a/%zz",
    "a/ b ",
    "a/+",
    "a/new\nline",
    "a/tab\t",
    "a/\\e",
    "a/?x=1&y#f",
    "a/\U0001f600",
    "a/'\"<>&;]]>",
    "a/...",
    "a/folder/",
    "a/\u2028",
    f"a/{'/'.join(['d' * 200] * 5)}",
)
Contents = dict[str, bytes | None]


async def _write(rig: WriteBackRig) -> Contents:
    """Every key by a PUT, an upload and a copy; a third of the PUTs is deleted, and every second copy. Returns what
    there is then; None: it was deleted."""
    oss, contents = OssClient(rig.endpoint, TRAINER), Contents()
    for number, key in enumerate(KEYS):
        upload, copy = f"{key}.upload", f"{key}.copy"
        await rig.put(key, key.encode())
        copied = ("x-oss-copy-source", path_of("ckpt", key))
        assert (await oss.request("PUT", path_of("ckpt", copy), (copied,))).headers["x-forebay-durable"] == "local"
        target = path_of("ckpt", upload)
        upload_id = await oss.initiate(target)
        part = await oss.part(target, upload_id, 1, b"part of " + key.encode())
        completed = await oss.complete(target, upload_id, [(1, part.headers["ETag"])])
        assert (completed.status, completed.headers["x-forebay-durable"]) == (200, "local")
        contents |= {key: key.encode(), copy: key.encode(), upload: b"part of " + key.encode()}
        if number % 3 == 0:
            deleted = await rig.client().request("DELETE", path_of("ckpt", key))
            assert deleted.headers["x-forebay-durable"] == "local"
            contents[key] = None
    copies = [f"{key}.copy" for key in KEYS[::2]]
    listed = "".join(f"<Object><Key>{escape(key, {chr(10): '&#10;', chr(9): '&#9;'})}</Key></Object>" for key in copies)
    batch = await oss.document("POST", "/ckpt?delete", f"<Delete><Quiet>true</Quiet>{listed}</Delete>".encode())
    assert (batch.status, batch.headers["x-forebay-durable"]) == (200, "local")
    return contents | dict.fromkeys(copies)


async def test_strange_keys_stay_what_they_are(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, WriteBackRig(origin, tmp_path) as rig:
        await rig.prove()
        down = origin.faults.add(Respond(503, "SlowDown"), where=lambda each: each.method in {"PUT", "POST", "DELETE"})
        contents = await _write(rig)
        client = rig.boto3()
        page = await asyncio.to_thread(lambda: client.list_objects_v2(Bucket="ckpt"))
        client.close()
        assert [each["Key"] for each in page["Contents"]] == sorted(
            key for key in contents if contents[key] is not None
        )
        report = check_journal(rig.journal)
        assert report.is_whole
        export_writes(rig.journal, report.writes, tmp_path / "out")
        lines = [json.loads(line) for line in (tmp_path / "out" / MANIFEST).read_text().splitlines()]
        last = {line["key"]: line["file"] for line in lines}
        assert {key: (tmp_path / "out" / file).read_bytes() if file else None for key, file in last.items()} == contents
        origin.faults.remove(down)
        await rig.settled()
        assert {key: at_origin(origin, key) for key in contents} == contents
