"""Requests without a valid signature: every form of signature, wrong in every way.

Changes to single bytes of a signature are in security.mutants.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Final, NamedTuple
from urllib.parse import quote

from harness.aws_chunked import Framing
from harness.clients import RawRequest
from harness.reference_sigv4 import Secret
from security.oss_signers import OSS_SIGNERS
from security.required_grants import Sample
from security.signers import CHUNKED, ENDLESS, HOST, SIGNERS, Form, Signer, form_name

PAYLOADS: Final = (
    None,
    "UNSIGNED-PAYLOAD",
    *CHUNKED,
    "STREAMING-AWS4-ECDSA-P256-SHA256-PAYLOAD",
    "STREAMING-AWS4-ECDSA-P256-SHA256-PAYLOAD-TRAILER",
    "STREAMING-AWS4-HMAC-SHA256-EVENTS",
    "unsigned-payload",
    "0" * 64,
)
"""Values of x-amz-content-sha256; None is the body's own hash, or none where the form goes without."""
_DAY: Final = 86_400
_SCHEMES: Final = (
    *(
        "",
        " ",
        "AWS4-HMAC-SHA256",
        "AWS4-HMAC-SHA256 ",
        "AWS",
        "AWS :",
        "AWS trainer:",
        "Basic dHJhaW5lcjo=",
        "Bearer x",
    ),
    *(
        "AWS4-ECDSA-P256-SHA256 Credential=trainer/20270115/s3/aws4_request, SignedHeaders=host, Signature=00",
        "OSS a:b",
    ),
    "AWS4-HMAC-SHA256 Credential=trainer/20270115/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=",
    "AWS4-HMAC-SHA256 Credential=trainer, SignedHeaders=, Signature=",
    "OSS4-HMAC-SHA256 Credential=trainer/20270115/cn/oss/aliyun_v4_request,Signature=00",
)
_MARKS: Final = (
    *("X-Amz-Signature=", "X-Amz-Signature=0", "X-Amz-Algorithm=AWS4-HMAC-SHA256", "X-Amz-Credential=trainer"),
    *("Signature=", "AWSAccessKeyId=trainer", "AWSAccessKeyId=trainer&Expires=9999999999&Signature=", "Expires=9"),
    *("x-amz-signature=0", "Authorization=AWS%20trainer:x", "X-Amz-Security-Token=t", "OSSAccessKeyId=trainer"),
)
_TRUSTED: Final = (
    *(("X-Forwarded-For", "127.0.0.1"), ("X-Real-IP", "127.0.0.1"), ("Forwarded", "for=127.0.0.1"), ("Via", "1.1 a")),
    *(
        ("X-Amz-User", "trainer"),
        ("X-Remote-User", "trainer"),
        ("x-amz-security-token", "t"),
        ("Cookie", "key=trainer"),
    ),
    *(("X-HTTP-Method-Override", "GET"), ("X-Original-URL", "/"), ("x-forebay-lane", "fast"), ("Upgrade", "h2c")),
)


class UnauthenticatedRequest(NamedTuple):
    how: str
    request: RawRequest


def unsigned_request(sample: Sample, payload: str | None) -> RawRequest:
    """The sample, with nothing that says who sent it."""
    pairs, body = [("Host", HOST), *sample.pairs], sample.body
    if payload in CHUNKED:
        framing = Framing(payload)
        pairs += framing.headers(body)
        body = framing.frame(body, Secret("nobody", "nothing"), "20270115T080000Z", "0" * 64)
    if payload is not None:
        pairs.append(("x-amz-content-sha256", payload))
    if body or sample.method in {"PUT", "POST"}:
        pairs.append(("Content-Length", str(len(body))))
    return RawRequest(sample.method, sample.target, tuple(pairs), body)


def _queried(request: RawRequest, query: str) -> RawRequest:
    return replace(request, target=f"{request.target}{'&' if '?' in request.target else '?'}{query}")


def _unsigned(
    plain: RawRequest, schemes: Iterable[str], marks: Iterable[str], trusted: Iterable[tuple[str, str]]
) -> Iterator[UnauthenticatedRequest]:
    """No signature at all, or only what would go with one."""
    yield UnauthenticatedRequest("anonymous", plain)
    for scheme in schemes:
        yield UnauthenticatedRequest(
            f"scheme {scheme}", replace(plain, pairs=(*plain.pairs, ("Authorization", scheme)))
        )
    for mark in marks:
        yield UnauthenticatedRequest(f"query {mark}", _queried(plain, mark))
    for name, value in trusted:
        yield UnauthenticatedRequest(f"header {name}", replace(plain, pairs=(*plain.pairs, (name, value))))


def _badly_signed(
    signers: Mapping[Form, Signer], sample: Sample, payload: str | None, known: Secret, now: float
) -> Iterator[UnauthenticatedRequest]:
    for form, sign in signers.items():
        label = form_name(form)
        for how, secret, then in (
            ("unknown key", Secret("nobody", known.secret), now),
            ("wrong secret", replace(known, secret="wrong"), now),
            ("no secret", replace(known, secret=""), now),
            ("long ago", known, now - 30 * _DAY),
            ("from the future", known, now + _DAY),
        ):
            if how == "from the future" and form in ENDLESS:
                continue  # it says only when it ends
            yield UnauthenticatedRequest(f"{label} {how}", sign(secret, *sample[1:], then, payload))


