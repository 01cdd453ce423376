"""The body of a request: in which form it comes, how long it is, and whether it is what was signed.

    payload_form(headers, signed) -> Hashed | Unsigned | AwsChunked       from x-amz-content-sha256
    BodyReader(form, signed, headers): feed ... feed, close -> Ended      the decoded bytes, checked

The discipline of a body that is forwarded while it arrives: **nothing completes before it was checked**. The piece
that completes the body is withheld until `close` has found everything right. Whoever forwards with the decoded length
announced therefore can't have sent a whole body that was bad; on any S3Error it aborts, and the receiver sees a short
body. An empty body has nothing to withhold: call `close` before anything is sent.

Hashing takes the time of the bytes: call `feed` in a thread where pieces are large. One call at a time.

https://docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html
"""

from dataclasses import dataclass
from hashlib import sha256
from typing import Final, Literal, NamedTuple, TypeAlias, assert_never

from forebay.protocol.awschunked import Decoder
from forebay.protocol.checksums import Check, Piece, algorithm_of, checks_of
from forebay.protocol.chunkchain import ChunkChain, Mode
from forebay.protocol.claims import UNSIGNED_PAYLOAD
from forebay.protocol.headers import Headers, single
from forebay.protocol.signed import Signed, SignedV4
from forebay.words.errors import S3Error

MAX_BODY: Final = 5 * 2**30  # S3's bound of a single upload

_DECODED_LENGTH: Final = "x-amz-decoded-content-length"
_MODES: Final = {mode.value: mode for mode in Mode}
_HEX: Final = frozenset("0123456789abcdef")


@dataclass(frozen=True, slots=True)
class Hashed:
    """The body as it is; its SHA-256 was given beforehand."""

    sha256: str
    """Lower-case hex."""


@dataclass(frozen=True, slots=True)
class Unsigned:
    """The body as it is; no signature covers it."""


@dataclass(frozen=True, slots=True)
class AwsChunked:
    """The body in aws-chunked framing."""

    mode: Mode


PayloadForm: TypeAlias = Hashed | Unsigned | AwsChunked


class Ended(NamedTuple):
    """A body that was found right."""

    pieces: list[Piece]
    """What was withheld: the last bytes."""
    trailers: dict[str, str]
    """As sent, lower-case names."""
    checksums: dict[str, str]
    """Every checksum that was verified, header or trailer, by its lower-case name: fit to be passed on."""


def payload_form(headers: Headers, signed: Signed | None) -> PayloadForm:
    """The form of the body. `signed` is None where nobody checks signatures, or for an anonymous request.

    What is covered by the signature decides, never a header beside it. Raises S3Error: NotImplemented (SigV4A),
    InvalidArgument (anything unknown; framing that is announced but not signed for), InvalidRequest.
    """
    framed = _says_framed(headers)
    if signed is not None:
        value = signed.payload
    else:
        unsaid = Mode.UNSIGNED_TRAILER.value if framed else UNSIGNED_PAYLOAD
        value = single(headers, "x-amz-content-sha256") or unsaid
    mode = _MODES.get(value)
    if mode is not None:
        if signed is not None and not isinstance(signed, SignedV4):
            raise _invalid("Only Signature Version 4 of S3 has aws-chunked bodies.")
        if mode.signed and signed is not None and signed.form == "query":
            raise _invalid("A presigned URL can't have signed chunks.")
        return AwsChunked(mode)
    if framed:
        # Otherwise the framing would become content, silently.
        raise _invalid("The body is announced as aws-chunked, but x-amz-content-sha256 does not say so.")
    if value == UNSIGNED_PAYLOAD:
        return Unsigned()
    digest = value.lower()
    if len(digest) == 64 and _HEX.issuperset(digest):
        return Hashed(digest)
    if value.startswith("STREAMING-AWS4-ECDSA-P256-SHA256-PAYLOAD"):
        raise S3Error("NotImplemented", "Signature Version 4A is not implemented; please sign with Version 4.")
    raise _invalid("x-amz-content-sha256 must be UNSIGNED-PAYLOAD, a STREAMING- form that is known, or a SHA-256.")


