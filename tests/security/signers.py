"""Signers for every form of signature that Forebay accepts, sharing no code with Forebay.

    SIGNERS[version, form](secret, method, target, pairs, body, now, payload) -> RawRequest

`version` is a member of forebay.protocol.signatures.verified_signature.Signed and `form` one of its forms: a new form
has no signer here, and test_matrix fails until it gets one. Version 4 is botocore's; those of OSS are in
security.oss_signers; Version 2 is written after
https://docs.aws.amazon.com/AmazonS3/latest/userguide/RESTAuthentication.html.
"""

import hmac
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from email.utils import formatdate
from typing import Final, TypeAlias, get_args, get_type_hints
from urllib.parse import quote, unquote

from forebay.protocol.operation_table import SELECTORS
from forebay.protocol.signatures.verified_signature import Signed
from harness.aws_chunked import Framing
from harness.clients import RawClient, RawRequest
from harness.reference_sigv4 import SIGNED_CHUNKS, SIGNED_CHUNKS_TRAILER, UNSIGNED_CHUNKS_TRAILER, Secret

Pairs: TypeAlias = Sequence[tuple[str, str]]
Form: TypeAlias = tuple[str, str]
Signer: TypeAlias = Callable[[Secret, str, str, Pairs, bytes, float, str | None], RawRequest]

HOST: Final = "forebay.test:9000"
ENDPOINT: Final = f"http://{HOST}"
CHUNKED: Final = (SIGNED_CHUNKS, SIGNED_CHUNKS_TRAILER, UNSIGNED_CHUNKS_TRAILER)
EXPIRES: Final = 3600

_OVERRIDES: Final = (
    "cache-control", "content-disposition", "content-encoding", "content-language", "content-type", "expires"
)  # fmt: skip
# list-type selects, and is signed by nobody.
_SUB_RESOURCES: Final = (
    SELECTORS | {"partNumber", "select-type", "uploadId", "versionId"} | {f"response-{name}" for name in _OVERRIDES}
) - {"list-type"}


def known_forms() -> set[Form]:
    """The forms that Forebay says it takes."""
    found = set()
    for version in get_args(Signed):
        hints = get_type_hints(version)
        # One type for all versions of OSS, which says of which it is.
        names = [version.__name__ + each for each in (get_args(hints["version"]) if "version" in hints else ("",))]
        forms = get_args(hints["form"]) if "form" in hints else ("form",)
        found |= {(name, form) for name in names for form in forms}
    return found


def _length(method: str, body: bytes) -> list[tuple[str, str]]:
    return [("Content-Length", str(len(body)))] if body or method in {"PUT", "POST"} else []


def v4_header(
    secret: Secret, method: str, target: str, pairs: Pairs, body: bytes, now: float, payload: str | None
) -> RawRequest:
    client = RawClient(ENDPOINT, secret, clock=lambda: now)
    if payload in CHUNKED:
        return client.sign(method, target, pairs, body, framing=Framing(payload))
    return client.sign(method, target, pairs, body, payload=payload)


def v4_query(
    secret: Secret, method: str, target: str, pairs: Pairs, body: bytes, now: float, payload: str | None
) -> RawRequest:
    client = RawClient(ENDPOINT, secret, clock=lambda: now)
    pairs = [*pairs, ("x-amz-content-sha256", payload)] if payload is not None else pairs
    signed = client.presign(method, target, EXPIRES, pairs)
    return RawRequest(method, signed, (("Host", HOST), *pairs, *_length(method, body)), body)


def v2_text(method: str, target: str, pairs: Pairs, date: str) -> str:
    """What Version 2 signs, but for the query of a presigned URL."""
    path, _, query = target.partition("?")
    given = {name.lower(): value.strip() for name, value in pairs}
    amz = "".join(f"{name}:{value}\n" for name, value in sorted(given.items()) if name.startswith("x-amz-"))
    parts = sorted(
        pair.partition("=") for pair in query.split("&") if unquote(pair.partition("=")[0]) in _SUB_RESOURCES
    )
    sub = "&".join(name + (equals and f"={unquote(value)}") for name, equals, value in parts)
    head = "\n".join((method, given.get("content-md5", ""), given.get("content-type", ""), date))
    return f"{head}\n{amz}{path}{sub and '?' + sub}"


def v2_signature(secret: Secret, text: str) -> str:
    return b64encode(hmac.digest(secret.secret.encode(), text.encode(), "sha1")).decode()


def v2_header(
    secret: Secret, method: str, target: str, pairs: Pairs, body: bytes, now: float, payload: str | None
) -> RawRequest:
    date = formatdate(now, usegmt=True)
    pairs = [*pairs, ("x-amz-content-sha256", payload)] if payload is not None else list(pairs)
    pairs += [("x-amz-security-token", secret.token)] if secret.token else []
    signature = v2_signature(secret, v2_text(method, target, pairs, date))
    authorization = ("Authorization", f"AWS {secret.access}:{signature}")
    return RawRequest(
        method, target, (("Host", HOST), ("Date", date), *pairs, *_length(method, body), authorization), body
    )


def v2_query(
    secret: Secret, method: str, target: str, pairs: Pairs, body: bytes, now: float, payload: str | None
) -> RawRequest:
    expires = str(int(now) + EXPIRES)
    pairs = [*pairs, ("x-amz-content-sha256", payload)] if payload is not None else list(pairs)
    pairs += [("x-amz-security-token", secret.token)] if secret.token else []
    signature = v2_signature(secret, v2_text(method, target, pairs, expires))
    added = f"AWSAccessKeyId={quote(secret.access, safe='')}&Expires={expires}&Signature={quote(signature, safe='')}"
    signed = f"{target}{'&' if '?' in target else '?'}{added}"
    return RawRequest(method, signed, (("Host", HOST), *pairs, *_length(method, body)), body)


SIGNERS: Final[Mapping[Form, Signer]] = {
    ("SignedV4", "header"): v4_header,
    ("SignedV4", "query"): v4_query,
    ("SignedV2", "header"): v2_header,
    ("SignedV2", "query"): v2_query,
}


ENDLESS: Final = frozenset({("SignedV2", "query"), ("SignedOssV1", "query"), ("SignedOssV2", "query")})
"""Those that say only when they end, and so are good at any time before."""


def form_name(form: Form) -> str:
    """For the ids of tests."""
    return f"{form[0].removeprefix('Signed')}-{form[1]}"
