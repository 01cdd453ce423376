"""Writer of aws-chunked bodies, for the way to an origin: unsigned chunks, one checksum behind them. Sans-IO.

    <hex> CRLF <bytes> CRLF ... 0 CRLF <name>:<value> CRLF CRLF

The signed forms are never written: what they prove, TLS or the origin's trust in an unsigned body already gives.
All chunks but the last have the same size, so the encoded length follows from the decoded one, and Content-Length can
be sent. Bytes are not copied: the framing goes between slices of what was given.

https://docs.aws.amazon.com/AmazonS3/latest/API/sigv4-streaming-trailers.html
"""

from typing import Final

from forebay.protocol.body.checksums import Piece, encoded_size

CHUNK: Final = 65536  # bytes; the size in Amazon's own examples, and well above the smallest that S3 takes


class AwsChunkedEncoder:
    """Writes one body."""

    def __init__(self, trailer: str, chunk: int = CHUNK) -> None:
        """`trailer`: the lower-case name of the checksum header that will follow."""
        self._trailer, self._chunk = trailer, chunk
        self._waiting: list[memoryview] = []
        self._waiting_size = 0

    def encode(self, piece: Piece) -> list[Piece]:
        """What can be sent now. Up to one chunk of `piece` is kept, by reference, until more comes or `finish`."""
        view = memoryview(piece)
        sent: list[Piece] = []
        while view:
            taken = view[: self._chunk - self._waiting_size]
            view = view[len(taken) :]
            self._waiting.append(taken)
            self._waiting_size += len(taken)
            if self._waiting_size == self._chunk:
                sent += self._close_chunk()
        return sent

    def finish(self, checksum: str) -> list[Piece]:
        """The rest of the body: what waits, the empty chunk, and the trailer. Call once."""
        sent = self._close_chunk() if self._waiting else []
        # The empty chunk has no line end of its own when a trailer follows it; the last one is the body's.
        sent.append(f"0\r\n{self._trailer}:{checksum}\r\n\r\n".encode())
        return sent

    def _close_chunk(self) -> list[Piece]:
        framed: list[Piece] = [f"{self._waiting_size:x}\r\n".encode(), *self._waiting, b"\r\n"]
        self._waiting = []
        self._waiting_size = 0
        return framed


def encoded_length(decoded_length: int, trailer: str, chunk: int = CHUNK) -> int:
    """How long a body of `decoded_length` bytes gets, with the checksum `trailer` (a lower-case header name).

    S3Error NotImplemented for a trailer that is no checksum.
    """
    whole, rest = divmod(decoded_length, chunk)
    length = whole * (len(f"{chunk:x}") + 2 + chunk + 2)
    if rest:
        length += len(f"{rest:x}") + 2 + rest + 2
    return length + len("0\r\n") + len(trailer) + 1 + encoded_size(trailer) + 4
