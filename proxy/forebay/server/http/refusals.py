"""Refusals: the answers, in S3's form, to connections and to bytes that never became a request."""

from typing import Final

from aiohttp import web
from aiohttp.http_exceptions import BadHttpMethod, HttpProcessingError, LineTooLong

from forebay.core.errors import S3Error
from forebay.core.request_record import HOST_ID
from forebay.protocol.xml.s3_documents import error_document
from forebay.server.fastpath.prepared_response import REQUEST_ID
from forebay.server.response_heads import SERVER_NAME

_TOO_MANY_HEADERS: Final = "Too many headers received"
"""The message of an error of aiohttp, whose class stands for every bad request."""


def parse_error(exc: HttpProcessingError, max_headers: int) -> S3Error:
    """S3's error for bytes that aiohttp could not parse."""
    match exc:
        case LineTooLong():
            return S3Error("RequestHeaderSectionTooLarge")
        case HttpProcessingError() if exc.message == _TOO_MANY_HEADERS:
            return S3Error("RequestHeaderSectionTooLarge", f"The request has more than {max_headers} headers.")
        case BadHttpMethod() if "HTTPS" not in exc.message:  # a method that HTTP lacks, or in small letters
            return S3Error("MethodNotAllowed")
        case _:
            return S3Error("BadRequest", "The request is not well-formed HTTP.")


def refused_connection(error: S3Error, request_id: str) -> bytes:
    """The whole response to one connection too many."""
    document = error_document(error, request_id=request_id, host_id=HOST_ID)
    return (
        b"HTTP/1.1 503 Slow Down\r\nConnection: close\r\nContent-Type: application/xml\r\n"
        b"%b: %b\r\nContent-Length: %d\r\n\r\n%b" % (REQUEST_ID.encode(), request_id.encode(), len(document), document)
    )


def refused_request(error: S3Error, request_id: str) -> web.Response:
    """The response in place of aiohttp's own page. The connection ends with it."""
    response = web.Response(
        status=error.status,
        body=error_document(error, request_id=request_id, host_id=HOST_ID),
        content_type="application/xml",
        headers={REQUEST_ID: request_id, "Server": SERVER_NAME},
    )
    response.force_close()
    return response
