"""XML documents of origins as a small tree: for those that are not only looked into but told anew.

    read_tree(b"<A><B>x</B></A>")      Element("A", "", [Element("B", "x", [])])
    write_tree(element)                the document

Bounded and strict like forebay.protocol.xml.record_reader, whose records are enough for what clients send. Namespaces
are
dropped: S3's documents have one, OSS's have none, and its SDKs don't find an element that does. Refused is what
forebay.protocol.xml.strict_parser refuses; comments and attributes are read over.
"""

from dataclasses import dataclass, field, replace
from typing import Final

from forebay.core.errors import MalformedXml
from forebay.protocol.xml.strict_parser import StrictParser, local_name
from forebay.protocol.xml.xml_text import escape_text

DEPTH: Final = 12
DECLARATION: Final = '<?xml version="1.0" encoding="UTF-8"?>\n'
S3_NAMESPACE: Final = "http://s3.amazonaws.com/doc/2006-03-01/"


@dataclass(slots=True)
class Element:
    """An element, its text if it has no children, and its children in order."""

    name: str
    text: str = ""
    children: "list[Element]" = field(default_factory=list)
    attributes: str = ""
    """As they are to be written; of what was read they are dropped."""

    def find(self, name: str) -> "Element | None":
        return next((child for child in self.children if child.name == name), None)

    def all(self, name: str) -> "list[Element]":
        return [child for child in self.children if child.name == name]

    def text_at(self, *path: str, default: str = "") -> str:
        """The text at the end of a path of first children."""
        here: Element | None = self
        for name in path:
            here = here.find(name) if here is not None else None
        return here.text if here is not None else default

    def add(self, name: str, text: str = "", *children: "Element") -> "Element":
        """A new last child; gives that child."""
        child = Element(name, text, list(children))
        self.children.append(child)
        return child


def read_tree(body: bytes, *, max_size: int, max_elements: int) -> Element:
    """Read a document. Raises MalformedXml."""
    if len(body) > max_size:
        raise MalformedXml("it is too large")
    reader = _Reader(max_elements)
    # S3 keeps the connection of a long operation alive with blanks, some servers before the XML declaration.
    StrictParser(reader, comments=True).parse(body.lstrip(), last=True)
    return reader.root.children[0]


def write_tree(root: Element, namespace: str | None = None) -> bytes:
    """The document, with its declaration, in `namespace`."""
    parts = [DECLARATION]
    if namespace is not None:
        root = replace(root, attributes=f'xmlns="{namespace}"')
    _write(root, parts)
    return "".join(parts).encode()


def _write(element: Element, parts: list[str]) -> None:
    opened = f"{element.name} {element.attributes}" if element.attributes else element.name
    if element.children:
        parts.append(f"<{opened}>")
        for child in element.children:
            _write(child, parts)
        parts.append(f"</{element.name}>")
    else:
        parts.append(f"<{opened}>{escape_text(element.text)}</{element.name}>")


class _Reader:
    """Follows the parser's events and builds the tree."""

    def __init__(self, max_elements: int) -> None:
        self.root = Element("")
        self._open = [self.root]
        self._left = max_elements
        self._text: list[str] = []

    def start_element(self, name: str, _attributes: dict[str, str]) -> None:
        self._left -= 1
        if self._left < 0 or len(self._open) > DEPTH:
            raise MalformedXml("it has too many elements")
        self._open.append(self._open[-1].add(local_name(name)))
        self._text.clear()

    def characters(self, text: str) -> None:
        self._text.append(text)

    def end_element(self, _name: str) -> None:
        element = self._open.pop()
        if not element.children:
            element.text = "".join(self._text)
        self._text.clear()
