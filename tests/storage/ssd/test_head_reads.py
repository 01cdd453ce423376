from pathlib import Path

from forebay.core.events import CorruptionFound
from forebay.storage.ssd.index.head_codec import decode_head
from forebay.storage.ssd.index.index import Index
from harness.ssd_rig import MIB, RecordedEvents, head_for, open_tier


async def test_a_damaged_head_is_dropped(tmp_path: Path) -> None:
    tier = open_tier(tmp_path / "ssd")
    heads = [head_for("whole"), head_for("damaged"), head_for("moved")]
    for name, head in heads:
        tier.put_head(name, head)
    await tier.flush()
    await tier.close()
    index = Index.open(tmp_path / "ssd" / "index", 64 * MIB, exclusive=True)
    rows = [(address, decode_head(raw)) for address, raw in index.heads_after(b"", 10)]
    addresses = {named.name.key: address for address, named in rows if named is not None}
    with index.write_transaction() as txn:
        whole = txn.get(addresses["whole"], db=index.tables.heads)
        txn.put(addresses["damaged"], whole[:-1] + b"?", db=index.tables.heads)
        txn.put(addresses["moved"], whole, db=index.tables.heads)
    index.close()
    events = RecordedEvents()
    tier = open_tier(tmp_path / "ssd", events)
    assert [tier.head(name) for name, _ in heads] == [heads[0][1], None, None]
    assert events.of(CorruptionFound) == [CorruptionFound("ssd", "damaged head")] * 2
    await tier.flush()
    events.clear()
    assert tier.head(heads[1][0]) is None
    assert events.of(CorruptionFound) == [], "it is not there any more"
    await tier.close()
