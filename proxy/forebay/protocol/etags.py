"""Entity tags as S3 and its likes mean them: the quotes are not of the tag, and the case of one that is a hexadecimal
digest means nothing (OSS and its clients write upper case, the others lower)."""

import re
from typing import Final

_DIGEST: Final = re.compile(r"[0-9A-Fa-f]{32}(?:-[0-9]+)?")


def is_digest(etag: str) -> bool:
    """Whether it is the MD5 of an object, or that of its parts with their number."""
    return _DIGEST.fullmatch(etag.strip('"')) is not None


def normalized_etag(etag: str) -> str:
    """What two ways of writing one tag have in common. Of one that is no digest the case counts."""
    return folded_etag(etag) if is_digest(etag) else etag.strip('"')


def folded_etag(etag: str) -> str:
    """The same of a tag that an origin made up of what was written, which is a digest of some kind."""
    return etag.strip('"').lower()


def same_etag(first: str, second: str) -> bool:
    """Whether an origin's tag and one that a client or another answer tells back are one."""
    return folded_etag(first) == folded_etag(second)
