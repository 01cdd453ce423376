"""The one border where the errors of aiohttp, of the operating system and of TLS become ours.

The reasons are few and fixed, fit for a metric's label, and hold nothing of the request: aiohttp's own errors carry the
request's headers, so they are never chained to ours (`raise ... from None`).
"""

import asyncio
import errno
import ssl

import aiohttp

from forebay.words.errors import OriginBroken, OriginError, OriginUnreachable

FOREIGN = (aiohttp.ClientError, OSError, ssl.SSLError, asyncio.TimeoutError)
"""What a request may raise. TimeoutError is asyncio's too, and an OSError."""


def before_the_answer(fault: BaseException) -> OriginError:
    """What it means that a request ended without the head of an answer."""
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


def within_the_body(fault: BaseException) -> OriginError:
    """What it means that the body of an answer could not be read on."""
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
    """Whether an established connection broke before an answer: what a stale kept-alive connection looks like."""
    return isinstance(fault, aiohttp.ServerDisconnectedError | aiohttp.ClientOSError) and not isinstance(
        fault, aiohttp.ClientConnectorError
    )


def _errno(fault: OSError) -> str:
    return f" ({errno.errorcode.get(fault.errno, fault.errno)})" if fault.errno else ""
