"""The transfer of a journal to another endpoint: in order, whole, repeatable, and nothing after a damaged write."""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path

import pytest

from forebay.journal_commands import check_journal_command
from forebay.write.back.journal_check import check_journal
from harness.clients import path_of
from harness.fake.actions import ChangeHeaders, Respond
from harness.fake.store import md5_etag
from harness.fake_origin import FakeOrigin
from harness.origin_history import Effect, RecordingStore
from harness.oss_client import OssClient
from harness.rig import TRAINER
from harness.write_back_rig import WriteBackRig

MIB = 1 << 20
LARGE, PARTS = os.urandom(MIB + 7), (os.urandom(5 * MIB), b"last")
WRITTEN: list[Effect] = [
    ("a/small", b"1"),
    ("a/large", LARGE),
    ("a/small", b"2"),
    ("a/gone", b"to be deleted"),
    ("a/gone", None),
    ("a/upload", b"".join(PARTS)),
    ("a/marker", b"done"),
]
SENT = [effect for effect in WRITTEN if effect[0] != "a/gone"]
"""The endpoint has none of that key, as it is in the end."""


@asynccontextmanager
async def _journal(directory: Path) -> AsyncIterator[Path]:
    """The journal of a Forebay that has ended with all of these writes pending."""
    async with FakeOrigin() as origin:
        async with WriteBackRig(origin, directory) as rig:
            await rig.prove()
            origin.faults.add(Respond(503, "SlowDown"))
            for key, content in WRITTEN:
                if content is None:
                    assert (await rig.client().request("DELETE", path_of("ckpt", key))).status == 204
                elif key == "a/upload":
                    oss, target = OssClient(rig.endpoint, TRAINER), path_of("ckpt", key)
                    upload = await oss.initiate(target)
                    sent = [await oss.part(target, upload, number, part) for number, part in enumerate(PARTS, 1)]
                    etags = [part.headers["ETag"] for part in sent]
                    await oss.complete(target, upload, list(enumerate(etags, 1)))
                else:
                    await rig.put(key, content, ("x-amz-meta-step", "7"))
        yield rig.journal


@asynccontextmanager
async def _target() -> AsyncIterator[tuple[FakeOrigin, RecordingStore]]:
    store = RecordingStore()
    async with FakeOrigin() as target:
        target.store = store
        store.create_bucket("ckpt")
        with _environment(target):
            yield target, store


@contextmanager
def _environment(target: FakeOrigin) -> Iterator[None]:
    """The usual variables of the AWS SDKs."""
    added = {
        "AWS_ACCESS_KEY_ID": target.secret.access,
        "AWS_SECRET_ACCESS_KEY": target.secret.secret,
        "AWS_DEFAULT_REGION": target.secret.region,
        "AWS_CONFIG_FILE": os.devnull,
    }
    before = {name: os.environ.get(name) for name in added}
    os.environ.update(added)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})


async def _transfer(path: Path, endpoint: str, *, force: bool = False) -> int:
    return await asyncio.to_thread(check_journal_command, path, None, endpoint, force=force)


