"""Errors in both directions: S3's for an OSS client, an OSS origin's for S3.

Every error for an OSS client, the gateway's own and the origin's, arrives as S3's status and document and is rewritten
here. A HEAD has no body for a document: OSS repeats it in `x-oss-err`, base64, and by that alone SDKs know a missing
bucket from a missing object. An OSS origin's error of a HEAD needs no such care: its status says all that S3 says.

A code that both sides have is not changed. An OSS error keeps OSS's own fields (EC, which the vendor's support needs).

https://www.alibabacloud.com/help/en/oss/support/oss-error-responses
https://www.alibabacloud.com/help/en/oss/support/http-status-code-1
"""

from base64 import b64encode
from collections.abc import Mapping, Set
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from forebay.core.errors import MalformedXml, S3Error
from forebay.core.heads import HeaderPairs
from forebay.core.s3_codes import S3_CODES
from forebay.protocol.copy_source import COPY_SOURCE
from forebay.protocol.oss.oss_headers import STORAGE_CLASSES
from forebay.protocol.xml.xml_tree import Element, read_tree, write_tree

_MAX_SIZE: Final = 1 << 20
# S3's code -> OSS's code and status, the same error on both sides.
_SAME: Final[Mapping[str, tuple[str, int]]] = MappingProxyType(
    {
        "ExpiredToken": ("SecurityTokenExpired", 403),
        "InvalidToken": ("InvalidSecurityToken", 403),
    }
)
_TO_OSS: Final[Mapping[str, tuple[str, int]]] = MappingProxyType(
    {
        **_SAME,
        "AuthorizationQueryParametersError": ("InvalidArgument", 400),
        "BadDigest": ("InvalidDigest", 400),
        "BucketAlreadyOwnedByYou": ("BucketAlreadyExists", 409),
        "KeyTooLongError": ("InvalidObjectName", 400),
        "NoSuchVersion": ("NoSuchVersion", 404),
    }
)
# OSS's code -> S3's, whose status goes with it.
_TO_S3: Final[Mapping[str, str]] = MappingProxyType(
    {
        **{oss: s3 for s3, (oss, _) in _SAME.items()},
        "FileAlreadyExists": "PreconditionFailed",
        "FilePartNotExist": "InvalidPart",
        "InvalidObjectName": "InvalidArgument",
        **dict.fromkeys(
            (
                "DownloadTrafficRateLimitExceeded",
                "QpsLimitExceeded",
                "ServerBusy",
                "TotalQpsLimitExceeded",
                "UploadTrafficRateLimitExceeded",
            ),
            "SlowDown",
        ),
    }
)
# The code for a status that came without a document.
_BY_STATUS: Final[Mapping[int, str]] = MappingProxyType(
    {
        400: "InvalidArgument",
        401: "AccessDenied",
        403: "AccessDenied",
        404: "NoSuchKey",
        405: "MethodNotAllowed",
        409: "OperationAborted",
        411: "MissingContentLength",
        412: "PreconditionFailed",
        416: "InvalidRange",
        501: "NotImplemented",
        503: "ServiceUnavailable",
    }
)
# Statuses of codes, beside those of S3_CODES, that an origin may put into a response with 200.
_STATUSES: Final[Mapping[str, int]] = MappingProxyType(
    {
        "EntityTooSmall": 400,
        "InvalidPart": 400,
        "InvalidPartOrder": 400,
        "NoSuchBucket": 404,
        "NoSuchUpload": 404,
        "NoSuchVersion": 404,
        "OperationAborted": 409,
    }
)
# OSS's error numbers (EC), by which its documentation is found, where one is known.
_EC: Final[Mapping[str, str]] = MappingProxyType(
    {
        "AccessDenied": "0003-00000001",
        "InvalidAccessKeyId": "0002-00000902",
        "NoSuchBucket": "0015-00000101",
        "NoSuchKey": "0026-00000001",
        "SignatureDoesNotMatch": "0002-00000040",
    }
)
_MESSAGES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "AccessDenied": "The origin denies it.",
        "NoSuchBucket": "The bucket does not exist.",
        "NoSuchKey": "The object does not exist.",
        "PreconditionFailed": "A precondition that was given did not hold.",
    }
)
# Conditions on the source of a copy that ask whether it has changed.
_CHANGED: Final = frozenset({f"{COPY_SOURCE}-if-none-match", f"{COPY_SOURCE}-if-modified-since"})
# Elements that are written anew, or are about S3's servers.
_OWN: Final = frozenset({"Code", "Message", "RequestId", "HostId", "Resource", "Region", "kind"})
_RENAMED: Final[Mapping[str, str]] = MappingProxyType({"AWSAccessKeyId": "OSSAccessKeyId"})


@dataclass(frozen=True, slots=True)
class OssFailure:
    """An error in OSS's terms."""

    status: int
    code: str
    message: str
    details: tuple[tuple[str, str], ...] = ()


