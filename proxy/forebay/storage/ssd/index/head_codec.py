"""The encoding of a head in the index: small, versioned, with the name of its object.

    offset  size  field                            big-endian
         0     1  version of this encoding: 2
         1     8  CRC-64/XZ of all that follows
         9     8  validated_at, a double
        17     8  size of the object
        25     4  block size
        29     8  generation
        37     1  bits: 1 the version has a version id, 2 its checksums are known
        38     2  number n of texts
        40    4n  length of each text in characters
    40+4n        the texts, one after the other, in UTF-8:
                 bucket, key, ETag, version id ("" if none), Last-Modified, then name and value of each header

The index has no checksums of its own, hence this one. The name serves listings, and a head is only valid for the
object that it names.

Rows of other versions can't be read, and count as damaged.
"""

import struct
from typing import Final

from forebay.core.heads import Head, NamedHead, ObjectFacts
from forebay.core.names import Generation, ObjectName, Version
from forebay.storage.ssd.segments.addressing import text_bytes
from forebay.storage.ssd.segments.record import checksum

VERSION: Final = 2
_HAS_VERSION_ID: Final = 1
_CHECKSUMS_KNOWN: Final = 2
_SEAL = struct.Struct(">BQ")
_FIXED = struct.Struct(">dQI8sBH")
_TEXTS_BEFORE_HEADERS: Final = 5


def encode_head(name: ObjectName, head: Head) -> bytes:
    """Encodes the head of an object."""
    facts = head.facts
    version = facts.version
    texts = [name.bucket, name.key, version.etag, version.version_id or "", facts.last_modified]
    for pair in facts.headers:
        texts.extend(pair)
    bits = _HAS_VERSION_ID * (version.version_id is not None) | _CHECKSUMS_KNOWN * facts.checksums_known
    fixed = _FIXED.pack(head.validated_at, facts.size, head.block_size, head.generation, bits, len(texts))
    content = fixed + struct.pack(f">{len(texts)}I", *map(len, texts)) + text_bytes("".join(texts))
    return _SEAL.pack(VERSION, checksum(content)) + content


def decode_head(raw: bytes) -> NamedHead | None:
    """Decodes a head; None if `raw` is damaged or of an unknown version."""
    if len(raw) < _SEAL.size + _FIXED.size:
        return None
    encoding, seal = _SEAL.unpack_from(raw)
    if encoding != VERSION or checksum(memoryview(raw)[_SEAL.size :]) != seal:
        return None
    # The checksum covers every length: the rest is what encode_head wrote.
    validated_at, size, block_size, generation, bits, count = _FIXED.unpack_from(raw, _SEAL.size)
    lengths_at = _SEAL.size + _FIXED.size
    lengths = struct.unpack_from(f">{count}I", raw, lengths_at)
    joined = raw[lengths_at + 4 * count :].decode("utf-8", "surrogatepass")
    texts = []
    start = 0
    for length in lengths:
        texts.append(joined[start : start + length])
        start += length
    bucket, key, etag, version_id, last_modified = texts[:_TEXTS_BEFORE_HEADERS]
    pairs = texts[_TEXTS_BEFORE_HEADERS:]
    facts = ObjectFacts(
        version=Version(etag, version_id if bits & _HAS_VERSION_ID else None),
        size=size,
        last_modified=last_modified,
        headers=tuple(zip(pairs[::2], pairs[1::2], strict=True)),
        checksums_known=bool(bits & _CHECKSUMS_KNOWN),
    )
    return NamedHead(ObjectName(bucket, key), Head(facts, block_size, Generation(generation), validated_at))
