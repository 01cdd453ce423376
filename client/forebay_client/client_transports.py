"""The transports of a client: shared memory where there can be any, and HTTP, which everything falls back to.

The first request makes them, so that an import of the client imports neither http.client nor ssl nor ctypes.
"""

import sys
from typing import TYPE_CHECKING, Final, TypeAlias

from forebay_client.client_settings import ClientSettings
from forebay_client.transport.signed_request import ObjectRequestSigner

if TYPE_CHECKING:
    from forebay_client.shared_memory.socket_transport import SocketTransport
    from forebay_client.transport.http_transport import HttpTransport

    Made: TypeAlias = tuple[SocketTransport | None, HttpTransport]

_MADE: Final = "made"


class ClientTransports:
    """See the module. Used by many threads at once."""

    def __init__(self, settings: ClientSettings, signer: ObjectRequestSigner) -> None:
        self._settings, self._signer = settings, signer

    def make(self) -> "Made":
        """Returns both, the same each time. None for the first: the settings turn it off, or this is no Linux with
        ctypes and mmap."""
        made: Made | None = vars(self).get(_MADE)
        # Of threads that come at once, all get the same.
        return vars(self).setdefault(_MADE, self._new()) if made is None else made

    def close(self) -> None:
        """Closes what is open and idle."""
        for transport in vars(self).get(_MADE, ()):
            if transport is not None:
                transport.close()

    def _new(self) -> "Made":
        from forebay_client.transport.http_transport import HttpTransport  # noqa: PLC0415 # see the module

        http = HttpTransport(self._settings, self._signer)
        if self._settings.socket == "" or sys.platform != "linux":
            return None, http
        try:
            from forebay_client.shared_memory.socket_hint import SocketHint  # noqa: PLC0415 # Linux only
            from forebay_client.shared_memory.socket_transport import SocketTransport  # noqa: PLC0415 # likewise
        except ImportError:  # a Python without ctypes or mmap
            return None, http
        return SocketTransport(self._settings, self._signer, SocketHint(self._settings)), http
