"""Error responses of S3 and OSS, as the client library's errors."""

from typing import Final

from forebay.core.errors import MalformedXml
from forebay.protocol.xml.xml_tree import read_tree
from forebay_client.client_errors import ClientError, error_of_response
from forebay_client.transport.object_request import ObjectRequest, ObjectResponse

_MAX_ELEMENTS: Final = 100
_MAX_SIZE: Final = 64 << 10
_REQUEST_IDS: Final = ("x-amz-request-id", "x-oss-request-id")
_REASONS: Final = {
    304: "the object has not changed",
    400: "the request is refused",
    403: "access is denied",
    404: "there is no such object or bucket",
    412: "the object is another than the request's condition names",
    416: "the range begins behind the end of the object",
}


def error_code(response: ObjectResponse) -> tuple[str, str]:
    """Code and message of an error document; both empty where there is none."""
    if not len(response.body):
        return "", ""
    try:
        tree = read_tree(bytes(response.body), max_size=_MAX_SIZE, max_elements=_MAX_ELEMENTS)
    except MalformedXml:
        return "", ""
    return tree.text_at("Code").strip(), tree.text_at("Message").strip()


def error_of(request: ObjectRequest, response: ObjectResponse) -> ClientError:
    """The error that a response means which is no success."""
    code, message = error_code(response)
    request_id = next((response.headers[name] for name in _REQUEST_IDS if name in response.headers), None)
    reason = message or _REASONS.get(response.status) or "the server failed"
    return error_of_response(response.status, code, reason, request.bucket, request.key, request_id)
