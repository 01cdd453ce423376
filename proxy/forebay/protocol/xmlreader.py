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
    """Read a document. Raises XMLRefused."""
    if len(body) > max_size:
        raise XMLRefused("it is too large")
    reader = _Reader(max_elements, max_depth)
    parser = expat.ParserCreate("utf-8", namespace_separator=" ")
    parser.buffer_text = True
    parser.StartElementHandler = reader.started
    parser.EndElementHandler = reader.ended
    parser.CharacterDataHandler = reader.heard
    parser.XmlDeclHandler = reader.declared
    parser.StartDoctypeDeclHandler = _refuse
    parser.EntityDeclHandler = _refuse
    parser.ExternalEntityRefHandler = _refuse
    parser.CommentHandler = _refuse
    parser.ProcessingInstructionHandler = _refuse
    try:
        parser.Parse(body, True)
    except expat.ExpatError as error:
        raise XMLRefused(str(error)) from error
    return reader.document


class _Reader:
    """Follows the parser's events and fills the document."""

    def __init__(self, max_elements: int, max_depth: int) -> None:
        self.document = Document()
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
        self._text.clear()

    def heard(self, text: str) -> None:
        if self._depth in {2, 3}:
            self._text.append(text)

    def ended(self, name: str) -> None:
        if self._depth == 3 and self._record is not None:
            self._keep(self._record, name)
        elif self._depth == 2 and self._record is not None:
            self.document.records.append((_local(name), self._record))
            self._record = None
        elif self._depth == 2:
            self._keep(self.document.fields, name)
        self._text.clear()
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
