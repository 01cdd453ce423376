"""Refusals of a credential: which responses of an origin say that the signature, and not the request, is refused.

Pure. The origin verifies the signature before it looks at permissions, so AccessDenied, for ListBuckets as well, means
that the key was accepted. A response to a HEAD has no document; OSS alone puts it into a header.

https://docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html
https://www.alibabacloud.com/help/en/oss/support/http-status-code-1
"""

import binascii
import re
from base64 import b64decode
from dataclasses import dataclass
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Final

from forebay.core.errors import OriginCredentialFault
from forebay.protocol.header_map import Headers

SUSPECT_STATUSES: Final = frozenset({400, 401, 403})
"""The statuses of these refusals."""

REGION_REFUSAL: Final = "AuthorizationHeaderMalformed"
_SKEW_REFUSAL: Final = "RequestTimeTooSkewed"
REFUSALS: Final = frozenset(
    {
        REGION_REFUSAL,
        _SKEW_REFUSAL,
        "ExpiredToken",
        "InvalidAccessKeyId",
        "InvalidSecurityToken",
        "InvalidToken",
        "RequestExpired",
        "SecurityTokenExpired",
        "SignatureDoesNotMatch",
        "TokenRefreshRequired",
    }
)
"""The codes of a refused credential, S3's and OSS's."""

_NOT_THE_CLIENT: Final = "The fault lies between Forebay and the origin, not in this request's signature."

_CODE: Final = re.compile(rb"<Code>\s*(\w+)\s*</Code>")
_REGION: Final = re.compile(rb"<Region>\s*([\w-]{1,64})\s*</Region>")
# OSS's refusal of another region than the bucket's has no code of its own.
_OSS_REGION: Final = re.compile(rb"<Message>[^<]*\bsigning region\b[^<]*</Message>", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class CredentialRefusal:
    """A credential was refused."""

    code: str
    """One of REFUSALS."""
    expected_region: str | None = None
    """The region that the origin expects, where it says so."""
    date: datetime | None = None
    """The origin's clock."""

    def explain(self, region: str, now: float) -> str:
        """Returns the code, and the fault if the origin named it. `region`: of the signature. `now`: Forebay's
        clock."""
        if self.code == REGION_REFUSAL and self.expected_region not in {None, region}:
            return f"{self.code} (origin.region is {region}, the origin expects {self.expected_region})"
        if self.code == REGION_REFUSAL and self.expected_region is None:
            return f"{self.code} (origin.region is {region})"
        if self.code == _SKEW_REFUSAL and self.date is not None:
            ahead = now - self.date.timestamp()
            where = "ahead of" if ahead > 0 else "behind"
            return f"{self.code} (Forebay's clock is {abs(ahead):.0f} s {where} the origin's)"
        return self.code


def refusal_in(headers: Headers, body: bytes) -> CredentialRefusal | None:
    """The refusal of a credential in a response with one of SUSPECT_STATUSES; None: it says something else."""
    document = body or _document_of_head(headers)
    found = _CODE.search(document)
    code = found[1].decode() if found is not None else ""
    if code == "InvalidArgument" and _OSS_REGION.search(document):
        code = REGION_REFUSAL
    if code not in REFUSALS:
        return None
    region = _REGION.search(document)
    return CredentialRefusal(code, region[1].decode() if region is not None else None, date_of(headers))


def refused_credential(refusal: CredentialRefusal, access_key: str, why: str, *, own: bool) -> OriginCredentialFault:
    """The fault of a request whose credential was refused. `why`: of `explain`. `own`: it is Forebay's own, and no
    principal's."""
    if own:
        return OriginCredentialFault(
            f"the origin refuses Forebay's key {access_key}: {why}",
            f"The origin refuses Forebay's own credential ({refusal.code}). {_NOT_THE_CLIENT}",
        )
    return OriginCredentialFault(
        f"the origin refuses {access_key}, the origin credential of a key of auth.keys: {why}",
        f"The origin refuses the credential that Forebay has for this access key ({refusal.code}). {_NOT_THE_CLIENT}",
    )


def missing_credential(reason: str) -> OriginCredentialFault:
    """The fault of a request that should be signed, without a key. `reason`: why there is none."""
    return OriginCredentialFault(
        f"Forebay has no credential for the origin: {reason}",
        f"Forebay has no credential for the origin. {_NOT_THE_CLIENT}",
    )


def date_of(headers: Headers) -> datetime | None:
    """The origin's clock, by the header Date."""
    try:
        return parsedate_to_datetime(headers.get("Date", ""))
    except ValueError:
        return None


def _document_of_head(headers: Headers) -> bytes:
    try:
        return b64decode(headers.get("x-oss-err", ""), validate=True)
    except (binascii.Error, ValueError):
        return b""
