"""Shared memory shows a client what it may read, and nothing else: not of other clients, not of what it lost."""

import asyncio
import gc
import random
from pathlib import Path

import pytest

from forebay.core.names import ObjectName
from forebay_client import Client, ClientError
from forebay_client.shared_memory.channel import ReadDeclined
from harness.fake_origin import FakeOrigin
from harness.rig import READER, TRAINER
from harness.socket_rig import HandChannel, SocketRig

MIB = 1 << 20
SECRET = b"only the trainer may read this. "
OPEN = b"everybody with a key may read it"


async def test_a_reader_of_a_prefix_maps_no_byte_of_another(tmp_path: Path) -> None:
    rest = '[[rules]]\npath = "**"\nfreshness = "immutable"\n'
    async with FakeOrigin() as origin, SocketRig(origin, tmp_path, memory="64MiB", rest=rest) as rig:
        for number in range(4):
            origin.store.put("b", f"open/{number}", OPEN * (MIB // len(OPEN)))
            origin.store.put("b", f"closed/{number}", SECRET * (MIB // len(SECRET)))
        trainer, reader = rig.library(), await HandChannel.open(rig, READER)
        for number in range(4):  # neighbours in the same files
            await rig.promote(trainer, "b", f"open/{number}", f"closed/{number}")
        assert rig.forms().get("memory", 0) == 0
        keep = [await asyncio.to_thread(trainer.get, "b", f"closed/{number}") for number in range(4)]
        assert rig.forms()["memory"] == 4
        views = [(await reader.read("b", f"open/{number}"))[1] for number in range(4)]
        assert all(view == OPEN * (MIB // len(OPEN)) for view in views)
        assert rig.forms()["memory"] == 4
        assert not reader.files
        ring = bytes(reader.ring.view(0, rig.parts.storage.rings.in_use))
        assert OPEN in ring
        assert SECRET[:16] not in ring
        del keep
        gc.collect()
        reader.close()


async def test_a_reader_of_a_prefix_gets_files_with_nothing_else(tmp_path: Path) -> None:
    rest = '[[rules]]\npath = "**"\nfreshness = "immutable"\n'
    async with FakeOrigin() as origin, SocketRig(origin, tmp_path, memory="64MiB", rest=rest) as rig:
        for number in range(6):
            origin.store.put("b", f"open/{number}", OPEN * (MIB // len(OPEN)))
            origin.store.put("b", f"closed/{number}", SECRET * (MIB // len(SECRET)))
        trainer, reader = rig.library(), await HandChannel.open(rig, READER)
        await rig.promote(trainer, "b", "open/0", "open/1", "open/2", "closed/2", "open/3", "open/4")
        bodies = [(await reader.read("b", f"open/{number}"))[1] for number in range(5)]
        assert all(body == OPEN * (MIB // len(OPEN)) for body in bodies)
        assert (rig.forms()["memory"], len(reader.files)) == (4, 2)
        for file in reader.files:
            assert SECRET[:16] not in bytes(file.view(0, file.size))
        # The first file stays the client's; one that has lost a block is passed to nobody else.
        rig.parts.storage.tiers.memory.forget(ObjectName("b", "open/1"))
        rig.parts.storage.tiers.memory.forget(ObjectName("b", "open/4"))
        other = await HandChannel.open(rig, READER)
        for channel in (reader, other):
            assert (await channel.read("b", "open/0"))[1] == bodies[0]
            assert (await channel.read("b", "open/3"))[1] == bodies[3]
        assert rig.forms()["memory"] == 6
        assert not other.files
        reader.close()
        other.close()


async def test_prefixes_that_are_read_at_once_are_kept_apart(tmp_path: Path) -> None:
    rest = '[[rules]]\npath = "**"\nfreshness = "immutable"\n'
    async with FakeOrigin() as origin, SocketRig(origin, tmp_path, memory="512MiB", rest=rest) as rig:
        keys = [f"{prefix}/{number}" for number in range(2) for prefix in ("open", "closed")]
        for key in keys:
            origin.store.put("b", key, (OPEN if key.startswith("open") else SECRET) * (MIB // len(OPEN)))
        await rig.promote(rig.library(), "b", *keys)
        reader = await HandChannel.open(rig, READER)
        assert (await reader.read("b", "open/0"))[1] == OPEN * (MIB // len(OPEN))
        assert rig.forms()["memory"] == 1
        [file] = reader.files
        assert SECRET[:16] not in bytes(file.view(0, file.size))
        reader.close()


async def test_no_principal_of_a_channel_has_the_rights_of_another(tmp_path: Path) -> None:
    rest = '[[rules]]\npath = "**"\nfreshness = "immutable"\n'
    async with FakeOrigin() as origin, SocketRig(origin, tmp_path, memory="64MiB", rest=rest) as rig:
        for key in ("open/0", "closed/0", "open/1", "closed/1"):
            origin.store.put("b", key, (OPEN if key.startswith("open") else SECRET) * (MIB // len(OPEN)))
        trainer = rig.library()
        await rig.promote(trainer, "b", "open/0", "closed/0", "open/1", "closed/1")
        mixed, reader = await HandChannel.open(rig, TRAINER), await HandChannel.open(rig, READER)
        await mixed.read("b", "closed/0")
        files = len(mixed.files)
        mixed.signer = reader.signer
        assert len((await mixed.read("b", "open/1"))[1]) == MIB
        assert len(mixed.files) == files == 1, "the second request brought none"
        with pytest.raises(ReadDeclined):
            await mixed.read("b", "closed/0")
        mixed.close()
        reader.close()


async def test_a_ring_is_one_clients_own(tmp_path: Path) -> None:
    """What one client read is in no memory of another's, however slots come and go."""
    async with FakeOrigin() as origin, SocketRig(origin, tmp_path) as rig:
        draw = random.Random(1)
        for number in range(6):
            origin.store.put("b", f"open/{number}", OPEN * draw.randrange(1_000, 20_000))
            origin.store.put("b", f"closed/{number}", SECRET * draw.randrange(1_000, 20_000))
        reader = await HandChannel.open(rig, READER)
        for _ in range(10):
            trainer = await HandChannel.open(rig, TRAINER)
            for _ in range(6):
                await trainer.read("b", f"closed/{draw.randrange(6)}")
                await reader.read("b", f"open/{draw.randrange(6)}")
            trainer.close()
        assert SECRET[:16] not in bytes(reader.ring.view(0, 4 * MIB))
        reader.close()


async def test_a_revoked_key_gets_nothing_more_and_its_files_go(tmp_path: Path) -> None:
    key = '[[auth.keys]]\nid = "leaver"\nsecret = "leaver-secret"\ngrants = [{ path = "**", allow = ["read"] }]\n'
    async with FakeOrigin() as origin, SocketRig(origin, tmp_path, rest=key) as rig:
        origin.store.put("b", "open/k", OPEN * (4 * MIB // len(OPEN)))
        leaver = rig.library(type(TRAINER)("leaver", "leaver-secret"))
        await rig.promote(leaver, "b", "open/k")
        await asyncio.to_thread(leaver.get, "b", "open/k")
        memory = rig.worker.client_memory
        assert memory.files.size == 4 * MIB
        file = rig.directory / "forebay.toml"
        file.write_text(rig.configuration.replace(key, ""))
        await rig.worker.reload()
        memory.check()
        assert rig.all_channels_end()  # not as their client is idle
        await rig.channels_are(0)
        assert "AccessDenied" in await asyncio.to_thread(error_of, leaver)
        pool = leaver._transports.make()[0]._pool  # type: ignore[union-attr] # noqa: SLF001 # what runs every two seconds
        pool.tend()
        gc.collect()
        memory.check()
        assert memory.files.size == 0


def error_of(client: Client) -> str:
    try:
        client.get("b", "open/k")
    except ClientError as error:
        return type(error).__name__
    return ""
