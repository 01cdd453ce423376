"""An index in the form of kerchunk, and read by fsspec's file system for it."""

import json

from hypothesis import given

from forebay.protocol.packs.packed_member import PackedMember
from forebay.protocol.packs.references import reference_pieces
from harness.packed_objects import SHARDS, members


@given(members())
def test_references_are_what_kerchunk_reads(found: list[PackedMember]) -> None:
    document = json.loads(b"".join(reference_pieces("bucket", SHARDS, found)))
    assert document["version"] == 1
    assert document["refs"] == {
        each.key: [f"s3://bucket/{SHARDS[each.shard].key}", each.offset, each.size] for each in found
    }
