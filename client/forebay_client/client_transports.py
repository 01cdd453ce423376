"""The transports of a client: shared memory where there can be any, and HTTP, which everything falls back to."""

import sys
from typing import TYPE_CHECKING

from forebay_client.client_settings import ClientSettings
from forebay_client.transport.http_transport import HttpTransport
from forebay_client.transport.signed_request import ObjectRequestSigner

if TYPE_CHECKING:
    from forebay_client.shared_memory.socket_transport import SocketTransport


def client_transports(
    settings: ClientSettings, signer: ObjectRequestSigner
) -> tuple["SocketTransport | None", HttpTransport]:
    """Returns both. None for the first: the settings turn it off, or this is no Linux with ctypes and mmap."""
    http = HttpTransport(settings, signer)
    if settings.socket == "" or sys.platform != "linux":
        return None, http
    try:
        from forebay_client.shared_memory.socket_hint import SocketHint  # noqa: PLC0415 # Linux only
        from forebay_client.shared_memory.socket_transport import SocketTransport  # noqa: PLC0415 # likewise
    except ImportError:  # a Python without ctypes or mmap
        return None, http
    return SocketTransport(settings, signer, SocketHint(settings)), http
