"""Reads over Forebay's Unix socket: the transport that is tried first where there is one.

    GET of an object, not streamed ──> a channel ──> response, whatever its status
    batches ─────────────────────────> a channel ──> frames of entries
                                           └── TransportFallback: HTTP instead, counted by its reason

    reason                        meaning
    unreachable, refused          nobody listens at the path, or what listens is no Forebay with channels
    denied                        this user may not open the path
    not believed                  another user than the endpoint's listens at the path that it hinted at
    busy                          as many channels are open as the client has connections
    declined                      Forebay answers this request over plain HTTP only
    ended, broken, timeout        Forebay ended, or the channel was closed in the middle of the read
    garbage, descriptors,         the response violates the protocol, or a descriptor could not be received
    unmappable, truncated         or used

A read has no effect, so each failure may be followed by HTTP at once.
"""

from collections.abc import Callable
from typing import Final

from forebay.core.names import BATCH_KEY, is_reserved
from forebay.protocol.channel_frames import MAX_BODY, MAX_HEAD
from forebay_client.client_settings import ClientSettings
from forebay_client.shared_memory.channel import ClientChannel, ReadDeclined
from forebay_client.shared_memory.channel_batches import ChannelBatches
from forebay_client.shared_memory.channel_input import ChannelBroken
from forebay_client.shared_memory.channel_pool import ChannelPool, ChannelUnavailable
from forebay_client.shared_memory.read_signing import ReadSigner
from forebay_client.shared_memory.socket_hint import FoundSocket, UnusableSocket, open_socket
from forebay_client.transport.object_request import ObjectRequest, ObjectResponse, TransportFallback
from forebay_client.transport.signed_request import ObjectRequestSigner

_RECONNECTS: Final = frozenset({"ended"})
"""Reasons to connect again, of a channel that was used before: Forebay closes idle ones, or was restarted."""


class SocketTransport:
    """See the module."""

    name: str = "socket"

    def __init__(
        self, settings: ClientSettings, signer: ObjectRequestSigner, find_socket: Callable[[], FoundSocket]
    ) -> None:
        """`find_socket`: the socket; None: there is none now."""
        self._settings, self._signer, self._find_socket = settings, signer, find_socket
        self._reads = ReadSigner(settings.server.authority, settings.region, settings.credentials.current)
        self._has_plain_reads = settings.dialect == "s3" and settings.addressing == "path"
        self._pool = ChannelPool(self._open_channel, settings.connections)

    def carries(self, request: ObjectRequest) -> bool:
        """Whether a request is a read of an object, but for those under `.forebay/`, and there is a socket."""
        return (
            request.method == "GET"
            and request.key is not None
            and not is_reserved(request.key)
            and not request.is_streamed
            and not request.query
            and self._find_socket() is not None
        )

    def send(self, request: ObjectRequest) -> ObjectResponse:
        """See Transport."""
        if isinstance(found := self._find_socket(), UnusableSocket):
            raise TransportFallback(found.reason)
        head = self._head(request)
        if len(head) > MAX_HEAD:
            raise TransportFallback("declined")
        while True:
            try:
                channel = self._pool.lease()
            except ChannelUnavailable as error:
                raise TransportFallback(str(error)) from error
            try:
                fields, body = channel.read(head, request.buffer)
                response = ObjectResponse(fields.status, fields, body, None, fields.has_checksum)
            except ReadDeclined:
                self._pool.release(channel)
                raise TransportFallback("declined") from None
            except BaseException as error:
                channel.close()
                self._pool.drop(channel, str(error))
                if not isinstance(error, ChannelBroken | ValueError):
                    raise
                if str(error) in _RECONNECTS and channel.used_at:
                    continue  # every idle channel may have ended; a new one has not been used
                raise TransportFallback(str(error) if isinstance(error, ChannelBroken) else "garbage") from error
            self._pool.release(channel)
            return response

    def batches(self) -> ChannelBatches | None:
        """Returns the sender of batches; None: there is no socket now."""
        return ChannelBatches(self._pool) if self._find_socket() is not None else None

    def batch_head(self, bucket: str, document: bytes) -> bytes:
        """The head of a batch, signed. Raises TransportFallback for one that the protocol can't carry."""
        headers = {"content-type": "application/json"}
        head = self._signed_head(ObjectRequest("POST", bucket, BATCH_KEY, headers=headers, content=document))
        if len(head) > MAX_HEAD or len(document) > MAX_BODY:
            raise TransportFallback("declined")
        return head

    def close(self) -> None:
        """Closes the idle channels. Views stay good."""
        self._pool.close()

    def _head(self, request: ObjectRequest) -> bytes:
        if self._has_plain_reads and request.key is not None:
            return self._reads.head(request.bucket, request.key, request.span, tuple(request.headers.items()))
        return self._signed_head(request)

    def _signed_head(self, request: ObjectRequest) -> bytes:
        signed = self._signer.sign(request)
        # The length of a batch's document is in its frame, and the server adds the header that was signed.
        fields = "".join(f"{name}: {value}\r\n" for name, value in signed.headers.items() if name != "content-length")
        return f"{signed.method} {signed.target} HTTP/1.1\r\n{fields}\r\n".encode("latin-1")

    def _open_channel(self) -> ClientChannel:
        found = self._find_socket()
        if found is None or isinstance(found, UnusableSocket):
            raise ChannelBroken(found.reason if found is not None else "unreachable")
        return open_socket(found, self._settings.timeout)
