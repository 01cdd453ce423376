"""The parser that documents of others are read with.

What is made of its events is the readers' own: forebay.protocol.xml.record_reader keeps flat records of what clients
send,
forebay.protocol.xml.xml_tree a tree of what origins answer.

Refused are DTDs and entities (their expansion is how a small document becomes a large one), processing instructions,
comments where they are not read over, and encodings other than UTF-8. Namespaces are dropped by `local_name`, as
clients and origins differ in whether they write them. Sizes, depths and numbers are for the readers to bound.
"""

from typing import Final, NoReturn, Protocol
from xml.parsers import expat

from forebay.core.errors import MalformedXml
from forebay.protocol.body.checksums import Piece

_ENCODINGS: Final = frozenset({"utf-8", "us-ascii", "ascii"})


class XmlHandler(Protocol):
    """What is told of a document, in order."""

    def start_element(self, name: str, attributes: dict[str, str], /) -> None: ...

    def characters(self, text: str, /) -> None: ...

    def end_element(self, name: str, /) -> None: ...


class StrictParser:
    """See the module."""

    def __init__(self, follower: XmlHandler, *, comments: bool) -> None:
        """`comments`: whether they are read over, not refused."""
        parser = expat.ParserCreate("utf-8", namespace_separator=" ")
        parser.buffer_text = True
        parser.StartElementHandler = follower.start_element
        parser.EndElementHandler = follower.end_element
        parser.CharacterDataHandler = follower.characters
        parser.XmlDeclHandler = _declared
        refuse = _refuse if comments else _refuse_comments_too
        parser.StartDoctypeDeclHandler = refuse
        parser.EntityDeclHandler = refuse
        parser.ExternalEntityRefHandler = refuse
        parser.ProcessingInstructionHandler = refuse
        if not comments:
            parser.CommentHandler = refuse
        self._parser = parser

    @property
    def position(self) -> int:
        """Bytes up to the event that was told last."""
        return self._parser.CurrentByteIndex

    def parse(self, piece: Piece, *, last: bool) -> None:
        """Read on. Raises MalformedXml, also for what is not well-formed, and what the follower raises."""
        try:
            self._parser.Parse(piece, last)
        except expat.ExpatError as error:
            raise MalformedXml(str(error)) from error


def local_name(name: str) -> str:
    """The name of an element without its namespace."""
    return name.rpartition(" ")[2]


def _declared(_version: str, encoding: str | None, _standalone: int) -> None:
    # The parser reads UTF-8 whatever is declared; who believes the declaration would read other keys.
    if encoding is not None and encoding.lower() not in _ENCODINGS:
        raise MalformedXml("it is not in UTF-8")


def _refuse(*_event: object) -> NoReturn:
    raise MalformedXml("it has a DTD, an entity or a processing instruction")


def _refuse_comments_too(*_event: object) -> NoReturn:
    raise MalformedXml("it has a DTD, an entity, a comment or a processing instruction")
