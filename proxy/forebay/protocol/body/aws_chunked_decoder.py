"""The aws-chunked decoder: removes the framing and verifies every signature. Sans-IO, strict, bounded.

    signed            <hex>;chunk-signature=<64 hex> CRLF <bytes> CRLF ... 0;chunk-signature=<64 hex> CRLF CRLF
    signed trailer    ... 0;chunk-signature=<64 hex> CRLF <name>:<value> CRLF x-amz-trailer-signature:<64 hex> CRLF CRLF
    unsigned trailer  <hex> CRLF <bytes> CRLF ... 0 CRLF <name>:<value> CRLF CRLF

                  size > 0             all bytes, signature right
         HEADER ------------> PAYLOAD ---------------------------> PAYLOAD_END
          |  ^                                                         |
          |  +------------------------- CRLF --------------------------+
          | size 0, signature right                                             any error, in any state: BROKEN
          +--------------------> TRAILER ------- empty line ------> END

- Body bytes are returned as slices of the input, before the signature of their chunk is verified: they may be
  forwarded, but nothing may be committed before `close` has returned.
- The sum of the chunk sizes must be x-amz-decoded-content-length; a chunk that exceeds it is refused at its header.
  Only the trailer that x-amz-trailer announced is accepted.
- Strict, because two readers of one body must agree: hexadecimal digits only, CRLF after headers and payloads, no other
  chunk extension. Lenient where S3 is and nothing depends on it: blanks around `;` and `=`, a trailer line that ends in
  LF CRLF (as Amazon's page draws it), a repeated trailer (the last one counts), no empty line at the very end, anything
  after that line. Bytes after the end are read and dropped.
- Bounded: a header or trailer line has at most 1024 bytes. `_check_size` bounds the number of small chunks,
  `feed_in_steps` the work between two steps.

https://docs.aws.amazon.com/AmazonS3/latest/API/sigv4-streaming.html
https://docs.aws.amazon.com/AmazonS3/latest/API/sigv4-streaming-trailers.html
"""

from collections.abc import Iterator
from enum import Enum, auto
from hashlib import sha256
from typing import Final

from forebay.core.buffers import Piece
from forebay.core.errors import S3Error
from forebay.protocol.body.chunk_signatures import TRAILER_SIGNATURE, ChunkedMode, ChunkSignatureChain
from forebay.protocol.signatures.credential_checks import equals_in_constant_time

MAX_LINE: Final = 1024  # bytes of a chunk header or a trailer line, with its end
SMALLEST_CHUNK: Final = 8192  # bytes, except for the last chunk; S3's own bound
LINES_PER_STEP: Final = 64  # each takes one or two microseconds

_HEX: Final = b"0123456789abcdefABCDEF"
_SIGNATURE: Final = "chunk-signature"


class _State(Enum):
    HEADER = auto()
    PAYLOAD = auto()
    PAYLOAD_END = auto()
    TRAILER = auto()
    END = auto()
    BROKEN = auto()


