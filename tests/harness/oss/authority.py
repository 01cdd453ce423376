"""Who signed? OSS's signature version 4 in the header, computed here once more from the documentation and from the
published vectors, sharing nothing with Forebay.

https://www.alibabacloud.com/help/en/oss/developer-reference/recommend-to-use-signature-version-4
"""

import hashlib
import hmac
import re
from calendar import timegm
from collections.abc import Callable, Mapping
from datetime import datetime
from urllib.parse import quote

from harness.fake.errors import Refusal
from harness.oss.oss_request import OssRequest
from harness.reference_sigv4 import Secret

SKEW = 900
_FIELD = re.compile(r"\s*(Credential|AdditionalHeaders|Signature)=([^,\s]*)\s*")


def signature(secret: Secret, timestamp: str, s3_request: OssRequest, additional: list[str]) -> str:
    """The signature that `secret` would have given."""
    resource = "/" if s3_request.bucket is None else f"/{s3_request.bucket}/{s3_request.key or ''}"
    signed = {
        name.lower(): value.strip()
        for name, value in s3_request.sent.items()
        if name.lower().startswith("x-oss-") or name.lower() in {"content-type", "content-md5", *additional}
    }
    request = "\n".join(
        (
            s3_request.method,
            quote(resource, safe="/~"),
            _query(s3_request.query),
            "".join(f"{name}:{value}\n" for name, value in sorted(signed.items())),
            ";".join(sorted(additional)),
            s3_request.sent.get("x-oss-content-sha256", ""),
        )
    )
    scope = f"{timestamp[:8]}/{secret.region}/oss/aliyun_v4_request"
    text = f"OSS4-HMAC-SHA256\n{timestamp}\n{scope}\n{hashlib.sha256(request.encode()).hexdigest()}"
    key = f"aliyun_v4{secret.secret}".encode()
    for word in scope.split("/"):
        key = hmac.new(key, word.encode(), hashlib.sha256).digest()
    return hmac.new(key, text.encode(), hashlib.sha256).hexdigest()


def _query(query: Mapping[str, str]) -> str:
    pairs = sorted((quote(name, safe="~"), quote(value, safe="~")) for name, value in query.items())
    return "&".join(name if value == "" else f"{name}={value}" for name, value in pairs)


class OssAuthority:
    def __init__(self, secrets: Mapping[str, Secret], clock: Callable[[], float]) -> None:
        self._secrets, self._clock = secrets, clock

    def verify(self, s3_request: OssRequest) -> None:
        """Refusal: everything that is not a good signature."""
        header = s3_request.sent.get("Authorization")
        if header is None:
            raise Refusal("AccessDenied", "You have no right to access this object because of bucket acl.")
        scheme, _, rest = header.partition(" ")
        if scheme != "OSS4-HMAC-SHA256":
            raise Refusal("InvalidArgument", "Only signature version 4 is taken here.")
        fields = {}
        for part in rest.split(","):
            found = _FIELD.fullmatch(part)
            if found is None:
                raise Refusal("InvalidArgument", "The authorization header is malformed.")
            fields[found[1]] = found[2]
        access, *scope = fields.get("Credential", "").split("/")
        secret = self._secrets.get(access)
        if secret is None:
            raise Refusal("InvalidAccessKeyId", "The OSS Access Key Id you provided does not exist in our records.")
        timestamp = s3_request.sent.get("x-oss-date", "")
        try:
            asked_at = timegm(datetime.strptime(timestamp, "%Y%m%dT%H%M%SZ").timetuple())  # noqa: DTZ007  # Z is UTC
        except ValueError:
            raise Refusal("AccessDenied", "OSS authentication requires a valid x-oss-date.") from None
        if abs(asked_at - self._clock()) > SKEW:
            raise Refusal("RequestTimeTooSkewed", "The difference between the request time and ours is too large.")
        if scope != [timestamp[:8], secret.region, "oss", "aliyun_v4_request"]:
            raise Refusal("InvalidArgument", f"Invalid signing region, date or product in {scope}.")
        if s3_request.sent.get("x-oss-content-sha256") != "UNSIGNED-PAYLOAD":
            raise Refusal("InvalidArgument", "x-oss-content-sha256 must be UNSIGNED-PAYLOAD.")
        if s3_request.sent.get("x-oss-security-token") != secret.token:
            raise Refusal("InvalidSecurityToken", "The security token you provided is invalid.")
        additional = [name.lower() for name in fields.get("AdditionalHeaders", "").split(";") if name]
        if any(name not in s3_request.sent for name in additional):
            raise Refusal("InvalidArgument", "An additional header is not there.")
        if not hmac.compare_digest(fields.get("Signature", ""), signature(secret, timestamp, s3_request, additional)):
            raise Refusal("SignatureDoesNotMatch", "The request signature we calculated does not match yours.")
