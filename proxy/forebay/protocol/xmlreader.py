"""Reads the flat XML of the S3 API: a root, its fields, and records with fields of their own. Bounded and strict.

    <Root> <Field>text</Field> <Record> <Field>text</Field> ... </Record> ... </Root>
    depth 1        2                            3

Namespaces are dropped, as S3's clients differ in whether they write them. Refused are DTDs and entities (their
expansion is how a small document becomes a large one), comments and processing instructions, encodings other than
UTF-8, and an element that stands twice where one is expected. Deeper elements, up to the depth allowed, are read over.
"""

from dataclasses import dataclass, field
from typing import Final, NoReturn
from xml.parsers import expat

from forebay.protocol.checksums import Piece

MAX_TEXT: Final = 64 * 1024
"""Characters in one element: far more than S3 has for any of its fields."""

_AT_ONCE: Final = 16 * 1024
_ENCODINGS: Final = frozenset({"utf-8", "us-ascii", "ascii"})


class XMLRefused(Exception):
    """The document was not read; the message says why. Never leaves forebay.protocol.documents."""


@dataclass(slots=True)
class Document:
    """What was read."""

    root: str = ""
    fields: dict[str, str] = field(default_factory=dict)
    """Elements of depth 2 without children."""
    records: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    """Elements of depth 2 with children, in order, and their children's text."""


def read_document(body: bytes, *, max_size: int, max_elements: int, max_depth: int) -> Document:
    """Read a document that is at hand. Raises XMLRefused."""
    if len(body) > max_size:
        raise XMLRefused("it is too large")
    reader = DocumentReader(max_elements=max_elements, max_depth=max_depth)
    reader.feed(body)
    return reader.close()


class DocumentReader:
    """Reads a document as it arrives, and refuses it as soon as it can. Holds no more of it than the document keeps and
    one element's text."""

    def __init__(self, *, max_elements: int, max_depth: int) -> None:
        self._events = events = _Events(max_elements, max_depth)
        parser = expat.ParserCreate("utf-8", namespace_separator=" ")
        parser.buffer_text = True
        parser.StartElementHandler = events.started
        parser.EndElementHandler = events.ended
        parser.CharacterDataHandler = events.heard
        parser.XmlDeclHandler = events.declared
        parser.StartDoctypeDeclHandler = _refuse
        parser.EntityDeclHandler = _refuse
        parser.ExternalEntityRefHandler = _refuse
        parser.CommentHandler = _refuse
        parser.ProcessingInstructionHandler = _refuse
        self._parser = parser
        self._fed = 0

    def feed(self, piece: Piece) -> None:
        """Raises XMLRefused."""
        view = memoryview(piece)
        # The parser copies what it is given, several times over; so it is never given much.
        for start in range(0, len(view), _AT_ONCE):
            self._fed += len(view[start : start + _AT_ONCE])
            self._parse(view[start : start + _AT_ONCE], last=False)
            if self._fed - self._parser.CurrentByteIndex > 2 * MAX_TEXT:
                raise XMLRefused("a tag is too long")  # one that has not ended yet is held by the parser, whole

    def close(self) -> Document:
        """The document, when it has ended. Raises XMLRefused."""
        self._parse(b"", last=True)
        return self._events.document

    def _parse(self, piece: Piece, *, last: bool) -> None:
        try:
            self._parser.Parse(piece, last)
        except expat.ExpatError as error:
            raise XMLRefused(str(error)) from error


class _Events:
    """Follows the parser's events and fills the document."""

    def __init__(self, max_elements: int, max_depth: int) -> None:
        self.document = Document()
        self._length = 0
        self._elements_left = max_elements
        self._max_depth = max_depth
        self._depth = 0
        self._text: list[str] = []
        self._record: dict[str, str] | None = None

    def declared(self, _version: str, encoding: str | None, _standalone: int) -> None:
        # The parser reads UTF-8 whatever is declared; who believes the declaration would read other keys.
        if encoding is not None and encoding.lower() not in _ENCODINGS:
            raise XMLRefused("it is not in UTF-8")

    def started(self, name: str, _attributes: dict[str, str]) -> None:
        self._depth += 1
        self._elements_left -= 1
        if self._depth > self._max_depth or self._elements_left < 0:
            raise XMLRefused("it has too many elements")
        if self._depth == 1:
            self.document.root = _local(name)
        elif self._depth == 3 and self._record is None:
            self._record = {}
        self._forget()

    def heard(self, text: str) -> None:
        if self._depth in {2, 3}:
            self._length += len(text)
            if self._length > MAX_TEXT:
                raise XMLRefused("an element is too long")
            self._text.append(text)

    def _forget(self) -> None:
        self._text.clear()
        self._length = 0

    def ended(self, name: str) -> None:
        if self._depth == 3 and self._record is not None:
            self._keep(self._record, name)
        elif self._depth == 2 and self._record is not None:
            self.document.records.append((_local(name), self._record))
            self._record = None
        elif self._depth == 2:
            self._keep(self.document.fields, name)
        self._forget()
        self._depth -= 1

    def _keep(self, fields: dict[str, str], name: str) -> None:
        local = _local(name)
        if local in fields:
            raise XMLRefused(f"{local} stands twice")
        fields[local] = "".join(self._text)


def _local(name: str) -> str:
    return name.rpartition(" ")[2]


def _refuse(*_event: object) -> NoReturn:
    raise XMLRefused("it has a DTD, an entity, a comment or a processing instruction")
