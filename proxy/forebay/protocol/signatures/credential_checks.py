"""What every form of signature is held to: whose key it is, when it was made, which token goes with it.

https://docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html
"""

import re
from hmac import compare_digest
from typing import Final

from forebay.core.errors import S3Error
from forebay.protocol.dates import format_iso8601
from forebay.protocol.signatures.signing_key import SecretKey

MAX_SKEW: Final = 900  # seconds either way, S3's own bound

# What is signed in the clear, and must not be told in an error document.
_SECRET_LINE: Final = re.compile(r"^(x-amz-security-token|x-amz-[a-z-]*-customer-key):.*$", re.MULTILINE)


def check_key(claimed: str, secret: SecretKey) -> None:
    """Raises S3Error if the secret is not that of the access key that was claimed."""
    if claimed != secret.access_key:
        raise S3Error("InvalidAccessKeyId")


def check_skew(signed_at: float, timestamp: str, now: float) -> None:
    """Raises S3Error if a header's signature is too old, or too far ahead. `said`: the time as it was given."""
    if abs(now - signed_at) > MAX_SKEW:
        raise S3Error(
            "RequestTimeTooSkewed",
            RequestTime=timestamp,
            ServerTime=format_iso8601(now),
            MaxAllowedSkewMilliseconds=str(MAX_SKEW * 1000),
        )


def check_expiry(expires: float, now: float) -> None:
    """Raises S3Error if a presigned URL has expired."""
    if now > expires:
        raise S3Error(
            "AccessDenied", "Request has expired", Expires=format_iso8601(expires), ServerTime=format_iso8601(now)
        )


def check_token(token: str | None, secret: SecretKey) -> None:
    """Raises S3Error unless the security token that was given is that of the secret, or neither has one. To be asked
    only once the signature was right."""
    if token is None:
        if secret.session_token is not None:
            # What S3 answers: without its token, a temporary key does not exist.
            raise S3Error("InvalidAccessKeyId")
    elif secret.session_token is None or not equals_in_constant_time(secret.session_token, token):
        raise S3Error("InvalidToken")


def equals_in_constant_time(expected: str, actual: str) -> bool:
    """Whether two texts are equal, in a time that does not tell where they differ."""
    # As bytes: compare_digest takes only ASCII in a str, and `given` is whatever was sent.
    return compare_digest(expected.encode("utf-8", "surrogateescape"), actual.encode("utf-8", "surrogateescape"))


def redact_signed_text(signed_text: str) -> str:
    """The headers of what was signed, fit for an error document."""
    return _SECRET_LINE.sub(r"\1:...", signed_text)


def hex_bytes(text: str) -> str:
    """As S3 shows the bytes of what was to be signed."""
    return text.encode("utf-8", "surrogateescape").hex(" ")
