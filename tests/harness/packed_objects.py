"""Members of packs for tests: strategies, and packs in memory."""

import io
import tarfile
from collections.abc import Callable, Iterable, Sequence
from hashlib import blake2b

from hypothesis import strategies as st

from forebay.core.heads import HeaderPairs
from forebay.protocol.packs.pack_index import IndexWriter
from forebay.protocol.packs.packed_member import DIGEST_BYTES, PackedMember, PackShard
from harness.fake.store import md5_etag

KEYS = st.text(
    st.characters(min_codepoint=1, max_codepoint=0x10FFFF, exclude_categories=["Cs"]), min_size=1, max_size=40
)
ETAGS = st.one_of(
    st.binary(min_size=16, max_size=16).map(lambda raw: f'"{raw.hex()}"'),
    st.from_regex(r'"[0-9a-f]{32}-[0-9]{1,4}"', fullmatch=True),
    st.just('"ABCDEF"'),
)
HEADERS = st.sampled_from([(), (("Content-Type", "image/jpeg"),), (("Content-Type", "a/b"), ("x-amz-meta-n", "ü,"))])


@st.composite
def members(draw: st.DrawFn, shards: int = 3) -> list[PackedMember]:
    """Members in the order of their keys."""
    return [
        PackedMember(
            key,
            draw(st.integers(0, shards - 1)),
            512 * draw(st.integers(1, 1 << 40)),
            draw(st.integers(0, 5 << 40)),
            draw(ETAGS),
            draw(st.integers(0, 1 << 34)),
            draw(HEADERS),
            draw(st.binary(min_size=DIGEST_BYTES, max_size=DIGEST_BYTES)),
        )
        for key in sorted(draw(st.sets(KEYS, max_size=400 if draw(st.booleans()) else 12)))
    ]


SHARDS = tuple(PackShard(f"packed/{number}.tar", 1 << 50, f'"{number:032x}-2"') for number in range(3))


def index_bytes(found: Iterable[PackedMember], shards: Sequence[PackShard] = SHARDS, prefix: str = "") -> bytes:
    """An index of these members."""
    writer = IndexWriter()
    pieces = [writer.add(member) for member in found]
    return b"".join((*pieces, writer.finish([prefix], shards, 1_800_000_000.0)))


def shard_and_index(
    objects: dict[str, bytes],
    *,
    shard_key: str = "packed/0.tar",
    prefix: str = "",
    headers: HeaderPairs = (("Content-Type", "image/jpeg"),),
    modified: int = 1_700_000_000,
    shard_etag: str | None = None,
    etag_of: Callable[[bytes], str] = md5_etag,
) -> tuple[bytes, bytes]:
    """A TAR that Python wrote of these objects, and an index of it."""
    file = io.BytesIO()
    found = []
    with tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for key in sorted(objects):
            information = tarfile.TarInfo(key)
            information.size, information.mtime = len(objects[key]), modified
            archive.addfile(information, io.BytesIO(objects[key]))
            size = len(objects[key])
            offset = file.tell() - size - -size % 512
            etag = etag_of(objects[key])
            digest = blake2b(objects[key], digest_size=DIGEST_BYTES).digest()
            found.append(PackedMember(key, 0, offset, size, etag, modified, headers, digest))
    shard = file.getvalue()
    etag = shard_etag or etag_of(shard)
    return shard, index_bytes(found, [PackShard(shard_key, len(shard), etag)], prefix)
