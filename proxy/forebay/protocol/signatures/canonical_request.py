"""The canonical request of Signature Version 4: the one text that both ends of a signature derive from a request.

Used in both directions (forebay.protocol.signatures.sigv4 verifies, forebay.protocol.signatures.sigv4_signing signs),
so that they can't drift
apart. S3's rules, which differ from those of other services: the path is encoded once and never normalised.

    METHOD \\n path \\n query \\n header:value \\n ... \\n \\n header;names \\n payload

Text that came from the wire is expected to be UTF-8 with `surrogateescape`, so that any byte survives the round trip.

https://docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html
"""

from collections.abc import Iterable, Sequence
from typing import Final
from urllib.parse import unquote_to_bytes

_UNRESERVED: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~"
_PATH_BYTES: Final = _UNRESERVED + b"/"
_ESCAPED_PATH_BYTES: Final = _PATH_BYTES + b"%"
# The escapes that may stand in a canonical path: upper-case, and only of bytes that need one.
_ESCAPES: Final = frozenset(f"{byte:02X}" for byte in range(256) if byte not in _UNRESERVED)


def _percent_encode(raw: bytes, kept: bytes) -> str:
    """Every byte that is not among `kept` as %XX.

    Replacing each distinct odd byte in turn is several times faster than urllib's loop over all bytes, as a key or a
    query value rarely has more than a handful of them.
    """
    odd = raw.translate(None, kept)
    text = raw.decode("latin-1")
    if not odd:
        return text
    distinct = set(odd)
    if 0x25 in distinct:
        # Before the others, whose escapes bring percent signs of their own.
        text = text.replace("%", "%25")
        distinct.remove(0x25)
    for byte in distinct:
        text = text.replace(chr(byte), f"%{byte:02X}")
    return text


def encode_text(text: str) -> str:
    """A name or a value of the query, encoded as S3 does: all but the unreserved characters of RFC 3986."""
    return _percent_encode(text.encode("utf-8", "surrogateescape"), _UNRESERVED)


def encode_path(path: str) -> str:
    """The same for a path, whose slashes are kept."""
    return _percent_encode(path.encode("utf-8", "surrogateescape"), _PATH_BYTES)


def canonical_path(raw_path: str) -> str:
    """A percent-encoded path with its escapes normalised, segment by segment: `%2F` stays what it is."""
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
    """Decoded pairs, encoded again and sorted by encoded name, then by encoded value."""
    # Sorting `name=value` strings instead would put "a-b=" before "a=".
    encoded = sorted([(encode_text(name), encode_text(value)) for name, value in pairs])
    return "&".join([f"{name}={value}" for name, value in encoded])


def canonical_value(values: Sequence[str]) -> str:
    """The values of one header: trimmed, inner runs of blanks as one blank, several values joined by commas."""
    if len(values) == 1:
        return _trimmed(values[0])
    return ",".join([_trimmed(value) for value in values])


def _trimmed(value: str) -> str:
    if "  " in value or "\t" in value:
        return " ".join([word for word in value.replace("\t", " ").split(" ") if word])
    return value.strip(" ")
