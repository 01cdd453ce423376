"""The dialect of a request: S3's, or that of Alibaba OSS.

    a credential         Authorization: OSS ..., OSS2 ..., OSS4-HMAC-SHA256 ...; ?OSSAccessKeyId=, ?x-oss-signature= ...
    without one          x-oss-* among its headers or in its query, and x-amz-* nowhere

The guess decides nothing but the form in which the request is read and answered, errors included. It is not the
authentication: a request with credentials of both dialects gets one of the two answers here, and is refused by
forebay.protocol.signatures.sigv4_claim.
"""

from functools import lru_cache
from typing import Final

from forebay.protocol.header_map import Headers
from forebay.protocol.target import Target

SCHEMES: Final = frozenset(("OSS", "OSS2", "OSS4-HMAC-SHA256"))
"""OSS's schemes of the Authorization header."""
MARK_V1: Final = "OSSAccessKeyId"
"""The query name that marks a signed URL of version 1."""
MARKS: Final = frozenset(("x-oss-signature", "x-oss-signature-version", "x-oss-credential", "x-oss-access-key-id"))
"""The query names that mark a signed URL of version 2 or 4."""

_OSS_QUERY: Final = MARKS | {MARK_V1}
_S3_QUERY: Final = frozenset(("X-Amz-Algorithm", "X-Amz-Credential", "X-Amz-Signature", "AWSAccessKeyId"))
_AWS_SCHEMES: Final = ("AWS ", "AWS4-")


def speaks_oss(target: Target, headers: Headers) -> bool:
    """Whether the request is an OSS client's. Never raises."""
    authorization = headers.get("Authorization")
    if authorization is not None:
        if authorization.startswith(_AWS_SCHEMES):
            return False
        if authorization.partition(" ")[0] in SCHEMES:
            return True
    names: tuple[str, ...] = ()
    if target.query:
        names = tuple([name for name, _ in target.query])
        if not _OSS_QUERY.isdisjoint(names):
            return True
        if not _S3_QUERY.isdisjoint(names):
            return False
    return _has_oss_prefixes((*names, *headers))


@lru_cache(maxsize=256)  # the requests of a client have the same names each time
def _has_oss_prefixes(names: tuple[str, ...]) -> bool:
    prefixes = {name[:6].lower() for name in names}
    return "x-oss-" in prefixes and "x-amz-" not in prefixes