class AwsChunkedDecoder:
    """Decodes one body. After the first S3Error every call raises."""

    def __init__(
        self, mode: ChunkedMode, decoded_length: int, trailer: str | None, chain: ChunkSignatureChain | None
    ) -> None:
        """`trailer`: the lower-case name that x-amz-trailer announced; only in a mode that has one.

        `chain`: None ignores the signatures of a signed mode, for listeners that verify no signatures at all; a signed
        request always has its chain.
        """
        if trailer is not None and not mode.has_trailer:
            raise ValueError("the announced trailer does not fit the mode")
        self._mode, self._chain, self._announced = mode, chain, trailer
        self._decoded_length = decoded_length
        self._left_in_body = decoded_length
        self._left_in_chunk = 0
        self._state = _State.HEADER
        self._line = b""
        self.hashes = mode.is_signed and chain is not None
        """Whether payload bytes are hashed, as the signature of each chunk is verified."""
        self._hash = sha256()
        self._claimed = ""
        self._chunks = 0
        self._last_size = SMALLEST_CHUNK
        self._trailers: dict[str, str] = {}
        self._trailer_signed = False
        self._gap_seen = False
        self._may_end = False
        """Whether the body may end here, without its last empty line."""

    def feed(self, data: Piece) -> list[memoryview]:
        """The body bytes in `data`, the next bytes of the framed body.

        Raises S3Error: IncompleteBody (broken framing, wrong length), InvalidChunkSizeError, MalformedTrailerError,
        SignatureDoesNotMatch.
        """
        return [piece for pieces in self.feed_in_steps(data) for piece in pieces]

    def feed_in_steps(self, data: Piece) -> Iterator[list[memoryview]]:
        """`feed` in steps of at most LINES_PER_STEP lines, so that the caller can run other work between them."""
        view = memoryview(data)
        pieces: list[memoryview] = []
        position, stop, lines_left = 0, len(view), LINES_PER_STEP
        while position < stop:
            if self._state is _State.PAYLOAD:
                piece = view[position : position + self._left_in_chunk]
                position += len(piece)
                self._add_payload(piece)
                pieces.append(piece)
            elif self._state is _State.END:
                break
            elif self._state is _State.BROKEN:
                raise S3Error("IncompleteBody")
            else:
                position = self._read_line(view, position)
                lines_left -= 1
                if not lines_left:
                    yield pieces
                    pieces, lines_left = [], LINES_PER_STEP
        yield pieces

    def close(self) -> dict[str, str]:
        """The trailers, after the end of the body.

        Raises S3Error IncompleteBody if the body has not ended, MalformedTrailerError.
        """
        if self._state is not _State.END:
            if self._state is not _State.TRAILER or self._line or not self._may_end:
                raise self._broken(S3Error("IncompleteBody"))
            self._end()
        return self._trailers

    def _end(self) -> None:
        """Ends the body after the empty chunk and the trailers. Raises S3Error if bytes or a trailer are missing."""
        if self._mode is ChunkedMode.SIGNED_TRAILER and not self._trailer_signed:
            raise self._broken(S3Error("IncompleteBody"))
        if self._announced is not None and not self._trailers:
            raise self._broken(S3Error("MalformedTrailerError"))
        if self._left_in_body:
            raise self._broken(wrong_length(self._decoded_length, self._decoded_length - self._left_in_body))
        self._state = _State.END

    def _read_line(self, view: memoryview, position: int) -> int:
        """Reads up to the end of the line, processes a complete line, and returns the new position."""
        limit = 2 if self._state is _State.PAYLOAD_END else MAX_LINE
        window = bytes(view[position : position + limit - len(self._line)])
        found = window.find(b"\n") + 1
        self._line += window[:found] if found else window
        if found:
            line, self._line = self._line, b""
            self._process_line(line)
            return position + found
        if len(self._line) >= limit:
            raise self._broken(S3Error("IncompleteBody"))
        return position + len(window)

    def _process_line(self, line: bytes) -> None:
        if self._state is _State.HEADER:
            self._start_chunk(line)
        elif self._state is _State.TRAILER:
            self._read_trailer(line)
        elif line == b"\r\n":
            self._state = _State.HEADER
        else:
            raise self._broken(S3Error("IncompleteBody"))

    def _start_chunk(self, line: bytes) -> None:
        if not line.endswith(b"\r\n") or not line.isascii():
            raise self._broken(S3Error("IncompleteBody"))
        digits = line[:-2]
        if self._mode.is_signed:
            digits, _, parameters = digits.partition(b";")
            digits = digits.strip(b" \t")
            self._claimed = self._signature_in(parameters.decode("ascii"))
        if not 1 <= len(digits) <= 16 or digits.translate(None, _HEX):
            raise self._broken(S3Error("IncompleteBody"))
        size = int(digits, 16)
        self._check_size(size)
        self._left_in_chunk = size
        self._left_in_body -= size
        self._state = _State.PAYLOAD
        if size == 0:
            self._check_signature()
            self._state = _State.TRAILER
            self._may_end = True

    def _signature_in(self, parameters: str) -> str:
        """The signature in `chunk-signature=...`. S3's error for another parameter depends on its position."""
        name, _, value = parameters.partition("=")
        claimed = value.strip(" \t")
        if parameters and name.strip(" \t") != _SIGNATURE:
            if self._chain is not None:
                self._chain.chunk_signature(sha256().hexdigest())  # so that the error has the expected string to sign
            raise self._mismatch("")
        if not claimed or ";" in claimed:
            raise self._broken(S3Error("IncompleteBody"))
        return claimed

    def _check_size(self, size: int) -> None:
        """Refuses a chunk that exceeds the body, and floods of chunks that are smaller than their framing.

        Signed chunks follow S3's rule: only the last may be small. Unsigned chunks cost less to read, and some clients
        send a chunk for each read of a stream, so an average of one KiB is enough.
        """
        self._chunks += 1
        too_many = self._chunks > 64 + self._decoded_length // 1024
        if size and (self._last_size < SMALLEST_CHUNK if self._mode.is_signed else too_many):
            bad = {"Chunk": str(self._chunks), "BadChunkSize": str(self._last_size)}
            raise self._broken(S3Error("InvalidChunkSizeError", **bad))
        self._last_size = size
        if size > self._left_in_body:
            raise self._broken(wrong_length(self._decoded_length, self._decoded_length - self._left_in_body + size))

    def _add_payload(self, piece: memoryview) -> None:
        if self.hashes:
            self._hash.update(piece)
        self._left_in_chunk -= len(piece)
        if not self._left_in_chunk:
            self._check_signature()
            self._state = _State.PAYLOAD_END

    def _check_signature(self) -> None:
        if self._mode.is_signed and self._chain is not None:
            expected = self._chain.chunk_signature(self._hash.hexdigest())
            self._hash = sha256()
            self._compare(expected, self._claimed)

    def _read_trailer(self, line: bytes) -> None:
        text = line.rstrip(b"\r\n")
        if not text:
            # An empty line is the end. Once it may be the gap in `name:value LF CRLF x-amz-trailer-signature:...`.
            if (
                self._mode is ChunkedMode.SIGNED_TRAILER
                and self._trailers
                and not self._trailer_signed
                and not self._gap_seen
            ):
                self._gap_seen = True
            else:
                self._end()
            return
        name, _, value = text.decode("latin-1").partition(":")
        name, value = name.strip(" \t").lower(), value.strip(" \t")
        if self._mode is ChunkedMode.SIGNED_TRAILER and name == TRAILER_SIGNATURE:
            self._check_trailer_signature(value)
        elif name == self._announced and not self._trailer_signed:
            self._trailers[name] = value
        else:
            raise self._broken(S3Error("MalformedTrailerError"))
        self._may_end = line.endswith(b"\r\n")

    def _check_trailer_signature(self, claimed: str) -> None:
        if self._announced is None:
            raise self._broken(S3Error("IncompleteBody"))
        if self._trailer_signed or not self._trailers:
            raise self._broken(S3Error("MalformedTrailerError"))
        if self._chain is not None:
            for name, value in self._trailers.items():
                self._compare(self._chain.trailer_signature(name, value), claimed)
        self._trailer_signed = True

    def _compare(self, expected: str, claimed: str) -> None:
        if not equals_in_constant_time(expected, claimed):
            raise self._mismatch(claimed)

    def _mismatch(self, claimed: str) -> S3Error:
        refusal = self._chain.mismatch_error(claimed) if self._chain is not None else S3Error("SignatureDoesNotMatch")
        return self._broken(refusal)

    def _broken(self, error: S3Error) -> S3Error:
        self._state = _State.BROKEN
        return error


def wrong_length(expected: int, provided: int) -> S3Error:
    """The error for a body with more or fewer bytes than announced."""
    return S3Error(
        "IncompleteBody",
        "You did not provide the number of bytes specified by the Content-Length HTTP header",
        NumberBytesExpected=str(expected),
        NumberBytesProvided=str(provided),
    )
