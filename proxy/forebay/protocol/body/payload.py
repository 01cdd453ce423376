"""The body of a request: in which form it comes, how long it is, and whether it is what was signed.

    payload_form(headers, signed) -> Hashed | Unsigned | AwsChunked       from x-amz-content-sha256
    BodyReader(form, signed, headers): feed ... feed, close -> Ended      the decoded bytes, checked

The discipline of a body that is forwarded while it arrives: **nothing completes before it was checked**. The piece
that completes the body is withheld until `close` has found everything right. Whoever forwards with the decoded length
announced therefore can't have sent a whole body that was bad; on any S3Error it aborts, and the receiver sees a short
body. An empty body has nothing to withhold: call `close` before anything is sent.

Hashing takes the time of the bytes: call `feed` in a thread where pieces are large. One call at a time; where others
wait for the same thread, `stretches` in place of `feed`.

https://docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Final, NamedTuple, TypeAlias, assert_never

from forebay.core.errors import S3Error
from forebay.protocol.body.aws_chunked_decoder import AwsChunkedDecoder, wrong_length
from forebay.protocol.body.checksums import Piece
from forebay.protocol.body.chunk_signatures import ChunkedMode, ChunkSignatureChain
from forebay.protocol.body.declared_checksums import Kind, declared_checksums
from forebay.protocol.header_map import Headers, single
from forebay.protocol.signatures.sigv4_claim import SIGV4A_STREAMING, UNSIGNED_PAYLOAD, is_sha256
from forebay.protocol.signatures.verified import Signed, SignedV4

MAX_BODY: Final = 5 * 2**30  # S3's bound of a single upload

_SMALL: Final = 4096
"""Bytes of a piece below which it is joined with its neighbours."""
_DECODED_LENGTH: Final = "x-amz-decoded-content-length"
_MODES: Final = {mode.value: mode for mode in ChunkedMode}


@dataclass(frozen=True, slots=True)
class HashedPayload:
    """The body as it is; its SHA-256 was given beforehand."""

    declared: str
    """As it was given."""

    @property
    def sha256(self) -> str | None:
        """In lower-case hex; None if what was said is no hash, and so never the body's."""
        return self.declared.lower() if is_sha256(self.declared) else None


@dataclass(frozen=True, slots=True)
class UnsignedPayload:
    """The body as it is; no signature covers it."""


@dataclass(frozen=True, slots=True)
class AwsChunkedPayload:
    """The body in aws-chunked framing."""

    mode: ChunkedMode


PayloadForm: TypeAlias = HashedPayload | UnsignedPayload | AwsChunkedPayload


class VerifiedPayload(NamedTuple):
    """A body that was found right."""

    pieces: list[Piece]
    """What was withheld: the last bytes."""
    trailers: dict[str, str]
    """As sent, lower-case names."""
    checksums: dict[str, str]
    """Every checksum that was verified, header or trailer, by its lower-case name: fit to be passed on."""


def payload_form(headers: Headers, signed: Signed | None) -> PayloadForm:
    """The form of the body. `signed` is None where nobody checks signatures, or for an anonymous request.

    What is covered by the signature decides, never a header beside it. Only a Version 4 signature in the header brings
    aws-chunks, as at S3: elsewhere x-amz-content-sha256 can only be the body's hash, and if it is something else then
    the body is not what it says. Raises S3Error: NotImplemented (SigV4A), InvalidArgument (framing that is announced
    but not signed for).
    """
    framed = _says_framed(headers)
    if signed is None:
        unsaid = ChunkedMode.UNSIGNED_TRAILER.value if framed else UNSIGNED_PAYLOAD
        value, takes_chunks = single(headers, "x-amz-content-sha256") or unsaid, True
    else:
        value, takes_chunks = signed.payload, isinstance(signed, SignedV4) and signed.form == "header"
    if takes_chunks:
        if value in _MODES:
            return AwsChunkedPayload(_MODES[value])
        if value in SIGV4A_STREAMING:
            raise S3Error("NotImplemented", "Signature Version 4A is not implemented; please sign with Version 4.")
    if framed and value not in _MODES:
        # Otherwise the framing would become content, silently.
        message = "The body is announced as aws-chunked, but x-amz-content-sha256 does not say so."
        raise S3Error("InvalidArgument", message, ArgumentName="x-amz-content-sha256")
    return UnsignedPayload() if value == UNSIGNED_PAYLOAD else HashedPayload(value)


def join_small_pieces(pieces: Sequence[Piece]) -> Sequence[Piece]:
    """The same bytes: wherever they go, many small pieces cost more than to copy them into one."""
    small = len(pieces) > 1 and sum(map(len, pieces)) < _SMALL * len(pieces)
    return [b"".join(pieces)] if small else pieces


def can_never_verify(form: PayloadForm) -> bool:
    """Whether no body at all is what was said of it."""
    return isinstance(form, HashedPayload) and form.sha256 is None


