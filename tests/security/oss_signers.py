"""Signers for every form of signature of the OSS dialect, sharing no code with Forebay.

    OSS_SIGNERS[version, form](secret, method, target, pairs, body, now, payload) -> RawRequest

As security.signers, whose table this is the other half of. Targets are path style, and signed decoded; `payload` is not
OSS's: there the body is never covered. The sub-resources that version 1 signs are those of the two SDKs,
https://github.com/aliyun/aliyun-oss-python-sdk/blob/master/oss2/auth.py and
https://github.com/aliyun/alibabacloud-oss-python-sdk-v2/blob/main/alibabacloud_oss_v2/signer/v1.py.
"""

import hmac
from base64 import b64encode
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import formatdate
from hashlib import sha256
from typing import Final
from urllib.parse import quote, unquote

from harness.clients import RawRequest
from harness.reference_sigv4 import Secret
from security.signers import EXPIRES, HOST, SIGNERS, Form, Pairs, Signer

REGION: Final = "cn-hangzhou"
_LISTED: Final = """
    MetaQuery accessPoint accessPointPolicy acl append asyncFetch bucketArchiveDirectRead bucketInfo callback
    callback-var cleanRestoredObject cloudboxes cname comp continuation-token cors dataPipeline delete encryption
    endTime group httpsConfig inventory inventoryId legalHold lifecycle link live location logging metaQuery
    metadataConfiguration metadataInventoryTable metadataJournalTable objectInfo objectMeta objectWorm
    overwriteConfig partNumber policy policyStatus position publicAccessBlock qos qosInfo qosRequester quota
    redundancyTransition referer regionList replication replicationLocation replicationProgress requestPayment
    requesterQosInfo resourceGroup resourcePool resourcePoolBuckets resourcePoolInfo response-cache-control
    response-content-disposition response-content-encoding response-content-language response-content-type
    response-expires restore retention rtc seal security-token sequential startTime stat status style styleName
    symlink tagging transferAcceleration uploadId uploads userDefinedLogFieldsConfig versionId versioning versions
    vod website worm wormExtend wormId x-oss-ac-forward-allow x-oss-ac-source-ip x-oss-ac-subnet-mask
    x-oss-ac-vpc-id x-oss-access-point-name x-oss-async-process x-oss-process x-oss-redundancy-transition-taskid
    x-oss-request-payer x-oss-target-redundancy-type x-oss-traffic-limit x-oss-write-get-object-response"""
SUB_RESOURCES: Final = frozenset(_LISTED.split())


def _length(method: str, body: bytes) -> list[tuple[str, str]]:
    return [("Content-Length", str(len(body)))] if body or method in {"PUT", "POST"} else []


def _decoded(target: str) -> tuple[str, list[tuple[str, str]]]:
    """`/bucket/key` and the query."""
    path, _, query = target.partition("?")
    bucket, slash, key = path[1:].partition("/")
    resource = f"/{unquote(bucket)}/{unquote(key)}" if bucket or slash else "/"
    pairs = [pair.replace("+", " ").partition("=") for pair in query.split("&") if pair]
    return resource, [(unquote(name), unquote(value)) for name, _, value in pairs]


def _joined(pairs: Pairs, encode: bool = True) -> str:
    coded = [(quote(name, safe=""), quote(value, safe="")) for name, value in pairs] if encode else pairs
    return "&".join(f"{name}={value}" if value else name for name, value in sorted(coded))


def _with_query(target: str, added: Pairs) -> str:
    return f"{target}{'&' if '?' in target else '?'}{_joined(added)}"


def _lower(pairs: Pairs) -> dict[str, str]:
    return {name.lower(): value.strip() for name, value in pairs}


def _lines(given: Mapping[str, str], names: Pairs | tuple[str, ...] = ()) -> str:
    return "".join(f"{name}:{given[name]}\n" for name in sorted(given) if name.startswith("x-oss-") or name in names)


