"""The aws-chunked encoder for requests to an origin: unsigned chunks and a trailer with one checksum. Sans-IO.

    <hex> CRLF <bytes> CRLF ... 0 CRLF <name>:<value> CRLF CRLF

- The signed forms are never written: TLS, or an origin that accepts unsigned bodies, makes them superfluous.
- All chunks but the last have the same size, so the encoded length follows from the decoded length, and Content-Length
  can be sent.
- Body bytes are not copied: the framing is put between slices of the input.

https://docs.aws.amazon.com/AmazonS3/latest/API/sigv4-streaming-trailers.html
"""

from typing import Final

from forebay.core.buffers import Piece
from forebay.protocol.body.checksums import encoded_size

CHUNK: Final = 65536  # bytes; the size in Amazon's own examples, and well above the smallest that S3 accepts


class AwsChunkedEncoder:
    """Encodes one body."""

    def __init__(self, trailer: str, chunk: int = CHUNK) -> None:
        """`trailer`: the lower-case name of the checksum in the trailer; `chunk`: bytes."""
        self._trailer, self._chunk = trailer, chunk
        self._pending: list[memoryview] = []
        self._pending_size = 0

    def encode(self, piece: Piece) -> list[Piece]:
        """The encoded bytes that can be sent now. Up to one chunk of input is kept, by reference, for the next call."""
        view = memoryview(piece)
        sent: list[Piece] = []
        while view:
            part = view[: self._chunk - self._pending_size]
            view = view[len(part) :]
            self._pending.append(part)
            self._pending_size += len(part)
            if self._pending_size == self._chunk:
                sent += self._close_chunk()
        return sent

    def finish(self, checksum: str) -> list[Piece]:
        """The rest of the body: the pending bytes, the empty chunk and the trailer. To be called once."""
        sent = self._close_chunk() if self._pending else []
        # With a trailer, the empty chunk has no empty line of its own; the last empty line ends the body.
        sent.append(f"0\r\n{self._trailer}:{checksum}\r\n\r\n".encode())
        return sent

    def _close_chunk(self) -> list[Piece]:
        framed: list[Piece] = [f"{self._pending_size:x}\r\n".encode(), *self._pending, b"\r\n"]
        self._pending = []
        self._pending_size = 0
        return framed


def encoded_length(decoded_length: int, trailer: str, chunk: int = CHUNK) -> int:
    """Bytes of an encoded body of `decoded_length` bytes with the trailer `trailer` (a lower-case header name).

    Raises S3Error NotImplemented for a trailer that is no checksum.
    """
    whole, rest = divmod(decoded_length, chunk)
    length = whole * (len(f"{chunk:x}") + 2 + chunk + 2)
    if rest:
        length += len(f"{rest:x}") + 2 + rest + 2
    return length + len("0\r\n") + len(trailer) + 1 + encoded_size(trailer) + 4
