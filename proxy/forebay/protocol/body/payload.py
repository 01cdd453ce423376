"""The body of a request: its form, its length, and its verification.

    payload_form(headers, signed) -> HashedPayload | UnsignedPayload | AwsChunkedPayload     from x-amz-content-sha256
    PayloadReader(form, signed, headers): feed ... feed, close -> VerifiedPayload            the decoded bytes

Invariant of a body that is forwarded while it arrives: **nothing completes before it is verified**. The piece that
completes the body is withheld until `close` has verified everything. A sender that announces the decoded length
therefore never sends a complete bad body: on any S3Error it aborts, and the receiver sees a short body. An empty body
has nothing to withhold: `close` comes before anything is sent.

Hashing takes time in proportion to the bytes: large pieces are fed in a thread, one call at a time, or the bytes are
checked elsewhere (`check_by`). Where other work shares the thread, `feed_in_steps` replaces `feed`.

https://docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias, assert_never

from forebay.core.buffers import Piece
from forebay.core.errors import S3Error
from forebay.protocol.body.aws_chunked_decoder import AwsChunkedDecoder, wrong_length
from forebay.protocol.body.chunk_signatures import ChunkedMode, ChunkSignatureChain
from forebay.protocol.body.declared_checksums import Kind, declared_checksums
from forebay.protocol.body.payload_checks import PayloadChecks
from forebay.protocol.header_map import Headers, single
from forebay.protocol.signatures.sigv4_claim import SIGV4A_STREAMING, UNSIGNED_PAYLOAD, is_sha256
from forebay.protocol.signatures.verified_signature import Signed, SignedV4

MAX_BODY: Final = 5 * 2**30  # S3's bound of a single upload

_SMALL: Final = 4096
"""Bytes. Pieces that are smaller on average are joined."""
_DECODED_LENGTH: Final = "x-amz-decoded-content-length"
_MODES: Final = {mode.value: mode for mode in ChunkedMode}


@dataclass(frozen=True, slots=True)
class HashedPayload:
    """A plain body with a declared SHA-256."""

    declared: str
    """The declared value, unchanged."""
    sha256: str | None = field(init=False, compare=False)
    """The hash in lower-case hex; None if the declared value is no hash, so that no body matches it."""

    def __post_init__(self) -> None:
        sha256 = self.declared.lower() if is_sha256(self.declared) else None
        object.__setattr__(self, "sha256", sha256)  # once, as it is looked at twice


@dataclass(frozen=True, slots=True)
class UnsignedPayload:
    """A plain body that no signature covers."""


@dataclass(frozen=True, slots=True)
class AwsChunkedPayload:
    """A body in aws-chunked framing."""

    mode: ChunkedMode


PayloadForm: TypeAlias = HashedPayload | UnsignedPayload | AwsChunkedPayload


class VerifiedPayload(NamedTuple):
    """The end of a body that was verified."""

    pieces: list[Piece]
    """The withheld last bytes of the body."""
    trailers: dict[str, str]
    """The trailers, unchanged, by lower-case name."""
    checksums: dict[str, str]
    """Every verified checksum, header or trailer, by its lower-case name; these may be forwarded."""


def payload_form(headers: Headers, signed: Signed | None) -> PayloadForm:
    """The form of the body. `signed`: None for a listener without signatures, or an anonymous request.

    The signed value decides, never an unsigned header. As at S3, only a Version 4 signature in the Authorization header
    allows aws-chunked; with any other signature x-amz-content-sha256 can only be the hash of the body, and no body
    matches another value.

    Raises S3Error: NotImplemented (SigV4A), InvalidArgument (announced framing that is not signed).
    """
    framed = _announces_framing(headers)
    if signed is None:
        default = ChunkedMode.UNSIGNED_TRAILER.value if framed else UNSIGNED_PAYLOAD
        value, may_be_chunked = single(headers, "x-amz-content-sha256") or default, True
    else:
        value, may_be_chunked = signed.payload, isinstance(signed, SignedV4) and signed.form == "header"
    if may_be_chunked:
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
    """Returns the pieces, joined if they are small: many small pieces cost more than a copy."""
    small = len(pieces) > 1 and sum(map(len, pieces)) < _SMALL * len(pieces)
    return [b"".join(pieces)] if small else pieces


def can_never_verify(form: PayloadForm) -> bool:
    """Whether no body can match the declared hash, because it is none."""
    return isinstance(form, HashedPayload) and form.sha256 is None


class PayloadReader:
    """Decodes and verifies one body. Not to be used after an S3Error."""

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
        self.hashes_chunks = False
        trailing = isinstance(form, AwsChunkedPayload) and form.mode.has_trailer
        checks, self.trailer = declared_checksums(headers, kind, trailing=trailing)
        match form:
            case HashedPayload():
                self.length = _decoded_length(headers) if form.declared in _MODES else _plain_length(headers)
            case UnsignedPayload():
                self.length = _plain_length(headers)
            case AwsChunkedPayload():
                self.length = _decoded_length(headers)
                chain = _chain(signed)
                self._decoder = AwsChunkedDecoder(form.mode, self.length, self.trailer, chain)
                self.hashes_chunks = self._decoder.hashes
            case _:
                assert_never(form)
        self.checks = PayloadChecks(checks, form.declared if isinstance(form, HashedPayload) else None)
        self._check: Callable[[Sequence[Piece]], None] = self.checks.update
        self._received = 0
        self._withheld: list[Piece] = []

    length: int
    """Decoded bytes to expect."""
    trailer: str | None
    """The lower-case name of the announced checksum after the body."""
    hashes_chunks: bool
    """Whether decoding hashes the bytes, as each chunk is signed."""

    def check_by(self, put: Callable[[Sequence[Piece]], None]) -> None:
        """Hands the decoded bytes to `put`, in order, instead of checking them. `checks` must have been updated with
        all of them before `close` is called. To be called before the first `feed`."""
        self._check = put

    def feed(self, piece: Piece) -> list[Piece]:
        """The body bytes that may be forwarded now.

        Raises S3Error IncompleteBody and the errors of AwsChunkedDecoder.feed.
        """
        return [run for runs in self.feed_in_steps(piece) for run in runs]

    @property
    def is_framed(self) -> bool:
        """Whether the bytes are decoded: those of any other body are its content."""
        return self._decoder is not None

    def feed_content(self, piece: Piece) -> list[Piece]:
        """`feed` of a body that is not framed."""
        return self._update((piece,))

    def verify_content(self, content: Piece) -> VerifiedPayload:
        """`feed_content` and `close` of a whole body that is not framed: all of it is withheld. Raises as `close`."""
        self._received = len(content)
        if self._received != self.length:
            raise wrong_length(self.length, self._received)
        if not self._received:
            return VerifiedPayload([], {}, self.checks.verify({}))
        self._check((content,))
        return VerifiedPayload([content], {}, self.checks.verify({}))

    def feed_in_steps(self, piece: Piece) -> Iterator[list[Piece]]:
        """`feed` in short steps, however small the chunks are. The iterator must be exhausted."""
        if self._decoder is None:
            yield self.feed_content(piece)
            return
        for decoded in self._decoder.feed_in_steps(piece):
            yield self._update(join_small_pieces(decoded))

    def _update(self, decoded: Sequence[Piece]) -> list[Piece]:
        """Adds decoded bytes to the checks. Returns the bytes that may pass on."""
        forwardable: list[Piece] = []
        for run in decoded:
            if not len(run):
                continue
            self._received += len(run)
            if self._received > self.length:
                raise wrong_length(self.length, self._received)
            self._check((run,))
            (forwardable if self._received < self.length else self._withheld).append(run)
        return forwardable

    def close(self) -> VerifiedPayload:
        """The end of the body, after the verification of everything.

        Raises S3Error: IncompleteBody, XAmzContentSHA256Mismatch, BadDigest, InvalidRequest, SignatureDoesNotMatch.
        """
        trailers = self._decoder.close() if self._decoder is not None else {}
        if self._received != self.length:
            raise wrong_length(self.length, self._received)
        verified = self.checks.verify(trailers)
        withheld, self._withheld = self._withheld, []
        return VerifiedPayload(withheld, trailers, verified)


def _announces_framing(headers: Headers) -> bool:
    """Whether headers other than x-amz-content-sha256 announce aws-chunked framing."""
    if _DECODED_LENGTH not in headers:
        return False
    encodings = ",".join(headers.getall("content-encoding", ())).split(",")
    return any(encoding.strip(" \t").lower() == "aws-chunked" for encoding in encodings)


def _chain(signed: Signed | None) -> ChunkSignatureChain | None:
    """The chain of chunk signatures; None for a listener without signatures."""
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
            # As S3 itself: an upload must declare its length.
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
