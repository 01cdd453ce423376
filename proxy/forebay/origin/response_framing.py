"""Response framing: how the end of an origin's response is recognised, and the length that a 206 must have."""

from aiohttp import hdrs

from forebay.origin.http.transport_response import TransportResponse
from forebay.origin.origin_request import OriginRequest
from forebay.origin.partial_content import partial_length
from forebay.protocol.header_map import Headers


def has_end(response: TransportResponse) -> bool:
    """Whether the framing tells the end of the response from a broken connection."""
    headers = response.headers
    return hdrs.CONTENT_LENGTH in headers or hdrs.TRANSFER_ENCODING in headers or response.ended


def partial_body_length(request: OriginRequest, headers: Headers) -> int | None:
    """Returns the length of a 206's body, where the framing does not tell it. Raises OriginBroken for a response to
    another range."""
    requested = [value for name, value in request.headers if name.lower() == "range"]
    is_part = bool(request.query) and "partNumber" in dict(request.query)
    length = partial_length(",".join(requested) or None, headers, is_part=is_part)
    return None if hdrs.CONTENT_LENGTH in headers else length
