"""Everything that can go wrong, as a tree.

    ForebayError
    ├── S3Error              an answer to the client, in S3's form: code, status, message
    ├── SettingsError        a configuration that is refused: where, what was given, what is allowed
    ├── OriginError          the origin could not be read
    │   ├── OriginUnreachable    no connection, no answer in time, or the breaker is open
    │   ├── OriginBroken         an answer that is not what was asked for, or ended early
    │   ├── OriginUnfit          a success that nothing may be cached of: the request is to be passed on
    │   ├── OriginRefused        the origin's own refusal of a fetch, to be passed on as it told it
    │   └── VersionChanged       the version that was pinned is no longer the current one
    └── Throttled            the memory budget or a limit is used up; the client is told to slow down

A tier never raises: a broken cache is a miss (see forebay.storage).
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from forebay.core.heads import HeaderPairs

# Code -> (HTTP status, default message). The codes and statuses are those of
# https://docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html. The messages are ours, but for those about the
# body of an upload: there clients and conformance suites know S3's own.
S3_CODES: Final[Mapping[str, tuple[int, str]]] = MappingProxyType(
    {
        "AccessDenied": (403, "Access denied."),
        "AccessForbidden": (403, "No other site may ask."),
        "AuthorizationHeaderMalformed": (400, "The Authorization header is malformed."),
        "AuthorizationQueryParametersError": (400, "The query parameters of the presigned URL are malformed."),
        "BadDigest": (400, "The Content-MD5 you specified did not match what we received."),
        "BadRequest": (400, "The request could not be understood."),
        "EntityTooLarge": (400, "The body is larger than is allowed."),
        "EntityTooSmall": (400, "The body is smaller than is allowed."),
        "ExpiredToken": (400, "The security token has expired."),
        "IncompleteBody": (400, "The request body terminated unexpectedly"),
        "InternalError": (500, "Forebay failed; the reason is in its log. Please try again."),
        "InvalidAccessKeyId": (403, "The access key does not exist here."),
        "InvalidArgument": (400, "An argument is invalid."),
        "InvalidBucketName": (400, "The bucket name is not valid."),
        "InvalidChunkSizeError": (403, "Only the last chunk is allowed to have a size less than 8192 bytes"),
        "InvalidDigest": (400, "The Content-MD5 you specified was invalid."),
        "InvalidPart": (400, "A part is not the one that was uploaded last under its number."),
        "InvalidPolicyDocument": (400, "The policy document of the form is not valid."),
        "InvalidRange": (416, "The requested range can't be satisfied."),
        "InvalidRequest": (400, "The request is not valid."),
        "InvalidTag": (400, "A tag is not valid."),
        "InvalidToken": (400, "The security token is not valid here."),
        "InvalidURI": (400, "The URI could not be parsed."),
        "KeyTooLongError": (400, "The key is too long."),
        "MalformedPOSTRequest": (400, "The body is not well-formed multipart/form-data."),
        "MalformedTrailerError": (
            400,
            "The request contained trailing data that was not well-formed or did not conform to our published schema.",
        ),
        "MalformedXML": (400, "The XML is not well-formed or not of the expected form."),
        "MaxMessageLengthExceeded": (400, "The request is too long."),
        "MaxPostPreDataLengthExceeded": (400, "The fields of the form before the file are too large."),
        "MethodNotAllowed": (405, "The method is not allowed on this resource."),
        "MissingContentLength": (411, "You must provide the Content-Length HTTP header."),
        "MissingRequestBodyError": (400, "Request body is empty."),
        "NoSuchKey": (404, "The key does not exist."),
        "NoSuchUpload": (404, "The upload does not exist, or was completed or aborted."),
        "NotImplemented": (501, "This is not implemented by Forebay."),
        "PreconditionFailed": (412, "A precondition that was given did not hold."),
        "RequestHeaderSectionTooLarge": (400, "The headers are larger than is allowed."),
        "RequestTimeout": (400, "The request was not received in time."),
        "RequestTimeTooSkewed": (403, "The clock of the client is too far from that of Forebay."),
        "ServiceUnavailable": (503, "The origin can't be reached. Please try again."),
        "SignatureDoesNotMatch": (
            403,
            (
                "The request signature we calculated does not match the signature you provided. "
                "Check your key and signing method."
            ),
        ),
        "SlowDown": (503, "Please reduce the rate of requests."),
        "UserKeyMustBeSpecified": (400, "Each object must have a key."),
        "XAmzContentSHA256Mismatch": (
            400,
            "The provided 'x-amz-content-sha256' header does not match what was computed.",
        ),
    }
)


class ForebayError(Exception):
    """The root: catching it catches everything that Forebay itself raises."""


class S3Error(ForebayError):
    """An answer to the client. `code` is a key of S3_CODES, from which status and default message come.

    `details` become elements of the error document, as S3 adds e.g. `<Key>` or `<ArgumentName>`; they are shown to
    the client, so nothing secret goes there.
    """

    def __init__(self, code: str, message: str | None = None, **details: str) -> None:
        self.code = code
        self.status, default = S3_CODES[code]
        self.message = message if message is not None else default
        self.details = details
        super().__init__(f"{code}: {self.message}")


class SettingsError(ForebayError):
    """A configuration that is refused, whole. `where` is the key's path, e.g. `rules[2].freshness`."""

    def __init__(self, where: str, given: object, allowed: str) -> None:
        self.where, self.given, self.allowed = where, given, allowed
        got = "not given" if given is None else f"got {given!r}"
        super().__init__(f"{where}: {got}, allowed: {allowed}")


class OriginError(ForebayError):
    """The origin could not be read. `reason` is for the log, never for the client."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)


class OriginUnreachable(OriginError):
    """No connection, no answer in time, or the breaker is open."""


class OriginBroken(OriginError):
    """An answer that is not what was asked for: short, long, another range, not HTTP."""


class OriginUnfit(OriginError):
    """A success, but not of the bytes that were asked for, or not surely: the client may have it, the cache may not."""


class OriginRefused(OriginError):
    """The origin said no to a fetch that others wait for. Carries its answer, which is what they are told."""

    def __init__(self, status: int, headers: HeaderPairs, body: bytes) -> None:
        self.status, self.headers, self.body = status, headers, body
        super().__init__(f"the origin answered {status}")


class VersionChanged(OriginError):
    """The pinned version is no longer the current one (412 to If-Match, or another ETag than the pinned one)."""


class Throttled(ForebayError):
    """A limit with a reason: the memory budget, connections, origin concurrency. Answered with 503 SlowDown."""
