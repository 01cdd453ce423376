"""From the bytes that came to the bytes that are meant: aws-chunked framing, chunk signatures, digests, checksums.

https://docs.aws.amazon.com/AmazonS3/latest/API/sigv4-streaming.html and .../sigv4-streaming-trailers.html. Bodies
are held whole: this is a test server.
"""

import base64
import binascii
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field

from harness.fake.authority import Proof
from harness.fake.checksums import ALGORITHMS, digest_of
from harness.fake.errors import Refusal
from harness.fake.s3_request import S3Request
from harness.reference_sigv4 import (
    SIGNED_CHUNKS,
    SIGNED_CHUNKS_TRAILER,
    UNSIGNED,
    UNSIGNED_CHUNKS_TRAILER,
    chunk_signature,
    trailer_signature,
)

_FRAMED = frozenset({SIGNED_CHUNKS, SIGNED_CHUNKS_TRAILER, UNSIGNED_CHUNKS_TRAILER})


@dataclass(frozen=True, slots=True)
class Payload:
    body: bytes
    checksums: tuple[tuple[str, str], ...] = field(default=())
    """Those that the client sent and that hold."""


def _malformed() -> Refusal:
    return Refusal("IncompleteBody", "The aws-chunked body is malformed or ended early.")


def _unframe(raw: bytes, s3_request: S3Request, proof: Proof | None, kind: str) -> tuple[bytes, dict[str, str]]:
    """Undoes aws-chunked. `proof` None: signatures are not verified."""
    signed = proof if kind != UNSIGNED_CHUNKS_TRAILER else None
    previous = signed.signature if signed else ""
    pieces: list[memoryview] = []
    view, at = memoryview(raw), 0
    while True:
        end = raw.find(b"\r\n", at)
        size_text, _, extension = raw[at:end].partition(b";") if end >= 0 else (b"", b"", b"")
        try:
            size = int(size_text, 16)
        except ValueError:
            raise _malformed() from None
        piece = view[end + 2 : end + 2 + size]
        if piece.nbytes != size:
            raise _malformed()
        if signed:
            given = extension.removeprefix(b"chunk-signature=").decode("ascii", "replace")
            expected = chunk_signature(signed.secret, signed.timestamp, previous, piece)
            if given != expected:
                raise Refusal("SignatureDoesNotMatch", "The chunk signature does not match.")
            previous = expected
        at = end + 2 + size
        if size == 0:
            break
        pieces.append(piece)
        if raw[at : at + 2] != b"\r\n":
            raise _malformed()
        at += 2
    trailers = _trailers(raw[at:], s3_request, signed, previous) if kind != SIGNED_CHUNKS else {}
    body = b"".join(pieces)
    length = s3_request.headers.get("x-amz-decoded-content-length")
    if length is None:
        raise Refusal("MissingContentLength", "x-amz-decoded-content-length is missing.")
    if length != str(len(body)):
        raise _malformed()
    return body, trailers


def _trailers(raw: bytes, s3_request: S3Request, signed: Proof | None, previous: str) -> dict[str, str]:
    lines = [line.strip() for line in raw.decode("latin-1").replace("\r\n", "\n").split("\n") if line.strip()]
    found = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    given = found.pop("x-amz-trailer-signature", None)
    announced = s3_request.headers.get("x-amz-trailer", "").lower()
    if set(found) != ({announced} if announced else set()):
        raise Refusal("MalformedTrailerError", "The trailers are not those that x-amz-trailer announced.")
    if signed:
        text = "".join(f"{name}:{value}\n" for name, value in found.items()).encode()
        if given != trailer_signature(signed.secret, signed.timestamp, previous, text):
            raise Refusal("SignatureDoesNotMatch", "The trailer signature does not match.")
    return found


def _check_md5(s3_request: S3Request, body: bytes) -> None:
    given = s3_request.headers.get("Content-MD5")
    if given is None:
        return
    try:
        digest = base64.b64decode(given, validate=True)
    except binascii.Error:
        digest = b""
    if len(digest) != 16:
        raise Refusal("InvalidDigest", "The Content-MD5 you specified was invalid.")
    if digest != hashlib.md5(body, usedforsecurity=False).digest():
        raise Refusal("BadDigest", "The Content-MD5 you specified did not match what we received.")


def read(raw: bytes, s3_request: S3Request, proof: Proof | None) -> Payload:
    """The payload, verified. Without a proof (verification is off) signatures and the payload hash are believed."""
    kind = proof.payload if proof else s3_request.headers.get("x-amz-content-sha256", UNSIGNED)
    body, trailers = raw, dict[str, str]()
    if kind in _FRAMED:
        body, trailers = _unframe(raw, s3_request, proof, kind)
    elif kind.startswith("STREAMING-"):
        raise Refusal("NotImplemented", f"{kind} is not implemented.")
    elif proof and kind != UNSIGNED and kind != hashlib.sha256(body).hexdigest():
        raise Refusal(
            "XAmzContentSHA256Mismatch", "The provided 'x-amz-content-sha256' header does not match what was computed."
        )
    return checksums_of(s3_request, body, trailers)


def checksums_of(s3_request: S3Request, body: bytes, trailers: Mapping[str, str]) -> Payload:
    """The body, once its MD5 and its checksums were found right."""
    _check_md5(s3_request, body)
    held = []
    # That of a completion is of the whole object.
    for algorithm in ALGORITHMS if s3_request.operation != "CompleteMultipartUpload" else ():
        name = f"x-amz-checksum-{algorithm}"
        given = s3_request.headers.get(name) or trailers.get(name)
        if given is None:
            continue
        if given != digest_of(algorithm, body):
            raise Refusal("BadDigest", f"The {algorithm.upper()} you specified did not match the calculated checksum.")
        held.append((algorithm, given))
    return Payload(body, tuple(held))
