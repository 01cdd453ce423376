"""The example of docs/packs.md that reads a pack is run in front of a Forebay."""

from pathlib import Path

from harness.fake_origin import FakeOrigin
from harness.packed_objects import shard_and_index
from harness.page_examples import run_examples
from harness.rig import Rig


async def test_the_reader_reads_members(tmp_path: Path) -> None:
    members = {f"train/n00001/{number:04}.jpg": bytes([number]) * 100 for number in range(5)}
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path) as rig:
        shard, index = shard_and_index(members, shard_key="packed/train/0.tar", prefix="train/")
        origin.store.put("bucket", "packed/train/0.tar", shard)
        origin.store.put("bucket", "packed/train/index.fbpack", index)
        printed = await run_examples(
            "packs.md",
            rig,
            before=f"keys, found = {list(reversed(members))}, []\ndecode = lambda data: found.append(bytes(data))",
            after="print(bytes(image) == bytes([1]) * 100, [each[0] for each in found])",
        )
    assert printed == "True [4, 3, 2, 1, 0]\n"
