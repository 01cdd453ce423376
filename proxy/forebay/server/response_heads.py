"""Heads of responses, alike in both lanes: the fields of every response, and the interim response 100 (Continue)."""

import asyncio
from typing import Final

from multidict import CIMultiDict

from forebay.core.heads import HeaderPairs
from forebay.core.request_record import HOST_ID

SERVER_NAME: Final = "Forebay"
_CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"


def response_fields(headers: HeaderPairs, length: int | None, isolation: HeaderPairs) -> CIMultiDict[str]:
    """A response's headers with those of every response of ours. `length`: of its body, None if unknown. `isolation`:
    replaces the origin's headers of these names (request.admission.GatewayPolicy)."""
    fields = CIMultiDict(headers)
    if "x-oss-request-id" not in fields:  # OSS's responses have no second id
        fields.setdefault("x-amz-id-2", HOST_ID)
    fields.setdefault("Server", SERVER_NAME)
    for name, value in isolation:
        fields.popall(name, None)
        fields[name] = value
    if length is not None:
        fields["Content-Length"] = str(length)
    return fields


def write_continue(transport: asyncio.Transport | None) -> None:
    """Sends the interim response 100 (Continue), unless the connection has ended."""
    if transport is not None:
        transport.write(_CONTINUE)
