"""S3's error codes that Forebay sends: each with its HTTP status and the default message.

The codes and statuses are those of https://docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html. The messages
are ours, but for those about the body of an upload: there clients and conformance suites know S3's own.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

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
        "InvalidPartNumber": (416, "The object has no part of this number."),
        "InvalidPartOrder": (400, "The parts of a completion are listed in ascending order of their numbers."),
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
        "NoSuchBucket": (404, "The bucket does not exist."),
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
