"""A decoder of HTTP's chunked transfer coding. Pure; RFC 9112, 7.1. (Not S3's aws-chunked.)

    size in hex [;extension] CRLF   bytes   CRLF   ...   0 CRLF   trailer fields   CRLF

Extensions and trailer fields are ignored. Anything else is MalformedHttp.
"""

import re
from typing import Final

from forebay.core.errors import MalformedHttp
from forebay.origin.http.response_head import MAX_HEAD

_SIZE: Final = re.compile(rb"([0-9A-Fa-f]{1,15})[ \t]*(?:;[^\0\r\n]*)?")


class ChunkedDecoder:
    """Decodes a body as it arrives."""

    __slots__ = ("_left", "_line", "_state", "ended")

    def __init__(self) -> None:
        self._state = "size"
        self._line = bytearray()
        self._left = 0
        self.ended = False
        """Whether the body has ended. Later bytes are of the next response."""

    def decode(self, received: memoryview) -> tuple[bytes, int]:
        """The bytes of the body in `received`, and how many bytes of it were used: all, unless the body ended.

        Raises MalformedHttp.
        """
        decoded: list[memoryview] = []
        at = 0
        while at < len(received) and not self.ended:
            if self._left:
                used = min(self._left, len(received) - at)
                decoded.append(received[at : at + used])
                self._left -= used
                at += used
                continue
            at += self._collect(received[at:])
        return b"".join(decoded), at

    def _collect(self, received: memoryview) -> int:
        """Uses bytes up to the end of a line; returns how many."""
        ahead = bytes(received[: MAX_HEAD + 1])
        end = ahead.find(b"\n")
        used = len(ahead) if end < 0 else end + 1
        self._line += ahead[:used]
        if len(self._line) > MAX_HEAD:
            raise MalformedHttp
        if end >= 0:
            if not self._line.endswith(b"\r\n"):
                raise MalformedHttp
            self._line_ended(bytes(self._line[:-2]))
            self._line.clear()
        return used

    def _line_ended(self, line: bytes) -> None:
        match self._state:
            case "size":
                size = _SIZE.fullmatch(line)
                if size is None:
                    raise MalformedHttp
                self._left = int(size[1], 16)
                self._state = "after" if self._left else "trailer"
            case "after":  # the line that ends a chunk's bytes
                if line:
                    raise MalformedHttp
                self._state = "size"
            case _:
                self.ended = not line
