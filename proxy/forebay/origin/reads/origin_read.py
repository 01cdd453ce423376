"""Origin reads: the GET or HEAD of an object at the origin, as headers of its request."""

from typing import Literal, NamedTuple

from forebay.core.byte_ranges import Span
from forebay.core.heads import HeaderPairs
from forebay.core.names import Version


class OriginRead(NamedTuple):
    """One read of an object. `pin` and `if_none_match` exclude each other."""

    method: Literal["GET", "HEAD"] = "GET"
    span: Span | None = None
    """None: all of it. A HEAD has none."""
    pin: Version | None = None
    """The version that must be the current one (`If-Match`). Its ETag names the bytes by itself; its version id is
    ignored."""
    if_none_match: Version | None = None
    """The version that the caller has: the object is read if another one is current."""
    version_id: str | None = None
    """None: the current version. The facts tell whether the origin obeyed."""

    def headers(self) -> HeaderPairs:
        """The range and the condition as headers."""
        pairs: list[tuple[str, str]] = []
        if self.span is not None:
            pairs.append(("Range", f"bytes={self.span.start}-{self.span.stop - 1}"))
        if self.pin is not None:
            pairs.append(("If-Match", self.pin.etag))
        if self.if_none_match is not None:
            pairs.append(("If-None-Match", self.if_none_match.etag))
        return tuple(pairs)
