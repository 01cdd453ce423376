"""Writer of aws-chunked bodies, for the way to an origin. The counterpart of forebay.protocol.awschunked. Sans-IO.

All chunks but the last have the same size, so the encoded length follows from the decoded one, and Content-Length can
be sent. Bytes are not copied: the framing goes between slices of what was given.

https://docs.aws.amazon.com/AmazonS3/latest/API/sigv4-streaming-trailers.html
"""

from collections.abc import Mapping
from hashlib import sha256
from typing import Final

from forebay.protocol.checksums import Piece, encoded_size
from forebay.protocol.chunkchain import CHUNK_SIGNATURE, TRAILER_SIGNATURE, ChunkChain, Mode

CHUNK: Final = 65536  # bytes; the size in Amazon's own examples, and well above the smallest that S3 takes


class Encoder:
    """Writes one body."""

    def __init__(self, mode: Mode, chain: ChunkChain | None = None, chunk: int = CHUNK) -> None:
        """`chain`: of forebay.protocol.signing.sign_streaming, for the signed modes and only those (ValueError)."""
        if mode.signed != (chain is not None):
            raise ValueError("the signed modes need a chain, the unsigned one has none")
        self._mode, self._chain, self._chunk = mode, chain, chunk
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

    def finish(self, trailers: Mapping[str, str]) -> list[Piece]:
        """The rest of the body: what waits, the empty chunk, and the trailer, at most one, by its lower-case name.

        Call once. ValueError for a trailer in a mode that has none, more than one, or a signed trailer that is missing.
        """
        if len(trailers) > (1 if self._mode.trailing else 0) or (self._mode is Mode.SIGNED_TRAILER and not trailers):
            raise ValueError("the trailers do not fit the mode")
        sent = self._close_chunk() if self._waiting else []
        # The empty chunk has no line end of its own when trailers follow it; the last one is the body's.
        end = self._header(0, sha256(b"").hexdigest())
        for name, value in trailers.items():
            end += f"{name}:{value}\r\n".encode()
            if self._chain is not None:
                end += f"{TRAILER_SIGNATURE}:{self._chain.trailer(name, value)}\r\n".encode()
        sent.append(end + b"\r\n")
        return sent

    def _close_chunk(self) -> list[Piece]:
        digest = sha256()
        if self._chain is not None:
            for piece in self._waiting:
                digest.update(piece)
        framed: list[Piece] = [self._header(self._waiting_size, digest.hexdigest()), *self._waiting, b"\r\n"]
        self._waiting = []
        self._waiting_size = 0
        return framed

    def _header(self, size: int, sha256_hex: str) -> bytes:
        if self._chain is None:
            return f"{size:x}\r\n".encode()
        return f"{size:x}{CHUNK_SIGNATURE}{self._chain.chunk(sha256_hex)}\r\n".encode()


def encoded_length(decoded_length: int, mode: Mode, trailer: str | None = None, chunk: int = CHUNK) -> int:
    """How long a body of `decoded_length` bytes gets, with the checksum `trailer` (a lower-case header name).

    S3Error NotImplemented for a trailer that is no checksum.
    """
    signature = len(CHUNK_SIGNATURE) + 64 if mode.signed else 0
    whole, rest = divmod(decoded_length, chunk)
    length = whole * (len(f"{chunk:x}") + signature + 2 + chunk + 2)
    if rest:
        length += len(f"{rest:x}") + signature + 2 + rest + 2
    length += 1 + signature + 2
    if trailer is not None:
        length += len(trailer) + 1 + encoded_size(trailer) + 2
        if mode.signed:
            length += len(TRAILER_SIGNATURE) + 1 + 64 + 2
    return length + 2
