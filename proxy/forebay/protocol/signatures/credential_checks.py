"""Checks that all signature versions share: access key, time of signing, session token.

https://docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html
"""

import re
from hmac import compare_digest
from typing import Final

from forebay.core.errors import S3Error
from forebay.protocol.dates import format_iso8601
from forebay.protocol.signatures.signing_key import SecretKey

MAX_SKEW: Final = 900  # seconds in both directions, S3's own bound

# Secrets in the signed text, which an error document must not contain.
_SECRET_LINE: Final = re.compile(r"^(x-amz-security-token|x-amz-[a-z-]*-customer-key):.*$", re.MULTILINE)


def check_key(claimed: str, secret: SecretKey) -> None:
    """Raises S3Error InvalidAccessKeyId if `secret` does not belong to the claimed access key."""
    if claimed != secret.access_key:
        raise S3Error("InvalidAccessKeyId")


def check_skew(signed_at: float, timestamp: str, now: float) -> None:
    """Raises S3Error RequestTimeTooSkewed if a request was signed too long ago, or too far in the future.

    `signed_at`, `now`: seconds since the epoch. `timestamp`: the time of signing, as in the request.
    """
    if abs(now - signed_at) > MAX_SKEW:
        raise S3Error(
            "RequestTimeTooSkewed",
            RequestTime=timestamp,
            ServerTime=format_iso8601(now),
            MaxAllowedSkewMilliseconds=str(MAX_SKEW * 1000),
        )


def check_expiry(expires: float, now: float) -> None:
    """Raises S3Error AccessDenied if a presigned URL has expired. Both times are in seconds since the epoch."""
    if now > expires:
        raise S3Error(
            "AccessDenied", "Request has expired", Expires=format_iso8601(expires), ServerTime=format_iso8601(now)
        )


def check_token(token: str | None, secret: SecretKey) -> None:
    """Raises S3Error unless the request's security token is that of the secret, or both have none.

    Call it only after the signature was verified.
    """
    if token is None:
        if secret.session_token is not None:
            # S3's error: without its token, a temporary key does not exist.
            raise S3Error("InvalidAccessKeyId")
    elif secret.session_token is None or not equals_in_constant_time(secret.session_token, token):
        raise S3Error("InvalidToken")


def equals_in_constant_time(expected: str, actual: str) -> bool:
    """Whether two texts are equal, in a time that does not depend on where they differ."""
    # As bytes: compare_digest accepts only ASCII in a str, and `actual` may be any text.
    return compare_digest(expected.encode("utf-8", "surrogateescape"), actual.encode("utf-8", "surrogateescape"))


def redact_signed_text(signed_text: str) -> str:
    """Returns the signed text for an error document, without the values of secret headers."""
    return _SECRET_LINE.sub(r"\1:...", signed_text)


def hex_bytes(text: str) -> str:
    """Returns the bytes of a text as S3's error documents show them: hexadecimal, separated by blanks."""
    return text.encode("utf-8", "surrogateescape").hex(" ")