def to_oss_failure(
    status: int,
    body: bytes,
    *,
    bucket_is_there: bool = True,
    forbids_overwrite: bool = False,
    conditions: Set[str] = frozenset(),
) -> OssFailure:
    """Returns the error in a response of S3. `bucket_is_there`: for a 404 that does not name the missing resource.
    `conditions`: on the source of a copy, as S3's headers in lower case."""
    root = _error(body)
    code = root.text_at("Code") if root is not None else ""
    if not code:
        code = "NoSuchBucket" if status == 404 and not bucket_is_there else _BY_STATUS.get(status, "InternalError")
    message = root.text_at("Message") if root is not None else ""
    details = [(each.name, each.text) for each in root.children if each.name not in _OWN] if root is not None else []
    if code == "PreconditionFailed":
        if _source_is_unmodified(dict(details).get("Condition", ""), conditions):
            return not_modified()
        if forbids_overwrite:
            return file_already_exists()
    if status < 400:
        status = status_of(code)
    code, status = _TO_OSS.get(code, (code, status))
    renamed = tuple((_RENAMED.get(name, name), _detail(name, text)) for name, text in details)
    return OssFailure(status, code, message or _MESSAGES.get(code) or f"The origin answered {status}.", renamed)


def failure_of_error(
    error: S3Error, *, forbids_overwrite: bool = False, conditions: Set[str] = frozenset()
) -> OssFailure:
    """An error of Forebay's own, in OSS's terms."""
    if error.code == "PreconditionFailed":
        if _source_is_unmodified(error.details.get("Condition", ""), conditions):
            return not_modified()
        if forbids_overwrite:
            return file_already_exists()
    code, status = _TO_OSS.get(error.code, (error.code, error.status))
    return OssFailure(
        status, code, error.message, tuple((_RENAMED.get(name, name), text) for name, text in error.details.items())
    )


def _source_is_unmodified(condition: str, conditions: Set[str]) -> bool:
    """Whether a copy failed because its source has not changed. `condition`: the condition in the error, if it names
    one."""
    named = condition.lower()
    return named in _CHANGED if named in conditions else bool(conditions) and conditions <= _CHANGED


def not_modified() -> OssFailure:
    """Returns the 304 for a copy whose source has not changed, which S3 does not have."""
    return OssFailure(304, "NotModified", "The source has not been modified.")


def file_already_exists() -> OssFailure:
    """The error of a write with x-oss-forbid-overwrite to an object that exists."""
    return OssFailure(409, "FileAlreadyExists", "The object that is to be written exists, and may not be overwritten.")


def status_of(code: str) -> int:
    """The HTTP status of an S3 error code; 500 for an unknown one."""
    known = S3_CODES.get(code)
    return known[0] if known is not None else _STATUSES.get(code, 500)


def error_response(failure: OssFailure, *, request_id: str, host: str, is_head: bool) -> tuple[HeaderPairs, bytes]:
    """Headers and document of an error, without the request id, which every response has."""
    root = Element("Error")
    root.add("Code", failure.code)
    root.add("Message", failure.message)
    root.add("RequestId", request_id)
    root.add("HostId", host)
    for name, text in failure.details:
        root.add(name, text)
    number = _EC.get(failure.code)
    if number is not None:
        root.add("EC", number)
    document = write_tree(root)
    headers: list[tuple[str, str]] = [("Content-Type", "application/xml")]
    if number is not None:
        headers.append(("x-oss-ec", number))
    if is_head:
        headers.append(("x-oss-err", b64encode(document).decode()))
    return tuple(headers), document


def s3_error(status: int, body: bytes, *, copies: bool) -> tuple[int, bytes]:
    """S3's status and document for an OSS origin's error; no document if `body` can't be read.

    `copies`: of a condition on the source, for which S3 answers 412 where OSS answers 304.
    """
    if copies and status == 304:
        root = Element("Error")
        root.add("Code", "PreconditionFailed")
        root.add("Message", "A condition on the source does not hold.")
        root.add("Condition", f"{COPY_SOURCE}-If-None-Match")
        return 412, write_tree(root)
    error = _error(body)
    if error is None:
        return status, b""
    code = _TO_S3.get(error.text_at("Code"))
    if code is not None:
        status = status_of(code)
        for child in error.children:
            if child.name == "Code":
                child.text = code
    error.children = [child for child in error.children if child.name not in {"HostId", "RecommendDoc"}]
    return status, write_tree(error)


def _error(body: bytes) -> Element | None:
    try:
        root = read_tree(body, max_size=_MAX_SIZE, max_elements=1000)
    except MalformedXml:
        return None
    return root if root.name == "Error" else None


def _detail(name: str, text: str) -> str:
    return STORAGE_CLASSES.oss_response(text) if name == "StorageClass" else text
