"""Errors in OSS's form: the document, its headers, and the codes that OSS has in place of S3's.

Whatever went wrong, at the gate, at the origin or on the way, comes as S3's status and document and is told anew here.
A HEAD has no body to tell it in: OSS repeats the document in `x-oss-err`, and by that alone SDKs know a missing bucket
from a missing object.

https://www.alibabacloud.com/help/en/oss/support/oss-error-responses
"""

from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from forebay.core.errors import S3_CODES, S3Error
from forebay.core.heads import HeaderPairs
from forebay.protocol.oss.oss_headers import storage_class
from forebay.protocol.xml.strict_parser import XMLRefused
from forebay.protocol.xml.xml_tree import Element, read_tree, write_tree

_MAX_SIZE: Final = 1 << 20
# Code of S3 -> code and status of OSS, where they differ.
_CODES: Final[Mapping[str, tuple[str, int]]] = MappingProxyType(
    {
        "AuthorizationQueryParametersError": ("InvalidArgument", 400),
        "BadDigest": ("InvalidDigest", 400),
        "BucketAlreadyOwnedByYou": ("BucketAlreadyExists", 409),
        "ExpiredToken": ("SecurityTokenExpired", 403),
        "InvalidToken": ("InvalidSecurityToken", 403),
        "KeyTooLongError": ("InvalidObjectName", 400),
        "NoSuchVersion": ("NoSuchVersion", 404),
    }
)
# What a status alone says, where the origin gave no document.
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
# Statuses of codes that an origin may hide in an answer with 200, beside those of S3_CODES.
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
# OSS's own numbers of what went wrong, where one is known; its documentation is found by them.
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
# Elements that are not repeated: they are told anew, or are about S3's servers.
_OWN: Final = frozenset({"Code", "Message", "RequestId", "HostId", "Resource", "Region", "kind"})
_RENAMED: Final[Mapping[str, str]] = MappingProxyType({"AWSAccessKeyId": "OSSAccessKeyId"})


@dataclass(frozen=True, slots=True)
class OssFailure:
    """What went wrong, in OSS's terms."""

    status: int
    code: str
    message: str
    details: tuple[tuple[str, str], ...] = ()


def to_oss_failure(
    status: int, body: bytes, *, bucket_is_there: bool = True, forbids_overwrite: bool = False
) -> OssFailure:
    """The failure that an answer of S3 tells of. `bucket_is_there`: for a 404 that does not say what is missing."""
    root = _error(body)
    code = root.told("Code") if root is not None else ""
    if not code:
        code = "NoSuchBucket" if status == 404 and not bucket_is_there else _BY_STATUS.get(status, "InternalError")
    message = root.told("Message") if root is not None else ""
    details = [(each.name, each.text) for each in root.children if each.name not in _OWN] if root is not None else []
    if forbids_overwrite and code == "PreconditionFailed":
        return file_already_exists()
    if status < 400:
        status = status_of(code)
    code, status = _CODES.get(code, (code, status))
    renamed = tuple((_RENAMED.get(name, name), _detail(name, text)) for name, text in details)
    return OssFailure(status, code, message or _MESSAGES.get(code) or f"The origin answered {status}.", renamed)


def failure_of_error(error: S3Error, *, forbids_overwrite: bool = False) -> OssFailure:
    """The failure that an error of Forebay's own is."""
    if forbids_overwrite and error.code == "PreconditionFailed":
        return file_already_exists()
    code, status = _CODES.get(error.code, (error.code, error.status))
    return OssFailure(
        status, code, error.message, tuple((_RENAMED.get(name, name), text) for name, text in error.details.items())
    )


def file_already_exists() -> OssFailure:
    """The answer to a write with x-oss-forbid-overwrite, of an object that exists."""
    return OssFailure(409, "FileAlreadyExists", "The object that is to be written exists, and may not be overwritten.")


def status_of(code: str) -> int:
    """The status of an error of S3; 500 for one that is not known."""
    known = S3_CODES.get(code)
    return known[0] if known is not None else _STATUSES.get(code, 500)


def error_response(failure: OssFailure, *, request_id: str, host: str, is_head: bool) -> tuple[HeaderPairs, bytes]:
    """Headers and document of an error. The request id is among the headers of every answer, so not here."""
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


def _error(body: bytes) -> Element | None:
    try:
        root = read_tree(body, max_size=_MAX_SIZE, max_elements=1000)
    except XMLRefused:
        return None
    return root if root.name == "Error" else None


def _detail(name: str, text: str) -> str:
    return storage_class(text) if name == "StorageClass" else text
