"""An index as kerchunk and fsspec's ReferenceFileSystem read it: JSON, piece by piece.

    {"version":1,"refs":{"train/0001.jpg":["s3://bucket/packed/train/4f1c-00000.tar",512,20480], ...}}

https://fsspec.github.io/kerchunk/spec.html
"""

import json
from collections.abc import Sequence
from typing import Final

from forebay.protocol.packs.packed_member import PackedMember

REFERENCES_BEGIN: Final = b'{"version":1,"refs":{'
REFERENCES_END: Final = b"}}"


def reference_entry(separator: str, member: PackedMember, urls: Sequence[str]) -> str:
    """Returns one entry of the document. `separator`: a comma, but before the first. `urls`: of the shards, as JSON."""
    return f"{separator}{json.dumps(member.key)}:[{urls[member.shard]},{member.offset},{member.size}]"