async def test_everything_pending_is_carried_out_elsewhere(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async with _journal(tmp_path) as path, _target() as (target, store):
        # It breaks off, and is repeated.
        fault = target.faults.add(Respond(403, "AccessDenied"), key="a/upload", method="POST")
        assert await _transfer(path, target.endpoint) == 2
        assert store.history == SENT[:3]
        assert "s3://ckpt/a/upload can't be written" in capsys.readouterr().err
        target.faults.remove(fault)
        assert await _transfer(path, target.endpoint) == 0
        assert store.history == SENT
        assert "2 writes carried out" in capsys.readouterr().out
        assert store.bucket("ckpt").uploads == {}
        upload, large = store.get("ckpt", "a/upload"), store.get("ckpt", "a/large")
        acknowledged = {each.write.name.key: each.write.facts for each in check_journal(path).writes}
        facts = acknowledged["a/upload"]
        assert facts is not None
        assert (upload.etag, upload.part_sizes) == (facts.version.etag, (5 * MIB, 4))
        assert ("x-amz-meta-step", "7") in large.headers
        # Once more: nothing is sent.
        assert await _transfer(path, target.endpoint) == 0
        assert (store.history, "0 writes carried out" in capsys.readouterr().out) == (SENT, True)


async def test_another_etag_ends_the_transfer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async with _journal(tmp_path) as path, _target() as (target, _):
        target.faults.add(ChangeHeaders(set=(("ETag", f'"{"0" * 32}"'),)), method="PUT")
        assert await _transfer(path, target.endpoint) == 2
        assert "in place of" in capsys.readouterr().err
        assert await _transfer(path, "http://") == 2


async def test_what_comes_after_a_damaged_write_is_held_back(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with _journal(tmp_path) as path, _target() as (target, store):
        [body] = [each for each in (path / "bodies").iterdir() if each.stat().st_size < 2 * MIB]
        content = bytearray(body.read_bytes())
        content[100] ^= 1
        body.write_bytes(content)
        assert await _transfer(path, target.endpoint) == 1
        assert store.history == WRITTEN[:1]
        assert capsys.readouterr().out.count("held back") == 5


async def test_newer_objects_are_written_over_by_force_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with _journal(tmp_path) as path, _target() as (target, store):
        accepted = {each.write.name.key: each.write.accepted_at for each in check_journal(path).writes}["a/large"]
        for moment, said in (
            (accepted + 1, "newer  s3://ckpt/a/large: somebody wrote it there"),
            (accepted, "unclear  s3://ckpt/a/large: from the second of the journal's write"),
        ):
            store.clock = partial(float, moment)
            store.put("ckpt", "a/large", b"somebody else wrote this")
            before = list(store.history)
            assert await _transfer(path, target.endpoint) == 2
            printed = capsys.readouterr()
            assert said in printed.out
            assert printed.err == "Nothing was sent. With --force, the named objects are written over.\n"
            assert store.history == before
        assert await _transfer(path, target.endpoint, force=True) == 0
        assert store.get("ckpt", "a/large").etag == md5_etag(LARGE)
        assert check_journal_command(path, None, force=True) == 2


async def test_own_objects_are_known_whatever_their_etags(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Under a key of KMS none is the acknowledged one: the bytes tell, and others are not written over."""
    async with _journal(tmp_path) as path, _target() as (target, store):
        store.bucket("ckpt").encryption = "aws:kms"
        kms = ChangeHeaders(set=(("x-amz-server-side-encryption", "aws:kms"),))
        for method in ("GET", "HEAD"):
            target.faults.add(kms, method=method)
        assert await _transfer(path, target.endpoint) == 0
        sent = list(store.history)
        assert await _transfer(path, target.endpoint) == 0
        assert "0 writes carried out" in capsys.readouterr().out
        assert store.history == sent
        store.put("ckpt", "a/large", bytes(len(LARGE)))
        assert await _transfer(path, target.endpoint) == 2
        assert "s3://ckpt/a/large" in capsys.readouterr().out


async def test_an_own_earlier_write_is_not_somebody_elses(tmp_path: Path) -> None:
    """It arrived in the second of the next one, and no reader had seen it."""
    store = RecordingStore()
    async with FakeOrigin() as origin:
        origin.store = store
        async with WriteBackRig(origin, tmp_path, 'freshness = "0s"\n') as rig:
            await rig.prove()
            store.clock = lambda: time.time() + 1
            await rig.put("a/key", b"1")
            await rig.settled()
            fault = origin.faults.add(Respond(503, "SlowDown"))
            await rig.put("a/key", b"2")
        [left] = check_journal(rig.journal).writes
        assert left.write.replaces is None
        origin.faults.remove(fault)
        with _environment(origin):
            assert await _transfer(rig.journal, origin.endpoint) == 0
        assert store.history[-2:] == [("a/key", b"1"), ("a/key", b"2")]


async def test_older_objects_are_what_the_writes_replace(tmp_path: Path) -> None:
    async with _target() as (target, store):
        store.clock = lambda: time.time() - 60
        store.put("ckpt", "a/marker", b"of the checkpoint before")
        store.clock = time.time
        async with _journal(tmp_path) as path:
            assert await _transfer(path, target.endpoint) == 0
        assert store.get("ckpt", "a/marker").etag == md5_etag(b"done")


async def test_the_same_bytes_with_other_metadata_are_sent(tmp_path: Path) -> None:
    async with _target() as (target, store), _journal(tmp_path) as path:
        store.put("ckpt", "a/marker", b"done")
        assert await _transfer(path, target.endpoint) == 0
        assert ("x-amz-meta-step", "7") in store.get("ckpt", "a/marker").headers
