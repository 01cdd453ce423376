"""TAR as shards are written: POSIX ustar, a pax header only for a name or a size that ustar has no room for.

    [pax header, 512 + n * 512]   header, 512   bytes of the member, filled up to 512   ...   1024 zero bytes

So the bytes of each member begin at a multiple of 512, and `tar`, Python's tarfile and WebDataset can read a shard. The
metadata of the objects is only in the index: pax headers would cost a kilobyte a member.

Headers: forebay.protocol.tar_header.
"""

from forebay.protocol.tar_header import (
    MAX_SIZE,
    NAME_SIZE,
    PREFIX_SIZE,
    extended_header,
    pax_record,
    tar_header,
)


def member_header(key: str, size: int, modified: int) -> bytes:
    """Returns the headers before the bytes of a member. `modified`: seconds since the epoch."""
    name = key.encode()
    prefix, short = _split(name)
    records = b""
    if short is None or not key.isascii():
        records += pax_record("path", name)
        prefix, short = b"", name[:NAME_SIZE]
    if size > MAX_SIZE:
        records += pax_record("size", str(size).encode())
    header = tar_header(short, size, modified, prefix=prefix)
    return extended_header(records, modified) + header if records else header


def _split(name: bytes) -> tuple[bytes, bytes | None]:
    """Returns the prefix and the name of a ustar header, joined by a slash; no name: it does not fit."""
    if len(name) <= NAME_SIZE:
        return b"", name
    at = name.find(b"/", len(name) - NAME_SIZE - 1)
    if 0 < at <= PREFIX_SIZE and at + 1 < len(name):
        return name[:at], name[at + 1 :]
    return b"", None
