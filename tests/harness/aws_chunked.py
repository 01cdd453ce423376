"""aws-chunked bodies as SDKs make them: signed, signed with a trailer, unsigned with a trailer.

https://docs.aws.amazon.com/AmazonS3/latest/API/sigv4-streaming.html. `Framing` says how; `spoil` may change any
chunk's signature, for the tests of those who verify it.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from harness.fake.checksums import digest_of
from harness.reference_sigv4 import (
    SIGNED_CHUNKS,
    SIGNED_CHUNKS_TRAILER,
    UNSIGNED_CHUNKS_TRAILER,
    Secret,
    chunk_signature,
    trailer_signature,
)


def _honest(_index: int, signature: str) -> str:
    return signature


@dataclass(frozen=True, slots=True)
class Framing:
    """One of the three forms. `kind` is the value of x-amz-content-sha256."""

    kind: str = SIGNED_CHUNKS
    size: int = 64 << 10
    """Bytes of a chunk; S3 wants at least 8 KiB for all but the last."""
    algorithm: str = "crc32"
    """The trailer's checksum, for the two kinds that have one."""
    end: bytes = b"\r\n"
    """What ends a trailer: CRLF in SDKs, LF CRLF in the drawings of AWS's documents."""
    checksum: str | None = None
    """A wrong checksum in place of the right one."""
    spoil: Callable[[int, str], str] = field(default=_honest)
    """(index of the chunk, right signature) -> the signature that is sent. The trailer's index is -1."""

    @property
    def has_trailer(self) -> bool:
        return self.kind in {SIGNED_CHUNKS_TRAILER, UNSIGNED_CHUNKS_TRAILER}

    def headers(self, body: bytes) -> list[tuple[str, str]]:
        """The headers that go with it, to be signed."""
        pairs = [("Content-Encoding", "aws-chunked"), ("x-amz-decoded-content-length", str(len(body)))]
        if self.has_trailer:
            pairs.append(("x-amz-trailer", f"x-amz-checksum-{self.algorithm}"))
        return pairs

    def frame(self, body: bytes, secret: Secret, timestamp: str, seed: str) -> bytes:
        """The framed body; `seed` is the signature of the request's head."""
        out, previous, signed = bytearray(), seed, self.kind != UNSIGNED_CHUNKS_TRAILER
        starts = [*range(0, len(body), self.size), len(body)]
        for index, at in enumerate(starts):
            piece = body[at : at + self.size]
            out += b"%x" % len(piece)
            if signed:
                previous = chunk_signature(secret, timestamp, previous, piece)
                out += f";chunk-signature={self.spoil(index, previous)}".encode()
            out += b"\r\n" + piece + (b"\r\n" if piece else b"")
        if not self.has_trailer:
            return bytes(out + b"\r\n")
        line = f"x-amz-checksum-{self.algorithm}:{self.checksum or digest_of(self.algorithm, body)}".encode()
        if not signed:
            return bytes(out + line + self.end + b"\r\n")
        signature = self.spoil(-1, trailer_signature(secret, timestamp, previous, line + b"\n"))
        return bytes(out + line + self.end + f"x-amz-trailer-signature:{signature}\r\n\r\n".encode())
