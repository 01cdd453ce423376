"""The text that a signature is of, in three pieces: what differs from object to object stands at its ends.

    version 4, in the header    METHOD \\n path \\n query \\n  |  headers, their names, payload        |
    version 4, in a URL         METHOD \\n path \\n           |  query, headers, their names, payload |
    versions 1 and 2            METHOD                      |  \\n MD5 \\n type \\n date \\n headers   |  resource

The verifiers make it, of a claim and the request that it came with. It is what they hash, so whoever knows the middle
of one request can tell the text of another (forebay.protocol.signatures.signature_template).
"""

from typing import NamedTuple


class SignedText(NamedTuple):
    """The repr hides it: the client's token may be in it."""

    first: str
    middle: str
    last: str = ""

    @property
    def whole(self) -> str:
        return "".join(self)

    @property
    def ends(self) -> tuple[bytes, bytes]:
        """The first and the last piece, as they are hashed."""
        return self.first.encode("utf-8", "surrogateescape"), self.last.encode("utf-8", "surrogateescape")

    def __repr__(self) -> str:
        return "SignedText(...)"


NO_TEXT = SignedText("", "")
