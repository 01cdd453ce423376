"""The one border where errors of aiohttp, of the operating system and of TLS become OriginErrors.

Between this package and the origin client they travel as a ConnectionFault: our error, and how far the request had
come: whether a connection was made, TLS included, and whether it was lost before a response.

The reasons are few and fixed, fit for a metric's label, and hold nothing of the request: aiohttp's own errors carry the
request's headers, so they are never chained to ours (`raise ... from None`).
"""

import asyncio
import errno
import socket
import ssl
from types import MappingProxyType
from typing import Final

import aiohttp

from forebay.core.errors import OriginBroken, OriginError, OriginUnreachable

TRANSPORT_ERRORS = (aiohttp.ClientError, OSError, ssl.SSLError, asyncio.TimeoutError)
"""The errors that a request may raise. TimeoutError is asyncio's too, and an OSError."""

# OpenSSL's X509_V_ERR_* (x509_vfy.h).
_CERTIFICATE_REASONS: Final = MappingProxyType(
    {
        9: "TLS certificate not valid yet",
        10: "TLS certificate expired",
        **dict.fromkeys((2, 18, 19, 20, 21), "TLS certificate of an unknown authority"),
        **dict.fromkeys((62, 64), "TLS certificate of another name"),
    }
)
# What OpenSSL makes of bytes that are no TLS record, e.g. of an HTTP response.
_NOT_TLS: Final = frozenset({"WRONG_VERSION_NUMBER", "HTTP_REQUEST", "PACKET_LENGTH_TOO_LONG", "RECORD_LAYER_FAILURE"})


def error_before_response(fault: BaseException) -> OriginError:
    """Our error for a request that ended without the head of a response."""
    match fault:
        case aiohttp.ConnectionTimeoutError():
            return OriginUnreachable(_connect_reason(fault))
        case aiohttp.ClientConnectorCertificateError():
            return OriginUnreachable(_connect_reason(fault.certificate_error))
        case aiohttp.ClientConnectorDNSError():
            return OriginUnreachable("name not resolved")
        case aiohttp.ClientConnectorError():
            return OriginUnreachable(_connect_reason(fault.os_error))
        case aiohttp.ServerDisconnectedError():
            return OriginUnreachable("disconnected before the answer")
        case aiohttp.ClientResponseError():
            return OriginBroken("the answer is not HTTP")
        case TimeoutError():
            return OriginUnreachable("no answer in time")
        case OSError():
            return OriginUnreachable(f"connection lost{_errno(fault)}")
        case _:
            return OriginUnreachable(f"no answer ({type(fault).__name__})")


def error_within_body(fault: BaseException) -> OriginError:
    """Our error for a body that could not be read on."""
    match fault:
        case TimeoutError():
            return OriginBroken("the body stalled")
        case aiohttp.ClientPayloadError():
            return OriginBroken("the body ended early")
        case OSError():
            return OriginBroken(f"connection lost within the body{_errno(fault)}")
        case _:
            return OriginBroken(f"the body could not be read ({type(fault).__name__})")


def is_connected(fault: BaseException) -> bool:
    """Whether the request had a connection, TLS included, when it failed without a response."""
    return not isinstance(fault, aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError)


def is_lost_connection(fault: BaseException) -> bool:
    """Whether an established connection broke before a response, as a stale kept-alive connection does."""
    return isinstance(fault, aiohttp.ServerDisconnectedError | aiohttp.ClientOSError) and not isinstance(
        fault, aiohttp.ClientConnectorError
    )


class ConnectionFault(Exception):
    """Carries `error` to the origin client, which counts and repeats requests.

    `connected`: the connection was made; what failed came after. `lost`: it broke before a response.
    """

    def __init__(self, error: OriginError, *, connected: bool = True, lost: bool = False) -> None:
        self.error = error
        self.connected = connected
        self.lost = lost
        super().__init__(str(error))


def connect_failed(fault: OSError) -> ConnectionFault:
    """The fault of an attempt to connect."""
    return ConnectionFault(OriginUnreachable(_connect_reason(fault)), connected=False)


def _connect_reason(fault: BaseException) -> str:
    """Why no connection was made, by name."""
    match fault:
        case ssl.SSLCertVerificationError():
            return _CERTIFICATE_REASONS.get(fault.verify_code, "TLS certificate not accepted")
        case ssl.SSLError():
            return "no TLS on this port" if fault.reason in _NOT_TLS else "TLS failed"
        case socket.gaierror():
            return "name not resolved"
        case TimeoutError():
            return "no connection in time"
        case ConnectionRefusedError():
            return "connection refused"
        case OSError():
            return f"no connection{_errno(fault)}"
        case _:
            return f"no connection ({type(fault).__name__})"


def connection_lost(fault: Exception | None, *, within: bool = False) -> ConnectionFault:
    """The fault of a connection that ended before a response, or `within` its body. `fault` None: it was closed
    properly."""
    if within:
        return ConnectionFault(OriginBroken("the body ended early"))
    if fault is None:
        return ConnectionFault(OriginUnreachable("disconnected before the answer"), lost=True)
    code = _errno(fault) if isinstance(fault, OSError) else ""
    return ConnectionFault(OriginUnreachable(f"connection lost{code}"), lost=True)


def response_timed_out() -> ConnectionFault:
    """The fault of a response whose head did not arrive in time."""
    return ConnectionFault(OriginUnreachable("no answer in time"))


def body_stalled() -> ConnectionFault:
    """The fault of a body that did not go on in time."""
    return ConnectionFault(OriginBroken("the body stalled"))


def malformed_response() -> ConnectionFault:
    """The fault of a response that is not HTTP/1.1."""
    return ConnectionFault(OriginBroken("the answer is not HTTP"))


def _errno(fault: OSError) -> str:
    return f" ({errno.errorcode.get(fault.errno, fault.errno)})" if fault.errno else ""