def unauthenticated_requests(
    sample: Sample, payload: str | None, known: Secret, now: float
) -> Iterator[UnauthenticatedRequest]:
    """All of them. `known`: a key that exists, with its right secret."""
    plain = unsigned_request(sample, payload)
    yield from _unsigned(plain, _SCHEMES, _MARKS, _TRUSTED)
    yield from _badly_signed(SIGNERS, sample, payload, known, now)
    honest = SIGNERS["SignedV4", "header"](known, *sample[1:], now, payload)
    presigned = SIGNERS["SignedV4", "query"](known, *sample[1:], now, payload)
    authorization = dict(honest.pairs)["Authorization"]
    yield UnauthenticatedRequest("header and query", replace(honest, target=presigned.target))
    yield UnauthenticatedRequest(
        "header twice", replace(honest, pairs=(*honest.pairs, ("Authorization", authorization)))
    )
    moved = tuple(pair for pair in honest.pairs if pair[0] != "Authorization")
    for name in ("Proxy-Authorization", "X-Amz-Authorization", "X-Forwarded-Authorization", "Cookie", "Authorisation"):
        yield UnauthenticatedRequest(f"in {name}", replace(honest, pairs=(*moved, (name, authorization))))
    yield UnauthenticatedRequest(
        "in the query", _queried(replace(honest, pairs=moved), f"Authorization={quote(authorization)}")
    )
    query = presigned.target.partition("?")[2].split("&")
    fields = tuple(pair.split("=", 1) for pair in query if pair.startswith("X-Amz-"))
    as_headers = tuple((name, value) for name, value in fields)
    yield UnauthenticatedRequest("query as headers", replace(plain, pairs=(*plain.pairs, *as_headers)))


_OSS_SCHEMES: Final = (
    *("OSS", "OSS ", "OSS :", "OSS trainer:", "OSS trainer:AAAA", "OSS2 ", "OSS2 AccessKeyId:trainer,Signature:"),
    *("OSS2 AccessKeyId:trainer,Signature:AAAA", "OSS4-HMAC-SHA256", "OSS4-HMAC-SHA256 Credential=trainer"),
    *("OSS4-HMAC-SHA1 x", "OSS3 trainer:AAAA", "oss trainer:AAAA", "Bearer x"),
    "OSS4-HMAC-SHA256 Credential=trainer/20270115/cn-hangzhou/oss/aliyun_v4_request,Signature=",
    "OSS4-HMAC-SHA256 Credential=trainer/20270115/cn-hangzhou/oss/aliyun_v4_request,AdditionalHeaders=,Signature=00",
)
_OSS_MARKS: Final = (
    *("OSSAccessKeyId=trainer", "OSSAccessKeyId=trainer&Expires=9999999999&Signature=", "x-oss-signature=0"),
    *("OSSAccessKeyId=trainer&Expires=9999999999&Signature=AAAA", "x-oss-signature-version=OSS2", "x-oss-credential=t"),
    "x-oss-signature-version=OSS2&x-oss-access-key-id=trainer&x-oss-expires=9999999999&x-oss-signature=AAAA",
    *("x-oss-signature-version=OSS4-HMAC-SHA256", "security-token=t", "x-oss-security-token=t", "X-OSS-Signature=0"),
    "Authorization=OSS%20trainer:AAAA",
)
_OSS_TRUSTED: Final = (
    *(("x-oss-security-token", "t"), ("security-token", "t"), ("x-oss-access-key-id", "trainer"), ("x-oss-date", "t")),
    *(("x-oss-signature", "AAAA"), ("x-oss-credential", "trainer"), ("x-oss-content-sha256", "UNSIGNED-PAYLOAD")),
)


def unauthenticated_oss_requests(sample: Sample, known: Secret, now: float) -> Iterator[UnauthenticatedRequest]:
    """The same, in the dialect of OSS, and with the two dialects mixed."""
    plain = unsigned_request(sample, None)
    yield from _unsigned(plain, _OSS_SCHEMES, _OSS_MARKS, _OSS_TRUSTED)
    yield from _badly_signed(OSS_SIGNERS, sample, None, known, now)
    s3 = {form: sign(known, *sample[1:], now, None) for form, sign in SIGNERS.items()}
    for form, sign in OSS_SIGNERS.items():
        label, honest = form_name(form), sign(known, *sample[1:], now, None)
        for name, value in (("x-amz-copy-source", "bucket/source"), ("X-Amz-Acl", "public-read"), ("x-amz-date", "t")):
            yield UnauthenticatedRequest(f"{label} and {name}", replace(honest, pairs=(*honest.pairs, (name, value))))
        yield UnauthenticatedRequest(
            f"{label} and x-oss-acl", replace(honest, pairs=(*honest.pairs, ("x-oss-acl", "private")))
        )
        if form[1] == "header":
            authorization = dict(honest.pairs)["Authorization"]
            yield UnauthenticatedRequest(
                f"{label} twice", replace(honest, pairs=(*honest.pairs, ("Authorization", authorization)))
            )
            moved = tuple(pair for pair in honest.pairs if pair[0] != "Authorization")
            for name in ("Proxy-Authorization", "x-oss-authorization", "X-Amz-Authorization"):
                yield UnauthenticatedRequest(
                    f"{label} in {name}", replace(honest, pairs=(*moved, (name, authorization)))
                )
            for other in (each for each in s3 if each[1] == "query"):
                yield UnauthenticatedRequest(
                    f"{label} and {form_name(other)}", replace(honest, target=s3[other].target)
                )
        else:
            authorization = dict(s3["SignedV4", "header"].pairs)["Authorization"]
            mixed = replace(honest, pairs=(*honest.pairs, ("Authorization", authorization)))
            yield UnauthenticatedRequest(f"{label} and an Authorization of S3", mixed)
            for other in (each for each in s3 if each[1] == "query"):
                query = s3[other].target.partition("?")[2]
                yield UnauthenticatedRequest(f"{label} and {form_name(other)}", _queried(honest, query))
