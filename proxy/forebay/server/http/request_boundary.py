"""Where on a connection the next request begins, as far as that is beyond doubt.

The fast lane reads heads for itself; everything else is parsed by aiohttp. Two parsers on one connection must never
disagree about where a request begins. So bytes that go to aiohttp are followed here, by the plainest framing only: one
head, whole, and as many bytes of body as its Content-Length says. Whatever is less plain (a head in two pieces, chunked
framing, bytes of a next request behind a body) makes the connection one that only aiohttp reads from then on.
"""


class RequestBoundary:
    """Follows the bytes that go to aiohttp. Begins clean."""

    __slots__ = ("_body", "_is_lost", "is_clean")

    def __init__(self) -> None:
        self._body = 0
        self._is_lost = False
        self.is_clean = True
        """Whether the next byte is certain to be the first of a request."""

    def follow(self, data: bytes) -> int:
        """These bytes go to aiohttp. None at all is how it asks itself to go on with what it has.

        How many of them certainly belong to the request under way, if more have come; otherwise all.
        """
        if self._is_lost or not data:
            return len(data)
        if self._body:
            self._body -= len(data)
        else:
            self._follow_head(data)
        own = len(data) + min(0, self._body)
        if self._body < 0:
            self._is_lost = True
        self.is_clean = not self._is_lost and self._body == 0
        return own

    def _follow_head(self, data: bytes) -> None:
        end = data.find(b"\r\n\r\n")
        head = data[: end + 2].lower()
        lengths = head.count(b"\r\ncontent-length:")
        if end < 0 or lengths > 1 or b"\r\ntransfer-encoding:" in head or b"\r\nupgrade:" in head:
            self._is_lost = True
            return
        length = b"0"
        if lengths:
            start = head.index(b"\r\ncontent-length:") + len(b"\r\ncontent-length:")
            length = head[start : head.index(b"\r\n", start)].strip(b" \t")
        if not length.isdigit() or len(length) > 18:
            self._is_lost = True
            return
        self._body = int(length) - (len(data) - end - 4)
