"""Claims of Signature Version 2, which S3 clients still use for presigned URLs: parsed, not verified.

    Authorization: AWS <key>:<signature>               form "header", with a Date or x-amz-date
    ?AWSAccessKeyId=&Expires=&Signature=               form "query"; Expires is in seconds since the epoch

Verification is in forebay.protocol.signatures.sigv2. The caller, forebay.protocol.signatures.sigv4_claim, refuses
requests that are signed in two ways.

https://docs.aws.amazon.com/AmazonS3/latest/userguide/RESTAuthentication.html
"""

from typing import Final, Literal, NamedTuple

from forebay.core.errors import S3Error
from forebay.protocol.dates import epoch_seconds, timestamp_of_date_header
from forebay.protocol.header_map import Headers, single
from forebay.protocol.target import Target

SCHEME: Final = "AWS"
QUERY: Final = frozenset(("AWSAccessKeyId", "Expires", "Signature"))
"""The query names of a presigned URL."""
MARKS: Final = frozenset(("AWSAccessKeyId",))
"""The names that identify one, besides `Signature`, which OSS has, too; `Expires` alone identifies none."""

_TOKEN: Final = "x-amz-security-token"  # noqa: S105 # a header name
LATEST_EXPIRES: Final = 2**31 - 1  # in the year 2038, as at S3


class ClaimV2(NamedTuple):
    """The claim of a request. The repr omits signature and token: a presigned URL's signature is a credential."""

    access_key: str
    signature: str
    date: str
    """The date line of the signed text: `Expires` for a presigned URL, else `Date`, or empty if x-amz-date is sent."""
    moment: int
    """Seconds since the epoch: when a presigned URL expires, else when the request was signed."""
    form: Literal["header", "query"]
    security_token: str | None

    def __repr__(self) -> str:
        return f"ClaimV2({self.access_key!r}, {self.moment}, form={self.form!r})"


def read_header_v2(rest: str, headers: Headers) -> ClaimV2:
    """Parses an Authorization header; `rest` follows the scheme.

    Raises S3Error InvalidArgument, AccessDenied (no date).
    """
    access_key, _, signature = rest.strip(" \t").rpartition(":")
    if not access_key or not signature:
        message = "The Authorization header of Signature Version 2 is `AWS key:signature`."
        raise S3Error("InvalidArgument", message, ArgumentName="Authorization")
    amz_date, date = single(headers, "x-amz-date"), single(headers, "Date")
    try:
        moment = epoch_seconds(timestamp_of_date_header(amz_date if amz_date is not None else date or ""))
    except ValueError:
        raise S3Error("AccessDenied", "AWS authentication requires a valid Date or x-amz-date header") from None
    line = "" if amz_date is not None else date or ""
    return ClaimV2(access_key, signature, line, moment, "header", single(headers, _TOKEN))


def read_query_v2(target: Target, headers: Headers) -> ClaimV2:
    """Parses the query of a presigned URL. Raises S3Error AccessDenied."""
    found: dict[str, str] = {}
    for spelling, value in target.query:
        name = _TOKEN if spelling.lower() == _TOKEN else spelling
        if name in QUERY or name == _TOKEN:
            if name in found:
                raise S3Error("AccessDenied", f"{name} must be given once.")
            found[name] = value
    if not all(found.get(name) for name in QUERY):
        raise S3Error("AccessDenied", f"A presigned URL needs all of {', '.join(sorted(QUERY))}.")
    expires = found["Expires"]
    if not (expires.isascii() and expires.isdigit() and len(expires) <= 10 and int(expires) <= LATEST_EXPIRES):
        raise S3Error("AccessDenied", "Invalid date (should be seconds since epoch)")
    token = found.get(_TOKEN)
    return ClaimV2(
        found["AWSAccessKeyId"],
        found["Signature"],
        expires,
        int(expires),
        "query",
        token if token is not None else single(headers, _TOKEN),
    )
