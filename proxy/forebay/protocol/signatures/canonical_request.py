"""The canonical request of Signature Version 4, and the text that any signature covers.

Verification (forebay.protocol.signatures.sigv4) and signing (forebay.protocol.signatures.sigv4_signing) share this
code, so that they can't differ. S3's rules differ from those of other services: the path is encoded once and never
normalised.

    METHOD \\n path \\n query \\n header:value \\n ... \\n \\n header;names \\n payload

A verifier builds the text that it hashes in three pieces, `SignedText`. The pieces that differ from object to object
are the first and the last, so that the middle of one request can be reused to verify another request
(forebay.protocol.signatures.signature_template):

    version 4, in the header    METHOD \\n path \\n query \\n  |  headers, their names, payload        |
    version 4, in a URL         METHOD \\n path \\n           |  query, headers, their names, payload |
    versions 1 and 2            METHOD                      |  \\n MD5 \\n type \\n date \\n headers   |  resource

Text from the wire must be UTF-8 with `surrogateescape`, so that every byte survives encoding and decoding.

https://docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html
"""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple
from urllib.parse import unquote_to_bytes

_UNRESERVED: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~"
_PATH_BYTES: Final = _UNRESERVED + b"/"
_ESCAPED_PATH_BYTES: Final = _PATH_BYTES + b"%"
# The escapes of a canonical path: upper-case, and only of bytes that must be escaped.
_ESCAPES: Final = frozenset(f"{byte:02X}" for byte in range(256) if byte not in _UNRESERVED)


class SignedText(NamedTuple):
    """The text that a signature covers, in three pieces. The repr hides it: the client's token may be in it."""

    first: str
    middle: str
    last: str = ""

    @property
    def whole(self) -> str:
        """The whole text."""
        return "".join(self)

    @property
    def ends(self) -> tuple[bytes, bytes]:
        """The first and the last piece, encoded as they are hashed."""
        return self.first.encode("utf-8", "surrogateescape"), self.last.encode("utf-8", "surrogateescape")

    def __repr__(self) -> str:
        return "SignedText(...)"


NO_TEXT = SignedText("", "")


def _percent_encode(raw: bytes, kept: bytes) -> str:
    """Encodes every byte that is not in `kept` as %XX.

    A key or a query value rarely has more than a handful of distinct bytes to escape: one replacement for each is
    several times faster than urllib's loop over all bytes.
    """
    escaped = raw.translate(None, kept)
    text = raw.decode("latin-1")
    if not escaped:
        return text
    distinct = set(escaped)
    if 0x25 in distinct:
        # First, because the escapes of the other bytes contain percent signs.
        text = text.replace("%", "%25")
        distinct.remove(0x25)
    for byte in distinct:
        text = text.replace(chr(byte), f"%{byte:02X}")
    return text


def encode_text(text: str) -> str:
    """Percent-encodes a query name or value as S3 does: all but the unreserved characters of RFC 3986."""
    return _percent_encode(text.encode("utf-8", "surrogateescape"), _UNRESERVED)


def encode_path(path: str) -> str:
    """Percent-encodes a path as S3 does; slashes are kept."""
    return _percent_encode(path.encode("utf-8", "surrogateescape"), _PATH_BYTES)


def canonical_path(raw_path: str) -> str:
    """Returns a percent-encoded path with normalised escapes. `%2F` stays: each segment is decoded by itself."""
    escapes = raw_path.split("%")
    if not raw_path.encode("utf-8", "surrogateescape").translate(None, _ESCAPED_PATH_BYTES):
        for index in range(1, len(escapes)):
            if escapes[index][:2] not in _ESCAPES:
                break
        else:
            return raw_path or "/"
    segments = raw_path.encode("utf-8", "surrogateescape").split(b"/")
    return "/".join([_percent_encode(unquote_to_bytes(segment), _UNRESERVED) for segment in segments])


def canonical_query(pairs: Iterable[tuple[str, str]]) -> str:
    """Returns the canonical query of decoded pairs: encoded, then sorted by encoded name and encoded value."""
    # Sorting `name=value` strings would put "a-b=" before "a=".
    encoded = sorted([(encode_text(name), encode_text(value)) for name, value in pairs])
    return "&".join([f"{name}={value}" for name, value in encoded])


def canonical_value(values: Sequence[str]) -> str:
    """Returns the canonical value of a header: trimmed, runs of blanks collapsed, several values joined by commas."""
    if len(values) == 1:
        return _collapse_blanks(values[0])
    return ",".join([_collapse_blanks(value) for value in values])


def _collapse_blanks(value: str) -> str:
    if "  " in value or "\t" in value:
        return " ".join([word for word in value.replace("\t", " ").split(" ") if word])
    return value.strip(" ")
