"""The one border where errors of aiohttp, of the operating system and of TLS become OriginErrors.

Between this package and the origin client they travel as a ConnectionFault: our error, and whether an established
connection was lost before a response.

The reasons are few and fixed, fit for a metric's label, and hold nothing of the request: aiohttp's own errors carry the
request's headers, so they are never chained to ours (`raise ... from None`).
"""

import asyncio
import errno
import socket
import ssl

import aiohttp

from forebay.core.errors import OriginBroken, OriginError, OriginUnreachable

TRANSPORT_ERRORS = (aiohttp.ClientError, OSError, ssl.SSLError, asyncio.TimeoutError)
"""The errors that a request may raise. TimeoutError is asyncio's too, and an OSError."""


def error_before_response(fault: BaseException) -> OriginError:
    """Our error for a request that ended without the head of a response."""
    match fault:
        case aiohttp.ConnectionTimeoutError():
            return OriginUnreachable("no connection in time")
        case aiohttp.ClientConnectorCertificateError():
            return OriginUnreachable("TLS certificate not accepted")
        case aiohttp.ClientConnectorSSLError() | ssl.SSLError():
            return OriginUnreachable("TLS failed")
        case aiohttp.ClientConnectorDNSError():
            return OriginUnreachable("name not resolved")
        case aiohttp.ClientConnectorError():
            return OriginUnreachable(f"no connection{_errno(fault)}")
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


def is_lost_connection(fault: BaseException) -> bool:
    """Whether an established connection broke before a response, as a stale kept-alive connection does."""
    return isinstance(fault, aiohttp.ServerDisconnectedError | aiohttp.ClientOSError) and not isinstance(
        fault, aiohttp.ClientConnectorError
    )


class ConnectionFault(Exception):
    """Carries `error` to the origin client, which counts and repeats requests.

    `lost`: an established connection broke before a response.
    """

    def __init__(self, error: OriginError, *, lost: bool = False) -> None:
        self.error = error
        self.lost = lost
        super().__init__(str(error))


def connect_failed(fault: OSError) -> ConnectionFault:
    """The fault of an attempt to connect."""
    match fault:
        case ssl.SSLCertVerificationError():
            reason = "TLS certificate not accepted"
        case ssl.SSLError():
            reason = "TLS failed"
        case socket.gaierror():
            reason = "name not resolved"
        case TimeoutError():
            reason = "no connection in time"
        case _:
            reason = f"no connection{_errno(fault)}"
    return ConnectionFault(OriginUnreachable(reason))


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
