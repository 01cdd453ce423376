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
  chunk extension. Lenient where clients differ and nothing depends on it: a trailer's line may end in LF, or in
  LF CRLF (as Amazon's page draws it), and a signed body may lack the empty line at its very end.
- Bounded: a header or trailer line has at most 1024 bytes; small chunks can't flood, see `_check_size`.

https://docs.aws.amazon.com/AmazonS3/latest/API/sigv4-streaming.html
https://docs.aws.amazon.com/AmazonS3/latest/API/sigv4-streaming-trailers.html
"""

from enum import Enum, auto
from hashlib import sha256
from hmac import compare_digest
from typing import Final

from forebay.protocol.checksums import Piece
from forebay.protocol.chunkchain import CHUNK_SIGNATURE, TRAILER_SIGNATURE, ChunkChain, Mode
from forebay.words.errors import S3Error

MAX_LINE: Final = 1024  # bytes of a chunk header or a trailer line, with its end
SMALLEST_CHUNK: Final = 8192  # of all but the last, S3's own bound

_HEX: Final = b"0123456789abcdefABCDEF"


class _State(Enum):
    HEADER = auto()
    PAYLOAD = auto()
    PAYLOAD_END = auto()
    TRAILER = auto()
    END = auto()
    BROKEN = auto()


class Decoder:
    """Reads one body. After the first S3Error every call raises."""

    def __init__(self, mode: Mode, decoded_length: int, trailer: str | None, chain: ChunkChain | None) -> None:
        """`trailer`: the lower-case name that x-amz-trailer announced; only in a mode that has one.

        `chain`: None takes the signatures of a signed mode as decoration. That is for listeners that check no
        signatures at all; a signed request always brings its chain.
        """
        if (trailer is None) if mode is Mode.SIGNED_TRAILER else (trailer is not None and not mode.trailing):
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
        self._short_chunk = False
        self._trailers: dict[str, str] = {}
        self._trailer_signed = False
        self._gap = False

    def feed(self, data: Piece) -> list[memoryview]:
        """The body bytes in `data`, which is all that has arrived since the last call.

        Raises S3Error: IncompleteBody (broken framing, wrong length), InvalidChunkSizeError, MalformedTrailerError,
        SignatureDoesNotMatch.
        """
        view = memoryview(data)
        pieces: list[memoryview] = []
        position, stop = 0, len(view)
        while position < stop:
            if self._state is _State.PAYLOAD:
                piece = view[position : position + self._left_in_chunk]
                position += len(piece)
                self._take(piece)
                pieces.append(piece)
            elif self._state in {_State.END, _State.BROKEN}:
                raise self._broken(_malformed("Bytes follow the end of the aws-chunked body."))
            else:
                position = self._read_line(view, position)
        return pieces

    def close(self) -> dict[str, str]:
        """The trailers, when the body has ended. Raises S3Error IncompleteBody if it has not, InvalidRequest."""
        # Without its last CRLF a signed body is whole all the same: the signature of the empty chunk says so.
        whole_without_end = (
            self._state is _State.TRAILER
            and not self._line
            and self._mode.signed
            and (self._trailer_signed or not self._mode.trailing)
        )
        if self._state is not _State.END and not whole_without_end:
            raise self._broken(S3Error("IncompleteBody", "The body ended within its aws-chunked framing."))
        return self._trailers

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
            raise self._broken(_malformed("A line of the aws-chunked framing is too long or missing."))
        return position + len(window)

    def _act(self, line: bytes) -> None:
        if self._state is _State.HEADER:
            self._start_chunk(line)
        elif self._state is _State.TRAILER:
            self._read_trailer(line)
        elif line == b"\r\n":
            self._state = _State.HEADER
        else:
            raise self._broken(_malformed("A chunk is not followed by CRLF."))

    def _start_chunk(self, line: bytes) -> None:
        if not line.endswith(b"\r\n") or not line.isascii():
            raise self._broken(_malformed("A chunk header does not end in CRLF."))
        digits, claimed = line[:-2], ""
        if self._mode.signed:
            text, mark, claimed = line[:-2].decode("ascii").partition(CHUNK_SIGNATURE)
            digits = text.encode("ascii")
            if not mark:
                raise self._broken(_malformed("A chunk has no signature."))
        if not 1 <= len(digits) <= 16 or digits.translate(None, _HEX):
            raise self._broken(_malformed("A chunk's size is not a hexadecimal number."))
        size = int(digits, 16)
        self._check_size(size)
        self._claimed = claimed
        self._left_in_chunk = size
        self._left_in_body -= size
        self._state = _State.PAYLOAD
        if size == 0:
            self._check_signature()
            self._state = _State.TRAILER

    def _check_size(self, size: int) -> None:
        """Refuses lengths that don't add up, and floods of chunks whose framing outweighs them.

        Signed chunks as S3 has it: only the last may be small. Unsigned ones cost less to read, and some clients send
        a chunk for whatever their stream gave them, so an average of a KiB will do.
        """
        if size > self._left_in_body or (size == 0 and self._left_in_body):
            raise self._broken(_malformed("The chunks do not add up to x-amz-decoded-content-length."))
        self._chunks += 1
        too_many = self._chunks > 64 + self._decoded_length // 1024
        if size and (self._short_chunk if self._mode.signed else too_many):
            raise self._broken(S3Error("InvalidChunkSizeError", Chunk=str(self._chunks)))
        self._short_chunk = size < SMALLEST_CHUNK

    def _take(self, piece: memoryview) -> None:
        if self._chain is not None:
            self._hash.update(piece)
        self._left_in_chunk -= len(piece)
        if not self._left_in_chunk:
            self._check_signature()
            self._state = _State.PAYLOAD_END

    def _check_signature(self) -> None:
        if self._mode.signed and self._chain is not None:
            expected = self._chain.chunk(self._hash.hexdigest())
            self._hash = sha256()
            self._compare(expected, self._claimed)

    def _read_trailer(self, line: bytes) -> None:
        text = line.rstrip(b"\r\n")
        if not text:
            if self._announced is not None and not self._trailers:
                raise self._broken(S3Error("MalformedTrailerError", "The announced trailer did not come."))
            if self._mode is not Mode.SIGNED_TRAILER or self._trailer_signed:
                self._state = _State.END
            elif self._gap:
                raise self._broken(S3Error("MalformedTrailerError", "The trailer has no signature."))
            # Otherwise it is the gap in `name:value LF CRLF x-amz-trailer-signature:...`, which may be there once.
            self._gap = True
            return
        name, _, value = text.decode("latin-1").partition(":")
        name, value = name.strip(" \t").lower(), value.strip(" \t")
        if self._mode is Mode.SIGNED_TRAILER and name == TRAILER_SIGNATURE:
            self._check_trailer_signature(value)
        elif name == self._announced and not self._trailers and self._mode.trailing:
            self._trailers[name] = value
        else:
            message = "A trailer came that x-amz-trailer had not announced."
            raise self._broken(S3Error("MalformedTrailerError", message))

    def _check_trailer_signature(self, claimed: str) -> None:
        if self._trailer_signed or not self._trailers:
            message = "The trailer's signature must follow the trailer, once."
            raise self._broken(S3Error("MalformedTrailerError", message))
        if self._chain is not None:
            for name, value in self._trailers.items():
                self._compare(self._chain.trailer(name, value), claimed)
        self._trailer_signed = True

    def _compare(self, expected: str, claimed: str) -> None:
        if not compare_digest(expected.encode(), claimed.encode()):
            raise self._broken(S3Error("SignatureDoesNotMatch", "The signature of a chunk does not match it."))

    def _broken(self, error: S3Error) -> S3Error:
        self._state = _State.BROKEN
        return error


def _malformed(message: str) -> S3Error:
    return S3Error("IncompleteBody", message)
