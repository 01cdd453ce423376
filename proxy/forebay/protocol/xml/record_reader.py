"""Reads the flat XML of the S3 API: a root, its fields, and records with fields of their own. Bounded and strict.

    <Root> <Field>text</Field> <Record> <Field>text</Field> ... </Record> ... </Root>
    depth 1        2                            3

Comments and a second element of the same name are refused, besides all that forebay.protocol.xml.strict_parser refuses.
Deeper elements, up to the allowed depth, are skipped.

Faster than a tree of forebay.protocol.xml.xml_tree: a record is one dictionary.
"""

from dataclasses import dataclass, field
from typing import Final

from forebay.core.buffers import Piece
from forebay.core.errors import MalformedXml
from forebay.protocol.xml.strict_parser import StrictParser, local_name

MAX_TEXT: Final = 64 * 1024
"""Characters in one element: far more than S3 has for any of its fields."""

_PIECE: Final = 16 * 1024


@dataclass(slots=True)
class RecordDocument:
    """A document as fields and records."""

    root: str = ""
    """The name of the root element."""
    fields: dict[str, str] = field(default_factory=dict)
    """The text of each element of depth 2 without children, by name."""
    records: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    """Name and fields of each element of depth 2 with children, in order."""


def read_document(body: bytes, *, max_size: int, max_elements: int, max_depth: int) -> RecordDocument:
    """The content of a whole document of at most `max_size` bytes. Raises MalformedXml."""
    if len(body) > max_size:
        raise MalformedXml("it is too large")
    reader = RecordReader(max_elements=max_elements, max_depth=max_depth)
    reader.feed(body)
    return reader.close()


class RecordReader:
    """Reads one document as it arrives, and refuses it as soon as possible.

    Holds the fields and records, the text of one element, and an unfinished tag of at most `2 * MAX_TEXT` bytes.
    """

    def __init__(self, *, max_elements: int, max_depth: int) -> None:
        self._events = _RecordHandler(max_elements, max_depth)
        self._parser = StrictParser(self._events, comments=False)
        self._fed = 0

    def feed(self, piece: Piece) -> None:
        """Parses the next bytes of the document. Raises MalformedXml."""
        view = memoryview(piece)
        # The parser copies its input several times, so it gets little at once.
        for start in range(0, len(view), _PIECE):
            part = view[start : start + _PIECE]
            self._fed += len(part)
            self._parser.parse(part, last=False)
            if self._fed - self._parser.position > 2 * MAX_TEXT:
                raise MalformedXml("a tag is too long")  # the parser buffers an unfinished tag whole

    def drain_records(self) -> list[tuple[str, dict[str, str]]]:
        """Removes and returns the records that have ended; the document continues without them."""
        records, self._events.document.records = self._events.document.records, []
        return records

    def close(self) -> RecordDocument:
        """The content of the document. Raises MalformedXml if the document has not ended."""
        self._parser.parse(b"", last=True)
        return self._events.document


class _RecordHandler:
    """Fills a document from the parser's events."""

    def __init__(self, max_elements: int, max_depth: int) -> None:
        self.document = RecordDocument()
        self._elements_left = max_elements
        self._max_depth = max_depth
        self._depth = 0
        self._text = ""
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
        self._text = ""

    def characters(self, text: str) -> None:
        if self._depth in {2, 3}:
            self._text += text
            if len(self._text) > MAX_TEXT:
                raise MalformedXml("an element is too long")

    def end_element(self, name: str) -> None:
        if self._depth == 3 and self._record is not None:
            self._keep(self._record, name)
        elif self._depth == 2 and self._record is not None:
            self.document.records.append((local_name(name), self._record))
            self._record = None
        elif self._depth == 2:
            self._keep(self.document.fields, name)
        self._text = ""
        self._depth -= 1

    def _keep(self, fields: dict[str, str], name: str) -> None:
        local = local_name(name)
        if local in fields:
            raise MalformedXml(f"{local} stands twice")
        fields[local] = self._text
