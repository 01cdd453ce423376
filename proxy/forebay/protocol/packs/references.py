"""An index as kerchunk and fsspec's ReferenceFileSystem read it: JSON, piece by piece.

    {"version":1,"refs":{"train/0001.jpg":["s3://bucket/packed/train/4f1c-00000.tar",512,20480], ...}}

https://fsspec.github.io/kerchunk/spec.html
"""

import json
from collections.abc import Iterable, Iterator, Sequence

from forebay.protocol.packs.packed_member import PackedMember, PackShard


def reference_pieces(bucket: str, shards: Sequence[PackShard], members: Iterable[PackedMember]) -> Iterator[bytes]:
    """The document."""
    urls = [json.dumps(f"s3://{bucket}/{shard.key}") for shard in shards]
    yield b'{"version":1,"refs":{'
    separator = ""
    for member in members:
        yield reference_entry(separator, member, urls).encode()
        separator = ","
    yield b"}}"


def reference_entry(separator: str, member: PackedMember, urls: Sequence[str]) -> str:
    """One entry. `urls`: of the shards, as JSON."""
    return f"{separator}{json.dumps(member.key)}:[{urls[member.shard]},{member.offset},{member.size}]"
