"""What an operator sees of the journal, in metrics, and what nobody finds in its files."""

from pathlib import Path

from forebay.core.cooperative import run_to_completion
from harness.clients import path_of
from harness.fake.actions import HoldRequest
from harness.fake.gate import Gate
from harness.fake_origin import FakeOrigin
from harness.oss_client import OssClient
from harness.rig import TRAINER
from harness.write_back_rig import WriteBackRig


def _samples(rig: WriteBackRig) -> dict[str, float]:
    """The metrics of the journal, by name and labels."""
    lines = run_to_completion(rig.parts.context.metrics.exposition()).decode().splitlines()
    pairs = (line.rpartition(" ") for line in lines if line.startswith("forebay_journal_"))
    return {name: float(value) for name, _, value in pairs}


async def test_the_backlog_is_counted_until_it_has_arrived(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, WriteBackRig(origin, tmp_path) as rig:
        await rig.prove()
        before, gate = _samples(rig), Gate()
        assert (before["forebay_journal_writes"], before["forebay_journal_oldest_seconds"]) == (0, 0)
        origin.faults.add(HoldRequest(gate), method="PUT")
        for key, content in (("a/one", b"1" * 1000), ("a/one", b"2" * 1000), ("a/two", b"3" * 500_000)):
            await rig.put(key, content)
        rig.advance_clock(90)
        await rig.write_back.room.measure()
        found = _samples(rig)
        assert found["forebay_journal_writes"] == 3
        assert found["forebay_journal_objects"] == 2
        assert found["forebay_journal_pending_bytes"] == 502_000
        assert 90 <= found["forebay_journal_oldest_seconds"] < 120
        assert found["forebay_journal_used_bytes"] > 502_000
        assert (found["forebay_journal_waiting"], found["forebay_journal_unsettled"]) == (2, 0)
        assert found["forebay_journal_sync_seconds_count"] > before["forebay_journal_sync_seconds_count"]
        gate.open()
        await rig.settled()
        after = _samples(rig)
        for name, change in (("writes_total", 3), ("bytes_total", 502_000)):
            for result in ("accepted", "persisted"):
                sample = f'forebay_journal_{name}{{result="{result}"}}'
                assert after[sample] - before[sample] == change, sample
        assert (after["forebay_journal_writes"], after["forebay_journal_oldest_seconds"]) == (0, 0)
        assert after["forebay_journal_waiting"] == 0


async def test_no_credential_is_in_the_journal(tmp_path: Path) -> None:
    """Neither of the client, nor of the origin, nor a signature."""
    async with FakeOrigin() as origin, WriteBackRig(origin, tmp_path) as rig:
        await rig.prove()
        gate, oss = Gate(), OssClient(rig.endpoint, TRAINER)
        origin.faults.add(HoldRequest(gate), method="PUT")
        signed = rig.client().sign("PUT", path_of("ckpt", "a/one"), (("x-amz-meta-step", "found"),), b"1" * 1000)
        assert (await rig.client().send(signed)).headers["x-forebay-durable"] == "local"
        upload = await oss.initiate(path_of("ckpt", "a/two"))
        etag = (await oss.part(path_of("ckpt", "a/two"), upload, 1, b"2" * 1000)).headers["ETag"]
        assert (await oss.complete(path_of("ckpt", "a/two"), upload, [(1, etag)])).status == 200
        kept = b"".join(file.read_bytes() for file in rig.journal.rglob("*") if file.is_file())
        assert b"found" in kept
        value = dict(signed.pairs)["Authorization"]
        secrets = (TRAINER.access, TRAINER.secret, origin.secret.access, origin.secret.secret, value.rpartition("=")[2])
        assert [secret for secret in secrets if secret.encode() in kept] == []
        assert b"authorization" not in kept.lower()
        gate.open()
        await rig.settled()
