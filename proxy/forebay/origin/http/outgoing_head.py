"""The head of a request without a body, as bytes. Pure. RFC 9112, 3 and 5."""

from collections.abc import Iterable
from typing import Final

from forebay.origin.endpoint import RequestUrl

_WITHOUT_CONTENT: Final = frozenset({"GET", "HEAD"})
"""The methods whose requests have no Content-Length of 0 (RFC 9110, 8.6)."""


def outgoing_head(method: str, url: RequestUrl, headers: Iterable[tuple[str, str]]) -> bytes:
    """Returns the head. Raises ValueError for a name or value that would break the line of its header."""
    return encoded_head(f"{method} {url.target} HTTP/1.1\r\n", header_lines(method, url.host, headers))


def header_lines(method: str, host: str, headers: Iterable[tuple[str, str]]) -> str:
    """Returns the header fields, each with the end of its line. Raises ValueError as above."""
    lines = [f"Host: {host}", *[f"{name}: {value}" for name, value in headers]]
    if method not in _WITHOUT_CONTENT:
        lines.append("Content-Length: 0")
    text = "".join([f"{line}\r\n" for line in lines])
    if not text.count("\r") == text.count("\n") == len(lines) or "\0" in text:
        raise ValueError("a control character in a header")
    return text


def encoded_head(first: str, lines: str) -> bytes:
    """Returns the head of a request line and header fields, each with the end of its line. Raises ValueError for a line
    that is several."""
    if not first.count("\r") == first.count("\n") == 1 or "\0" in first:
        raise ValueError("a control character in a request line")
    return f"{first}{lines}\r\n".encode()
