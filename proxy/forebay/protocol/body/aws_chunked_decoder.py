"""Reader of aws-chunked bodies: takes the framing off, checks every signature. Sans-IO.

    signed            <hex>;chunk-signature=<64 hex> CRLF <bytes> CRLF ... 0;chunk-signature=<64 hex> CRLF CRLF
    signed trailer    ... 0;chunk-signature=<64 hex> CRLF <name>:<value> CRLF x-amz-trailer-signature:<64 hex> CRLF CRLF
    unsigned trailer  <hex> CRLF <bytes> CRLF ... 0 CRLF <name>:<value> CRLF CRLF

                  size > 0             all bytes, signature right
         HEADER ------------> PAYLOAD ---------------------------> PAYLOAD_END
          |  ^                                                         |
          |  +------------------------- CRLF --------------------------+
          | size 0, signature right                                             any refusal, from anywhere: BROKEN
          +--------------------> TRAILER ------- empty line ------> END

- Bytes are handed out as slices of what was fed, before the signature of their chunk is known: they may be forwarded,
  but nothing may be committed before `close` has returned.
- The sum of the chunks is x-amz-decoded-content-length, neither more nor less; a chunk that would exceed it is refused
  at its header. Only the trailer that x-amz-trailer announced is taken.
- Strict, as two readers of one body must agree: hexadecimal digits only, CRLF after headers and payloads, no other
  chunk extension. Lenient where S3 is and nothing depends on it: blanks around `;` and `=`, a trailer's line that ends
  in LF CRLF (as Amazon's page draws it), a trailer that comes twice (the last one counts), no empty line at the very
  end, anything behind that line. What is behind it is read and dropped.
- Bounded: a header or trailer line has at most 1024 bytes; small chunks can't flood, see `_check_size`, nor keep
  anybody waiting, see `stretches`.

https://docs.aws.amazon.com/AmazonS3/latest/API/sigv4-streaming.html
https://docs.aws.amazon.com/AmazonS3/latest/API/sigv4-streaming-trailers.html
"""

from collections.abc import Iterator
from enum import Enum, auto
from hashlib import sha256
from typing import Final

from forebay.core.errors import S3Error
from forebay.protocol.body.checksums import Piece
from forebay.protocol.body.chunk_signatures import TRAILER_SIGNATURE, ChunkedMode, ChunkSignatureChain
from forebay.protocol.signatures.credential_checks import equals_in_constant_time

