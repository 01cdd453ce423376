"""The XML parser of every document from a client or an origin: expat, restricted.

Not a reader: forebay.protocol.xml.record_reader makes flat records of its events, forebay.protocol.xml.xml_tree a tree.

Refused are DTDs and entities (their expansion is how a small document becomes a large one), processing instructions,
encodings other than UTF-8, and comments unless the reader allows them. `local_name` drops namespaces, as clients and
origins differ in whether they write them. The readers bound sizes, depths and numbers.
"""

from typing import Final, NoReturn, Protocol
from xml.parsers import expat

from forebay.core.buffers import Piece
from forebay.core.errors import MalformedXml

_ENCODINGS: Final = frozenset({"utf-8", "us-ascii", "ascii"})


class XmlHandler(Protocol):
    """Receives the events of a document, in order."""

    def start_element(self, name: str, attributes: dict[str, str], /) -> None:
        """A start tag."""

    def characters(self, text: str, /) -> None:
        """Text, possibly a part of it."""

    def end_element(self, name: str, /) -> None:
        """An end tag."""


class StrictParser:
    """Parses one document, and calls a handler for each event."""

    def __init__(self, handler: XmlHandler, *, comments: bool) -> None:
        """`comments`: whether comments are skipped instead of refused."""
        parser = expat.ParserCreate("utf-8", namespace_separator=" ")
        parser.buffer_text = True
        parser.StartElementHandler = handler.start_element
        parser.EndElementHandler = handler.end_element
        parser.CharacterDataHandler = handler.characters
        parser.XmlDeclHandler = _check_declaration
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
        """Offset of the last event in the document, in bytes."""
        return self._parser.CurrentByteIndex

    def parse(self, piece: Piece, *, last: bool) -> None:
        """Parses the next bytes.

        Raises MalformedXml, also for a document that is not well-formed, and the errors of the handler.
        """
        try:
            self._parser.Parse(piece, last)
        except expat.ExpatError as error:
            raise MalformedXml(str(error)) from error


def local_name(name: str) -> str:
    """The name of an element without its namespace."""
    return name.rpartition(" ")[2]


def _check_declaration(_version: str, encoding: str | None, _standalone: int) -> None:
    # expat reads UTF-8 whatever is declared; a reader that obeys the declaration would read other keys.
    if encoding is not None and encoding.lower() not in _ENCODINGS:
        raise MalformedXml("it is not in UTF-8")


def _refuse(*_event: object) -> NoReturn:
    raise MalformedXml("it has a DTD, an entity or a processing instruction")


def _refuse_comments_too(*_event: object) -> NoReturn:
    raise MalformedXml("it has a DTD, an entity, a comment or a processing instruction")
