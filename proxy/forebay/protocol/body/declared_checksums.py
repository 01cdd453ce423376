"""What the head of a request says of its body's integrity: which checksums, and whether one of them follows the body.

    content-md5                     beside anything else
    x-amz-checksum-<algorithm>      one, in the head or behind the body (then x-amz-trailer names it), not both
    x-amz-sdk-checksum-algorithm    of which kind that one is

What contradicts itself is refused before the body is read, in the order and the words of S3, as its own answers have
them: OpenStack Swift's test/s3api/test_input_errors.py holds both Swift and AWS to them.

https://docs.aws.amazon.com/AmazonS3/latest/userguide/checking-object-integrity.html
"""

from typing import Final, Literal, NamedTuple, TypeAlias

from forebay.core.errors import S3Error
from forebay.protocol.body.checksums import KNOWN_ELSEWHERE, PREFIX, ChecksumCheck, algorithm_of, decode, is_checksum
from forebay.protocol.header_map import Headers, single

Kind: TypeAlias = Literal["content", "document", "completion"]
"""What a body is: the bytes of an object or part; a document, whose digests S3 tells in another spelling; or the
document that completes an upload, beside which checksums speak of the object that comes into being."""

_ALGORITHM: Final = "x-amz-sdk-checksum-algorithm"
_ONE: Final = "Expecting a single x-amz-checksum- header"


class DeclaredChecksums(NamedTuple):
    """The checks that are to be made, the trailer's among them."""

    checks: list[ChecksumCheck]
    trailer: str | None
    """The lower-case name of the checksum that follows the body."""


def declared_checksums(headers: Headers, kind: Kind, *, trailing: bool) -> DeclaredChecksums:
    """What the headers announce. `trailing`: whether the body is in a form that can have a trailer.

    Raises S3Error InvalidDigest, InvalidRequest, MalformedTrailerError, NotImplemented.
    """
    checks = []
    md5 = single(headers, "content-md5")
    if md5 is not None:
        checks.append(ChecksumCheck("content-md5", decode("content-md5", md5), in_base64=kind != "content"))
    given = [(name.lower(), value) for name, value in headers.items() if is_checksum(name.lower())]
    trailer = _checked_names([name for name, _ in given], _trailer_names(headers))
    if trailer is not None and not trailing:
        raise S3Error("MalformedTrailerError")
    if kind == "completion":
        return DeclaredChecksums(checks, None)
    said = single(headers, _ALGORITHM)
    if said is not None and single(headers, "content-length") != "0":
        name = given[0][0] if given else trailer
        if name is None:
            message = (
                f"{_ALGORITHM} specified, but no corresponding x-amz-checksum-* or x-amz-trailer headers were found."
            )
            raise S3Error("InvalidRequest", message)
        if said.lower() != algorithm_of(name):
            raise S3Error("InvalidRequest", f"Value for {_ALGORITHM} header is invalid.")
    checks += [ChecksumCheck(name, decode(name, value.strip(" \t"))) for name, value in given]
    if trailer is not None:
        checks.append(ChecksumCheck(trailer))
    return DeclaredChecksums(checks, trailer)


def _trailer_names(headers: Headers) -> list[str]:
    value = single(headers, "x-amz-trailer")
    return [name.strip(" \t").lower() for name in value.strip(" \t").rstrip(",").split(",")] if value else []


def _checked_names(headers: list[str], trailers: list[str]) -> str | None:
    """The one trailer, if there is one. Raises S3Error unless all names are known, and at most one was given."""
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
        raise S3Error("InvalidRequest", f"{_ONE}. Multiple checksum Types are not allowed.")
    if headers and trailers:
        raise S3Error("InvalidRequest", _ONE)
    return trailers[0] if trailers else None