MAX_LINE: Final = 1024  # bytes of a chunk header or a trailer line, with its end
SMALLEST_CHUNK: Final = 8192  # of all but the last, S3's own bound
AT_ONCE: Final = 64  # lines read in one stretch; each takes one or two microseconds

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
    """Reads one body. After the first S3Error every call raises."""

    def __init__(
        self, mode: ChunkedMode, decoded_length: int, trailer: str | None, chain: ChunkSignatureChain | None
    ) -> None:
        """`trailer`: the lower-case name that x-amz-trailer announced; only in a mode that has one.

        `chain`: None takes the signatures of a signed mode as decoration. That is for listeners that check no
        signatures at all; a signed request always brings its chain.
        """
        if trailer is not None and not mode.has_trailer:
            raise ValueError("the announced trailer does not fit the mode")
        self._mode, self._chain, self._announced = mode, chain, trailer
        self._decoded_length = decoded_length
        self._left_in_body = decoded_length
        self._left_in_chunk = 0
        self._state = _State.HEADER
        self._line = b""
        self._hash = sha256()
        self._claimed = ""
        self._chunks = 0
        self._last_size = SMALLEST_CHUNK
        self._trailers: dict[str, str] = {}
        self._trailer_signed = False
        self._gap = False
        self._whole = False
        """Whether the body may end here, without its last empty line."""

    def feed(self, data: Piece) -> list[memoryview]:
        """The body bytes in `data`, which is all that has arrived since the last call.

        Raises S3Error: IncompleteBody (broken framing, wrong length), InvalidChunkSizeError, MalformedTrailerError,
        SignatureDoesNotMatch.
        """
        return [piece for stretch in self.feed_in_steps(data) for piece in stretch]

    def feed_in_steps(self, data: Piece) -> Iterator[list[memoryview]]:
        """The same, in stretches of AT_ONCE lines at most: whoever has others to think of lets them in between."""
        view = memoryview(data)
        pieces: list[memoryview] = []
        position, stop, left = 0, len(view), AT_ONCE
        while position < stop:
            if self._state is _State.PAYLOAD:
                piece = view[position : position + self._left_in_chunk]
                position += len(piece)
                self._take(piece)
                pieces.append(piece)
            elif self._state is _State.END:
                break
            elif self._state is _State.BROKEN:
                raise S3Error("IncompleteBody")
            else:
                position = self._read_line(view, position)
                left -= 1
                if not left:
                    yield pieces
                    pieces, left = [], AT_ONCE
        yield pieces

    def close(self) -> dict[str, str]:
        """The trailers, when the body has ended. Raises S3Error IncompleteBody if it has not, MalformedTrailerError."""
        if self._state is not _State.END:
            if self._state is not _State.TRAILER or self._line or not self._whole:
                raise self._broken(S3Error("IncompleteBody"))
            self._end()
        return self._trailers

    def _end(self) -> None:
        """The empty chunk has come, and the trailers. Raises S3Error if that was not all, or not all that was due."""
        if self._mode is ChunkedMode.SIGNED_TRAILER and not self._trailer_signed:
            raise self._broken(S3Error("IncompleteBody"))
        if self._announced is not None and not self._trailers:
            raise self._broken(S3Error("MalformedTrailerError"))
        if self._left_in_body:
            raise self._broken(wrong_length(self._decoded_length, self._decoded_length - self._left_in_body))
        self._state = _State.END

    def _read_line(self, view: memoryview, position: int) -> int:
        """Takes bytes up to the end of the line, and acts on it if that is there. The new position."""
        limit = 2 if self._state is _State.PAYLOAD_END else MAX_LINE
        window = bytes(view[position : position + limit - len(self._line)])
        found = window.find(b"\n") + 1
        self._line += window[:found] if found else window
        if found:
            line, self._line = self._line, b""
            self._act(line)
            return position + found
        if len(self._line) >= limit:
            raise self._broken(S3Error("IncompleteBody"))
        return position + len(window)

    def _act(self, line: bytes) -> None:
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
            self._whole = True

    def _signature_in(self, parameters: str) -> str:
        """The signature in `chunk-signature=...`. What S3 answers to other parameters depends on their place."""
        name, _, value = parameters.partition("=")
        claimed = value.strip(" \t")
        if parameters and name.strip(" \t") != _SIGNATURE:
            if self._chain is not None:
                self._chain.chunk_signature(
                    sha256().hexdigest()
                )  # so that the refusal tells what should have been signed
            raise self._mismatch("")
        if not claimed or ";" in claimed:
            raise self._broken(S3Error("IncompleteBody"))
        return claimed

    def _check_size(self, size: int) -> None:
        """Refuses lengths that don't add up, and floods of chunks whose framing outweighs them.

        Signed chunks as S3 has it: only the last may be small. Unsigned ones cost less to read, and some clients send
        a chunk for whatever their stream gave them, so an average of a KiB will do.
        """
        self._chunks += 1
        too_many = self._chunks > 64 + self._decoded_length // 1024
        if size and (self._last_size < SMALLEST_CHUNK if self._mode.is_signed else too_many):
            bad = {"Chunk": str(self._chunks), "BadChunkSize": str(self._last_size)}
            raise self._broken(S3Error("InvalidChunkSizeError", **bad))
        self._last_size = size
        if size > self._left_in_body:
            raise self._broken(wrong_length(self._decoded_length, self._decoded_length - self._left_in_body + size))

    def _take(self, piece: memoryview) -> None:
        if self._chain is not None:
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
            # An empty line is the end; but it may once be the gap in `name:value LF CRLF x-amz-trailer-signature:...`.
            if (
                self._mode is ChunkedMode.SIGNED_TRAILER
                and self._trailers
                and not self._trailer_signed
                and not self._gap
            ):
                self._gap = True
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
        self._whole = line.endswith(b"\r\n")

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
    """More or fewer bytes than were announced."""
    return S3Error(
        "IncompleteBody",
        "You did not provide the number of bytes specified by the Content-Length HTTP header",
        NumberBytesExpected=str(expected),
        NumberBytesProvided=str(provided),
    )
