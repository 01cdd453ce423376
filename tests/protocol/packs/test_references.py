"""An index in the form of kerchunk, and read by fsspec's file system for it."""

import json

from hypothesis import given

from forebay.protocol.packs.packed_member import PackedMember
from forebay.protocol.packs.references import REFERENCES_BEGIN, REFERENCES_END, reference_entry
from harness.packed_objects import SHARDS, members


@given(members())
def test_references_are_what_kerchunk_reads(found: list[PackedMember]) -> None:
    urls = [json.dumps(f"s3://bucket/{shard.key}") for shard in SHARDS]
    entries = [reference_entry("," if nth else "", each, urls).encode() for nth, each in enumerate(found)]
    document = json.loads(b"".join((REFERENCES_BEGIN, *entries, REFERENCES_END)))
    assert document["version"] == 1
    assert document["refs"] == {
        each.key: [f"s3://bucket/{SHARDS[each.shard].key}", each.offset, each.size] for each in found
    }