def v1_signature(secret: Secret, method: str, target: str, pairs: Pairs, date: str) -> str:
    resource, query = _decoded(target)
    sub = _joined([pair for pair in query if pair[0] in SUB_RESOURCES], encode=False)
    given = _lower(pairs)
    head = "\n".join((method, given.get("content-md5", ""), given.get("content-type", ""), date))
    return _base64(secret, f"{head}\n{_lines(given)}{resource}{sub and '?' + sub}", "sha1")


def signed_by_v1(form: Form, secret: Secret, method: str, resource: str, target: str, now: float) -> RawRequest:
    """A request for `target` with the signature of another: of whatever has this signed resource."""
    date = formatdate(now, usegmt=True) if form[1] == "header" else str(int(now) + EXPIRES)
    signature = _base64(secret, f"{method}\n\n\n{date}\n{resource}", "sha1")
    if form[1] == "header":
        pairs = [("Date", date), ("Authorization", f"OSS {secret.access}:{signature}")]
        return _asked(method, target, pairs, b"")
    added = [("OSSAccessKeyId", secret.access), ("Expires", date), ("Signature", signature)]
    return _asked(method, _with_query(target, added), (), b"")


def v2_signature(secret: Secret, method: str, target: str, pairs: Pairs, date: str, additional: tuple[str, ...]) -> str:
    resource, query = _decoded(target)
    given = _lower(pairs)
    head = "\n".join((method, given.get("content-md5", ""), given.get("content-type", ""), date))
    whole = quote(resource, safe="") + (f"?{_joined(query)}" if query else "")
    return _base64(secret, f"{head}\n{_lines(given, additional)}{';'.join(additional)}\n{whole}", "sha256")


def v4_signature(
    secret: Secret, method: str, target: str, pairs: Pairs, stamp: str, additional: tuple[str, ...]
) -> str:
    resource, query = _decoded(target)
    names = (*additional, "content-type", "content-md5")
    lines = (method, quote(resource, safe="/"), _joined(query), _lines(_lower(pairs), names), ";".join(additional))
    digest = sha256("\n".join((*lines, "UNSIGNED-PAYLOAD")).encode()).hexdigest()
    text = f"OSS4-HMAC-SHA256\n{stamp}\n{_scope(stamp)}\n{digest}"
    key = f"aliyun_v4{secret.secret}".encode()
    for word in (*_scope(stamp).split("/"), text):
        key = hmac.digest(key, word.encode(), "sha256")
    return key.hex()


def _base64(secret: Secret, text: str, digest: str) -> str:
    return b64encode(hmac.digest(secret.secret.encode(), text.encode(), digest)).decode()


def _scope(stamp: str) -> str:
    return f"{stamp[:8]}/{REGION}/oss/aliyun_v4_request"


def _stamp(now: float) -> str:
    return f"{datetime.fromtimestamp(now, UTC):%Y%m%dT%H%M%SZ}"


def _token(secret: Secret, name: str) -> list[tuple[str, str]]:
    return [(name, secret.token)] if secret.token else []


def _additional(pairs: Pairs) -> tuple[str, ...]:
    return tuple(sorted({name.lower() for name, _ in pairs} & {"range", "if-match", "content-length"}))


def _asked(method: str, target: str, pairs: Pairs, body: bytes, *more: tuple[str, str]) -> RawRequest:
    return RawRequest(method, target, (("Host", HOST), *pairs, *_length(method, body), *more), body)


def v1_header(
    secret: Secret, method: str, target: str, pairs: Pairs, body: bytes, now: float, payload: str | None
) -> RawRequest:
    date = formatdate(now, usegmt=True)
    pairs = [*pairs, ("Date", date), *_token(secret, "x-oss-security-token")]
    signature = v1_signature(secret, method, target, pairs, date)
    return _asked(method, target, pairs, body, ("Authorization", f"OSS {secret.access}:{signature}"))