class PayloadReader:
    """Reads one body in its form. After an S3Error it is of no more use."""

    def __init__(
        self,
        form: PayloadForm,
        signed: Signed | None,
        headers: Headers,
        kind: Kind = "content",
    ) -> None:
        """Raises S3Error: MissingContentLength, EntityTooLarge, InvalidArgument, InvalidRequest, InvalidDigest,
        MalformedTrailerError, NotImplemented.
        """
        self._decoder: AwsChunkedDecoder | None = None
        self._sha256 = None
        self._hashed: HashedPayload | None = None
        trailing = isinstance(form, AwsChunkedPayload) and form.mode.has_trailer
        self._checks, self.trailer = declared_checksums(headers, kind, trailing=trailing)
        match form:
            case HashedPayload():
                self.length = _decoded_length(headers) if form.declared in _MODES else _plain_length(headers)
                self._sha256, self._hashed = sha256(), form
            case UnsignedPayload():
                self.length = _plain_length(headers)
            case AwsChunkedPayload():
                self.length = _decoded_length(headers)
                self._decoder = AwsChunkedDecoder(form.mode, self.length, self.trailer, _chain(signed))
            case _:
                assert_never(form)
        self._received = 0
        self._withheld: list[Piece] = []

    length: int
    """Decoded bytes to expect."""
    trailer: str | None
    """The checksum that will follow the body, by its lower-case name."""

    def feed(self, piece: Piece) -> list[Piece]:
        """The body bytes that may be forwarded now. Raises S3Error IncompleteBody, SignatureDoesNotMatch, ..."""
        return [run for stretch in self.feed_in_steps(piece) for run in stretch]

    def feed_in_steps(self, piece: Piece) -> Iterator[list[Piece]]:
        """The same, in stretches none of which takes long, however small the chunks are. To be read to its end."""
        if self._decoder is None:
            yield self._checked([piece])
            return
        for decoded in self._decoder.feed_in_steps(piece):
            yield self._checked(join_small_pieces(decoded))

    def _checked(self, decoded: Sequence[Piece]) -> list[Piece]:
        ready: list[Piece] = []
        for run in decoded:
            if not len(run):
                continue
            self._received += len(run)
            if self._received > self.length:
                raise wrong_length(self.length, self._received)
            if self._sha256 is not None:
                self._sha256.update(run)
            for check in self._checks:
                check.update(run)
            (ready if self._received < self.length else self._withheld).append(run)
        return ready

    def close(self) -> VerifiedPayload:
        """The end of the body, when all was found right.

        Raises S3Error: IncompleteBody, XAmzContentSHA256Mismatch, BadDigest, InvalidRequest, SignatureDoesNotMatch.
        """
        trailers = self._decoder.close() if self._decoder is not None else {}
        if self._received != self.length:
            raise wrong_length(self.length, self._received)
        if self._sha256 is not None and self._hashed is not None:
            found = self._sha256.hexdigest()
            if found != self._hashed.sha256:
                raise S3Error(
                    "XAmzContentSHA256Mismatch",
                    ClientComputedContentSHA256=self._hashed.declared,
                    S3ComputedContentSHA256=found,
                )
        verified = {check.header: check.finish(trailers) for check in self._checks}
        withheld, self._withheld = self._withheld, []
        return VerifiedPayload(withheld, trailers, verified)


def _says_framed(headers: Headers) -> bool:
    """Whether headers other than x-amz-content-sha256 announce aws-chunked framing."""
    if _DECODED_LENGTH not in headers:
        return False
    encodings = ",".join(headers.getall("content-encoding", ())).split(",")
    return any(encoding.strip(" \t").lower() == "aws-chunked" for encoding in encodings)


def _chain(signed: Signed | None) -> ChunkSignatureChain | None:
    """The chain of chunk signatures; None where nobody checks signatures."""
    if not isinstance(signed, SignedV4):
        return None
    return ChunkSignatureChain(
        signed.signing_key,
        signed.timestamp,
        signed.scope,
        signed.signature,
        signed.access_key,
        signed.text.whole,
    )


def _plain_length(headers: Headers) -> int:
    value = single(headers, "content-length")
    if value is None:
        if "transfer-encoding" in headers:
            # S3 itself answers so: an upload must say beforehand how long it is.
            raise S3Error("MissingContentLength")
        return 0
    return _length(value, "Content-Length")


def _decoded_length(headers: Headers) -> int:
    value = single(headers, _DECODED_LENGTH)
    if value is None or not value.removeprefix("-").isdecimal():
        raise S3Error("MissingContentLength")
    return _length(value, _DECODED_LENGTH)


def _length(value: str, name: str) -> int:
    if not (value.isascii() and value.isdigit() and len(value) <= 19):
        raise S3Error("InvalidArgument", f"{name} is not a length.", ArgumentName=name, ArgumentValue=value)
    length = int(value)
    if length > MAX_BODY:
        raise S3Error("EntityTooLarge", MaxSizeAllowed=str(MAX_BODY), ProposedSize=value)
    return length
