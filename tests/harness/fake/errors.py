"""The errors of the fake: S3's error codes, their statuses and their document.

After https://docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html, and on purpose not after
forebay.core.errors: a status that is wrong there should be seen against a second list.
"""

from typing import Final
from xml.sax.saxutils import escape

STATUSES: Final[dict[str, int]] = {
    "AccessDenied": 403,
    "AuthorizationHeaderMalformed": 400,
    "AuthorizationQueryParametersError": 400,
    "BadDigest": 400,
    "BucketAlreadyOwnedByYou": 409,
    "BucketNotEmpty": 409,
    "EntityTooSmall": 400,
    "IncompleteBody": 400,
    "InternalError": 500,
    "InvalidAccessKeyId": 403,
    "InvalidArgument": 400,
    "InvalidBucketName": 400,
    "InvalidDigest": 400,
    "InvalidPart": 400,
    "InvalidPartNumber": 416,
    "InvalidPartOrder": 400,
    "InvalidRange": 416,
    "InvalidRequest": 400,
    "InvalidToken": 400,
    "KeyTooLongError": 400,
    "MalformedTrailerError": 400,
    "MalformedXML": 400,
    "MethodNotAllowed": 405,
    "MissingContentLength": 411,
    "MissingRequestBodyError": 400,
    "NoSuchBucket": 404,
    "NoSuchKey": 404,
    "NoSuchCORSConfiguration": 404,
    "NoSuchTagSet": 404,
    "NoSuchUpload": 404,
    "NoSuchVersion": 404,
    "NotImplemented": 501,
    "PermanentRedirect": 301,
    "PreconditionFailed": 412,
    "RequestTimeTooSkewed": 403,
    "ServiceUnavailable": 503,
    "SignatureDoesNotMatch": 403,
    "SlowDown": 503,
    "TemporaryRedirect": 307,
    "XAmzContentSHA256Mismatch": 400,
    # Of OSS alone (harness.oss): https://www.alibabacloud.com/help/en/oss/support/http-status-code-1
    "FileAlreadyExists": 409,
    "InvalidObjectName": 400,
    "InvalidSecurityToken": 403,
    "MissingArgument": 400,
    "NotModified": 304,
    "SecondLevelDomainForbidden": 403,
}


class Refusal(Exception):
    """An error answer. `elements` are added to the document, `headers` to the head."""

    def __init__(
        self, code: str, message: str = "", headers: tuple[tuple[str, str], ...] = (), **elements: str | int
    ) -> None:
        self.code, self.message, self.headers, self.elements = code, message or code, headers, elements
        self.status = STATUSES[code]
        super().__init__(f"{code}: {self.message}")


def error_document(code: str, message: str, resource: str, **elements: str | int) -> bytes:
    """S3's error document; it has no namespace."""
    said: dict[str, str | int] = {"Code": code, "Message": message, **elements, "Resource": resource}
    said |= {"RequestId": "FAKE", "HostId": "fake"}
    inner = "".join(f"<{name}>{escape(str(value))}</{name}>" for name, value in said.items())
    return f'<?xml version="1.0" encoding="UTF-8"?>\n<Error>{inner}</Error>'.encode()