class BodyReader:
    """Reads one body in its form. After an S3Error it is of no more use."""

    def __init__(
        self,
        form: PayloadForm,
        signed: Signed | None,
        headers: Headers,
        checksums: Literal["body", "object"] = "body",
    ) -> None:
        """`checksums`: what x-amz-checksum-* headers speak of. In CompleteMultipartUpload it is the object that comes
        into being, which can't be checked here; everywhere else it is the body.

        Raises S3Error: MissingContentLength, EntityTooLarge, InvalidArgument, InvalidRequest, InvalidDigest,
        NotImplemented.
        """
        self._decoder: Decoder | None = None
        self._sha256 = None
        self._expected_sha256 = ""
        self._checks = checks_of(headers)
        if checksums == "object":
            self._checks = [check for check in self._checks if check.header == "content-md5"]
        match form:
            case Hashed():
                self.length = _plain_length(headers)
                self._sha256, self._expected_sha256 = sha256(), form.sha256
            case Unsigned():
                self.length = _plain_length(headers)
            case AwsChunked():
                self.length = _decoded_length(headers)
                trailer = _announced_trailer(headers, form.mode)
                if trailer is not None:
                    self._checks.append(Check(trailer))
                self._decoder = Decoder(form.mode, self.length, trailer, _chain(signed))
            case _:
                assert_never(form)
        self._received = 0
        self._withheld: list[Piece] = []

    length: int
    """Decoded bytes to expect."""

    def feed(self, piece: Piece) -> list[Piece]:
        """The body bytes that may be forwarded now. Raises S3Error IncompleteBody, SignatureDoesNotMatch, ..."""
        decoded: list[Piece] = [piece] if self._decoder is None else [*self._decoder.feed(piece)]
        ready: list[Piece] = []
        for run in decoded:
            if not len(run):
                continue
            self._received += len(run)
            if self._received > self.length:
                raise S3Error("IncompleteBody", "The body is longer than was announced.")
            if self._sha256 is not None:
                self._sha256.update(run)
            for check in self._checks:
                check.update(run)
            (ready if self._received < self.length else self._withheld).append(run)
        return ready

    def close(self) -> Ended:
        """The end of the body, when all was found right.

        Raises S3Error: IncompleteBody, XAmzContentSHA256Mismatch, BadDigest, InvalidRequest, SignatureDoesNotMatch.
        """
        trailers = self._decoder.close() if self._decoder is not None else {}
        if self._received != self.length:
            raise S3Error("IncompleteBody")
        if self._sha256 is not None:
            found = self._sha256.hexdigest()
            if found != self._expected_sha256:
                raise S3Error(
                    "XAmzContentSHA256Mismatch",
                    ClientComputedContentSHA256=self._expected_sha256,
                    S3ComputedContentSHA256=found,
                )
        verified = {check.header: check.finish(trailers) for check in self._checks}
        withheld, self._withheld = self._withheld, []
        return Ended(withheld, trailers, verified)


def _says_framed(headers: Headers) -> bool:
    """Whether headers other than x-amz-content-sha256 announce aws-chunked framing."""
    if _DECODED_LENGTH not in headers:
        return False
    encodings = ",".join(headers.getall("content-encoding", ())).split(",")
    return any(encoding.strip(" \t").lower() == "aws-chunked" for encoding in encodings)


def _chain(signed: Signed | None) -> ChunkChain | None:
    if not isinstance(signed, SignedV4):
        return None  # nothing else has chunks: payload_form refuses them
    return ChunkChain(signed.signing_key, signed.timestamp, signed.scope, signed.signature)


def _announced_trailer(headers: Headers, mode: Mode) -> str | None:
    value = single(headers, "x-amz-trailer")
    if not value:
        if mode is Mode.SIGNED_TRAILER:
            raise S3Error("InvalidRequest", "x-amz-trailer must name the trailer that is signed.")
        return None
    name = value.lower()
    if not mode.trailing or not name.startswith("x-amz-checksum-"):
        raise S3Error("InvalidRequest", "x-amz-trailer must name one checksum, in a form that has a trailer.")
    algorithm_of(name)
    return name


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
    if value is None:
        raise S3Error("MissingContentLength", f"{_DECODED_LENGTH} is required for an aws-chunked body.")
    return _length(value, _DECODED_LENGTH)


def _length(value: str, name: str) -> int:
    if not (value.isascii() and value.isdigit() and len(value) <= 19):
        raise S3Error("InvalidArgument", f"{name} is not a length.", ArgumentName=name)
    length = int(value)
    if length > MAX_BODY:
        raise S3Error("EntityTooLarge", MaxSizeAllowed=str(MAX_BODY), ProposedSize=value)
    return length


def _invalid(message: str) -> S3Error:
    return S3Error("InvalidArgument", message, ArgumentName="x-amz-content-sha256")
