"""The checksums that a request head declares for the body, in headers or as an announced trailer.

    content-md5                     with or without another checksum
    x-amz-checksum-<algorithm>      at most one, in the head or after the body (named by x-amz-trailer), not both
    x-amz-sdk-checksum-algorithm    the algorithm of that checksum

Contradictory headers are refused before the body is read, with the messages of S3 and in its order: OpenStack Swift's
test/s3api/test_input_errors.py checks both Swift and AWS for them.

https://docs.aws.amazon.com/AmazonS3/latest/userguide/checking-object-integrity.html
"""

from functools import lru_cache
from typing import Final, Literal, NamedTuple, TypeAlias

from forebay.core.errors import S3Error
from forebay.protocol.body.checksums import KNOWN_ELSEWHERE, PREFIX, ChecksumCheck, algorithm_of, decode, is_checksum
from forebay.protocol.header_map import Headers, single

Kind: TypeAlias = Literal["content", "document", "completion"]
"""The content of a body: the bytes of an object or part; a document, whose MD5 an error repeats in base64 instead of
hex; or the document that completes an upload, whose checksum headers are those of the resulting object."""

_ALGORITHM: Final = "x-amz-sdk-checksum-algorithm"
_DECLARING: Final = frozenset({"content-md5", "x-amz-trailer", _ALGORITHM})
_SINGLE_EXPECTED: Final = "Expecting a single x-amz-checksum- header"


class DeclaredChecksums(NamedTuple):
    """The checks of a body, including that of the trailer."""

    checks: list[ChecksumCheck]
    trailer: str | None
    """The lower-case name of the checksum after the body."""


def declared_checksums(headers: Headers, kind: Kind, *, trailing: bool) -> DeclaredChecksums:
    """The checksums that `headers` declare. `trailing`: whether the form of the body can have a trailer.

    Raises S3Error InvalidDigest, InvalidRequest, MalformedTrailerError, NotImplemented.
    """
    if not _are_any(tuple(headers)):
        return DeclaredChecksums([], None)
    checks = []
    md5 = single(headers, "content-md5")
    if md5 is not None:
        checks.append(ChecksumCheck("content-md5", decode("content-md5", md5), in_base64=kind != "content"))
    declared = [(name.lower(), value) for name, value in headers.items() if is_checksum(name)]
    trailer = _checked_names([name for name, _ in declared], _trailer_names(headers))
    if trailer is not None and not trailing:
        raise S3Error("MalformedTrailerError")
    if kind == "completion":
        return DeclaredChecksums(checks, None)
    algorithm = single(headers, _ALGORITHM)
    if algorithm is not None and single(headers, "content-length") != "0":
        name = declared[0][0] if declared else trailer
        if name is None:
            message = (
                f"{_ALGORITHM} specified, but no corresponding x-amz-checksum-* or x-amz-trailer headers were found."
            )
            raise S3Error("InvalidRequest", message)
        if algorithm.lower() != algorithm_of(name):
            raise S3Error("InvalidRequest", f"Value for {_ALGORITHM} header is invalid.")
    checks += [ChecksumCheck(name, decode(name, value.strip(" \t"))) for name, value in declared]
    if trailer is not None:
        checks.append(ChecksumCheck(trailer))
    return DeclaredChecksums(checks, trailer)


@lru_cache(maxsize=256)  # the requests of a client have the same names each time
def _are_any(names: tuple[str, ...]) -> bool:
    """Whether headers of these names may declare something."""
    return any(lower in _DECLARING or is_checksum(lower) for lower in (name.lower() for name in names))


def _trailer_names(headers: Headers) -> list[str]:
    value = single(headers, "x-amz-trailer")
    return [name.strip(" \t").lower() for name in value.strip(" \t").rstrip(",").split(",")] if value else []


def _checked_names(headers: list[str], trailers: list[str]) -> str | None:
    """The trailer, if there is one. Raises S3Error unless all names are known and there is at most one."""
    for name in (*headers, *trailers):
        if name.removeprefix(PREFIX) in KNOWN_ELSEWHERE:
            algorithm_of(name)  # raises NotImplemented
    for name in headers:
        if not is_checksum(name, computable=True):
            raise S3Error("InvalidRequest", "The algorithm type you specified in x-amz-checksum- header is invalid.")
    for name in trailers:
        if not is_checksum(name, computable=True):
            raise S3Error("InvalidRequest", "The value specified in the x-amz-trailer header is not supported")
    if len(headers) > 1 or len(trailers) > 1:
        raise S3Error("InvalidRequest", f"{_SINGLE_EXPECTED}. Multiple checksum Types are not allowed.")
    if headers and trailers:
        raise S3Error("InvalidRequest", _SINGLE_EXPECTED)
    return trailers[0] if trailers else None