def v1_query(
    secret: Secret, method: str, target: str, pairs: Pairs, body: bytes, now: float, payload: str | None
) -> RawRequest:
    expires = str(int(now) + EXPIRES)
    token = _token(secret, "security-token")
    target = _with_query(target, token) if token else target
    signature = v1_signature(secret, method, target, pairs, expires)
    added = [("OSSAccessKeyId", secret.access), ("Expires", expires), ("Signature", signature)]
    return _asked(method, _with_query(target, added), pairs, body)


def v2_header(
    secret: Secret, method: str, target: str, pairs: Pairs, body: bytes, now: float, payload: str | None
) -> RawRequest:
    date = formatdate(now, usegmt=True)
    pairs = [*pairs, ("Date", date), *_token(secret, "x-oss-security-token")]
    additional = _additional(pairs)
    signature = v2_signature(secret, method, target, pairs, date, additional)
    named = f"AdditionalHeaders:{';'.join(additional)}," if additional else ""
    value = f"OSS2 AccessKeyId:{secret.access},{named}Signature:{signature}"
    return _asked(method, target, pairs, body, ("Authorization", value))


def v2_query(
    secret: Secret, method: str, target: str, pairs: Pairs, body: bytes, now: float, payload: str | None
) -> RawRequest:
    expires, additional = str(int(now) + EXPIRES), _additional(pairs)
    added = [("x-oss-signature-version", "OSS2"), ("x-oss-expires", expires), ("x-oss-access-key-id", secret.access)]
    added += [("x-oss-additional-headers", ";".join(additional))] if additional else []
    target = _with_query(target, [*added, *_token(secret, "security-token")])
    signature = v2_signature(secret, method, target, pairs, expires, additional)
    return _asked(method, _with_query(target, [("x-oss-signature", signature)]), pairs, body)


def v4_header(
    secret: Secret, method: str, target: str, pairs: Pairs, body: bytes, now: float, payload: str | None
) -> RawRequest:
    stamp = _stamp(now)
    pairs = [*pairs, ("x-oss-date", stamp), ("x-oss-content-sha256", "UNSIGNED-PAYLOAD")]
    pairs += _token(secret, "x-oss-security-token")
    additional = _additional(pairs)
    signature = v4_signature(secret, method, target, pairs, stamp, additional)
    named = f"AdditionalHeaders={';'.join(additional)}," if additional else ""
    value = f"OSS4-HMAC-SHA256 Credential={secret.access}/{_scope(stamp)},{named}Signature={signature}"
    return _asked(method, target, pairs, body, ("Authorization", value))


def v4_query(
    secret: Secret, method: str, target: str, pairs: Pairs, body: bytes, now: float, payload: str | None
) -> RawRequest:
    stamp, additional = _stamp(now), _additional(pairs)
    added = [
        ("x-oss-signature-version", "OSS4-HMAC-SHA256"),
        ("x-oss-credential", f"{secret.access}/{_scope(stamp)}"),
        ("x-oss-date", stamp),
        ("x-oss-expires", str(EXPIRES)),
    ]
    added += [("x-oss-additional-headers", ";".join(additional))] if additional else []
    target = _with_query(target, [*added, *_token(secret, "x-oss-security-token")])
    signature = v4_signature(secret, method, target, pairs, stamp, additional)
    return _asked(method, _with_query(target, [("x-oss-signature", signature)]), pairs, body)


OSS_SIGNERS: Final[Mapping[Form, Signer]] = {
    ("SignedOssV1", "header"): v1_header,
    ("SignedOssV1", "query"): v1_query,
    ("SignedOssV2", "header"): v2_header,
    ("SignedOssV2", "query"): v2_query,
    ("SignedOssV4", "header"): v4_header,
    ("SignedOssV4", "query"): v4_query,
}

ALL_SIGNERS: Final[Mapping[Form, Signer]] = {**SIGNERS, **OSS_SIGNERS}
"""Of both dialects."""
