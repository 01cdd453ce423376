"""Who signed the request? SigV4 in the header or in a presigned URL, verified by botocore's signer.

https://docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-authenticating-requests.html. The signature of the head is
decided here; that of the body in harness.fake.payload, from the Proof.
"""

from calendar import timegm
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from email.utils import parsedate_to_datetime

from harness.fake.errors import Refusal
from harness.fake.s3_request import S3Request
from harness.reference_sigv4 import UNSIGNED, Secret, request_signature

SKEW = 900  # seconds either way
LONGEST = 604_800  # seconds a presigned URL may live
ALGORITHM = "AWS4-HMAC-SHA256"


@dataclass(frozen=True, slots=True)
class Proof:
    """A request whose head was signed by `secret`; what its body must now live up to."""

    secret: Secret
    timestamp: str
    signature: str
    payload: str


def _seconds(timestamp: str) -> int:
    try:
        return timegm(datetime.strptime(timestamp, "%Y%m%dT%H%M%SZ").timetuple())  # noqa: DTZ007  # Z is UTC, as timegm
    except ValueError:
        raise Refusal("AccessDenied", "AWS authentication requires a valid Date or x-amz-date header") from None


class Authority:
    def __init__(self, secrets: Iterable[Secret], clock: Callable[[], float]) -> None:
        self.secrets = {each.access: each for each in secrets}
        self._clock = clock

    def verify(self, s3_request: S3Request, pairs: list[tuple[str, str]]) -> Proof:
        """`pairs`: the headers as they came. Refusal: everything that is not a good signature."""
        header, presigned = s3_request.headers.get("Authorization"), "X-Amz-Algorithm" in s3_request.query
        if header is not None and presigned:
            raise Refusal("InvalidArgument", "Only one auth mechanism allowed")
        if header is not None:
            return self._header(s3_request, pairs, header)
        if presigned or "X-Amz-Signature" in s3_request.query:
            return self._presigned(s3_request, pairs)
        raise Refusal("AccessDenied", "Access Denied")

    def _secret(self, s3_request: S3Request, credential: str, code: str) -> tuple[Secret, str]:
        access, *scope = credential.rsplit("/", 4)
        if len(scope) != 4 or scope[2:] != ["s3", "aws4_request"]:
            raise Refusal(code, "The credential is malformed.")
        secret = self.secrets.get(access)
        if secret is None:
            raise Refusal(
                "InvalidAccessKeyId", "The AWS Access Key Id you provided does not exist in our records.",
                AWSAccessKeyId=access,
            )  # fmt: skip
        if scope[1] != secret.region:
            raise Refusal(code, f"The region '{scope[1]}' is wrong; expecting '{secret.region}'", Region=secret.region)
        if secret.token != (
            s3_request.headers.get("x-amz-security-token") or s3_request.query.get("X-Amz-Security-Token")
        ):
            raise Refusal("InvalidToken", "The provided token is malformed or otherwise invalid.")
        return secret, scope[0]

    def _header(self, s3_request: S3Request, pairs: list[tuple[str, str]], header: str) -> Proof:
        scheme, _, rest = header.partition(" ")
        fields = dict(each.strip().partition("=")[::2] for each in rest.split(","))
        if scheme != ALGORITHM or not {"Credential", "SignedHeaders", "Signature"} <= fields.keys():
            raise Refusal("AuthorizationHeaderMalformed", "The authorization header is malformed")
        secret, day = self._secret(s3_request, fields["Credential"], "AuthorizationHeaderMalformed")
        timestamp = s3_request.headers.get("x-amz-date")
        if timestamp is None:
            try:
                date = parsedate_to_datetime(s3_request.headers.get("Date", ""))
            except ValueError:
                raise Refusal("AccessDenied", "A valid Date or x-amz-date header is required") from None
            timestamp = date.strftime("%Y%m%dT%H%M%SZ")
        if abs(_seconds(timestamp) - self._clock()) > SKEW:
            raise Refusal(
                "RequestTimeTooSkewed",
                "The difference between the request time and the current time is too large.",
                RequestTime=timestamp,
                MaxAllowedSkewMilliseconds=SKEW * 1000,
            )
        if day != timestamp[:8]:
            raise Refusal("AuthorizationHeaderMalformed", "The date in the credential is not that of the request")
        payload = s3_request.headers.get("x-amz-content-sha256")
        if payload is None:
            raise Refusal("InvalidRequest", "Missing required header for this request: x-amz-content-sha256")
        signed = fields["SignedHeaders"].split(";")
        self._all_signed(s3_request, signed)
        expected = self._expected(secret, timestamp, s3_request, query=s3_request.raw_query, pairs=pairs, signed=signed)
        return self._compared(Proof(secret, timestamp, expected, payload), fields["Signature"])

    def _presigned(self, s3_request: S3Request, pairs: list[tuple[str, str]]) -> Proof:
        code, query = "AuthorizationQueryParametersError", s3_request.query
        needed = ("X-Amz-Credential", "X-Amz-Date", "X-Amz-Expires", "X-Amz-SignedHeaders", "X-Amz-Signature")
        if query.get("X-Amz-Algorithm") != ALGORITHM or not all(name in query for name in needed):
            raise Refusal(code, "A presigned URL needs all five X-Amz parameters and AWS4-HMAC-SHA256")
        secret, day = self._secret(s3_request, query["X-Amz-Credential"], code)
        timestamp, expires = query["X-Amz-Date"], query["X-Amz-Expires"]
        if not expires.isdecimal() or not 0 < int(expires) <= LONGEST or day != timestamp[:8]:
            raise Refusal(code, "X-Amz-Expires must be between 1 and 604800, X-Amz-Date of the credential's day")
        born, now = _seconds(timestamp), self._clock()
        if born > now + SKEW:
            raise Refusal("AccessDenied", "Request is not valid yet")
        if now > born + int(expires):
            raise Refusal("AccessDenied", "Request has expired", Expires=expires)
        signed = query["X-Amz-SignedHeaders"].split(";")
        self._all_signed(s3_request, signed)
        raw = "&".join(each for each in s3_request.raw_query.split("&") if not each.startswith("X-Amz-Signature="))
        expected = self._expected(secret, timestamp, s3_request, query=raw, pairs=pairs, signed=signed)
        payload = s3_request.headers.get("x-amz-content-sha256", UNSIGNED)
        return self._compared(Proof(secret, timestamp, expected, payload), query["X-Amz-Signature"])

    @staticmethod
    def _expected(
        secret: Secret,
        timestamp: str,
        s3_request: S3Request,
        *,
        query: str,
        pairs: list[tuple[str, str]],
        signed: list[str],
    ) -> str:
        return request_signature(
            secret,
            timestamp,
            method=s3_request.method,
            raw_path=s3_request.raw_path,
            raw_query=query,
            headers=pairs,
            signed=frozenset(signed),
        )

    @staticmethod
    def _all_signed(s3_request: S3Request, signed: list[str]) -> None:
        must = {"host"} | {name.lower() for name in s3_request.headers if name.lower().startswith("x-amz-")}
        if forgotten := sorted(must - set(signed)):
            raise Refusal(
                "AccessDenied", "There were headers present in the request which were not signed",
                HeadersNotSigned=", ".join(forgotten),
            )  # fmt: skip

    @staticmethod
    def _compared(proof: Proof, given: str) -> Proof:
        if proof.signature != given:
            raise Refusal(
                "SignatureDoesNotMatch",
                "The request signature we calculated does not match the signature you provided.",
                AWSAccessKeyId=proof.secret.access,
                SignatureProvided=given,
            )
        return proof
