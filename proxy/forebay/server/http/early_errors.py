"""What is said of connections that are too many, and of what could not be parsed: neither became a request."""

from aiohttp import web
from aiohttp.http_exceptions import BadHttpMethod, HttpProcessingError, LineTooLong

from forebay.core.errors import S3Error
from forebay.protocol.xml.s3_documents import error_document
from forebay.server.fastpath.prepared_response import REQUEST_ID
from forebay.server.http.aiohttp_exchange import HOST_ID


def rejection(error: S3Error, request_id: str) -> bytes:
    """The whole answer to a connection for which there is no room."""
    document = error_document(error, request_id=request_id, host_id=HOST_ID)
    return (
        b"HTTP/1.1 503 Slow Down\r\nConnection: close\r\nContent-Type: application/xml\r\n"
        b"%b: %b\r\nContent-Length: %d\r\n\r\n%b" % (REQUEST_ID.encode(), request_id.encode(), len(document), document)
    )


def parse_error(exc: HttpProcessingError) -> S3Error:
    """What S3 would say of what aiohttp could not parse."""
    match exc:
        case LineTooLong():
            return S3Error("RequestHeaderSectionTooLarge")
        case BadHttpMethod() if "HTTPS" not in exc.message:  # one that HTTP has not, or in small letters
            return S3Error("MethodNotAllowed")
        case _:
            return S3Error("BadRequest", "The request is not well-formed HTTP.")


def error_response(error: S3Error, request_id: str) -> web.Response:
    """What aiohttp is to answer in place of its own page. The connection ends with it."""
    response = web.Response(
        status=error.status,
        body=error_document(error, request_id=request_id, host_id=HOST_ID),
        content_type="application/xml",
        headers={REQUEST_ID: request_id},
    )
    response.force_close()
    return response
