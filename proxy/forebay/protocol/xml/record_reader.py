"""Reads the flat XML of the S3 API: a root, its fields, and records with fields of their own. Bounded and strict.

    <Root> <Field>text</Field> <Record> <Field>text</Field> ... </Record> ... </Root>
    depth 1        2                            3

Refused are what forebay.protocol.xml.strict_parser refuses, comments, and an element that stands twice where one is
expected.
Deeper elements, up to the depth allowed, are read over.
"""

from dataclasses import dataclass, field
from typing import Final

from forebay.core.errors import MalformedXml
from forebay.protocol.body.checksums import Piece
from forebay.protocol.xml.strict_parser import StrictParser, local_name

MAX_TEXT: Final = 64 * 1024
"""Characters in one element: far more than S3 has for any of its fields."""

_AT_ONCE: Final = 16 * 1024


@dataclass(slots=True)
class RecordDocument:
    """What was read."""

    root: str = ""
    fields: dict[str, str] = field(default_factory=dict)
    """Elements of depth 2 without children."""
    records: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    """Elements of depth 2 with children, in order, and their children's text."""


def read_document(body: bytes, *, max_size: int, max_elements: int, max_depth: int) -> RecordDocument:
    """Read a document that is at hand. Raises MalformedXml."""
    if len(body) > max_size:
        raise MalformedXml("it is too large")
    reader = RecordReader(max_elements=max_elements, max_depth=max_depth)
    reader.feed(body)
    return reader.close()


class RecordReader:
    """Reads a document as it arrives, and refuses it as soon as it can. Holds no more of it than the document keeps and
    one element's text."""

    def __init__(self, *, max_elements: int, max_depth: int) -> None:
        self._events = _Events(max_elements, max_depth)
        self._parser = StrictParser(self._events, comments=False)
        self._fed = 0

    def feed(self, piece: Piece) -> None:
        """Raises MalformedXml."""
        view = memoryview(piece)
        # The parser copies what it is given, several times over; so it is never given much.
        for start in range(0, len(view), _AT_ONCE):
            self._fed += len(view[start : start + _AT_ONCE])
            self._parser.parse(view[start : start + _AT_ONCE], last=False)
            if self._fed - self._parser.position > 2 * MAX_TEXT:
                raise MalformedXml("a tag is too long")  # one that has not ended yet is held by the parser, whole

    def drain_records(self) -> list[tuple[str, dict[str, str]]]:
        """The records that have ended since this was asked last; the document goes on without them."""
        records, self._events.document.records = self._events.document.records, []
        return records

    def close(self) -> RecordDocument:
        """The document, when it has ended. Raises MalformedXml."""
        self._parser.parse(b"", last=True)
        return self._events.document


class _Events:
    """Follows the parser's events and fills the document."""

    def __init__(self, max_elements: int, max_depth: int) -> None:
        self.document = RecordDocument()
        self._length = 0
        self._elements_left = max_elements
        self._max_depth = max_depth
        self._depth = 0
        self._text: list[str] = []
        self._record: dict[str, str] | None = None

    def start_element(self, name: str, _attributes: dict[str, str]) -> None:
        self._depth += 1
        self._elements_left -= 1
        if self._depth > self._max_depth or self._elements_left < 0:
            raise MalformedXml("it has too many elements")
        if self._depth == 1:
            self.document.root = local_name(name)
        elif self._depth == 3 and self._record is None:
            self._record = {}
        self._forget()

    def characters(self, text: str) -> None:
        if self._depth in {2, 3}:
            self._length += len(text)
            if self._length > MAX_TEXT:
                raise MalformedXml("an element is too long")
            self._text.append(text)

    def _forget(self) -> None:
        self._text.clear()
        self._length = 0

    def end_element(self, name: str) -> None:
        if self._depth == 3 and self._record is not None:
            self._keep(self._record, name)
        elif self._depth == 2 and self._record is not None:
            self.document.records.append((local_name(name), self._record))
            self._record = None
        elif self._depth == 2:
            self._keep(self.document.fields, name)
        self._forget()
        self._depth -= 1

    def _keep(self, fields: dict[str, str], name: str) -> None:
        local = local_name(name)
        if local in fields:
            raise MalformedXml(f"{local} stands twice")
        fields[local] = "".join(self._text)
