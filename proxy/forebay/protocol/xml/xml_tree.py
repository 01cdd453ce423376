"""XML documents as a small tree of elements, and the writer of such trees.

    read_tree(b"<A><B>x</B></A>")      Element("A", "", [Element("B", "x", [])])
    write_tree(element)                the document

For documents that are translated into another form; forebay.protocol.xml.record_reader is enough for those that are
only read. Bounded, and as strict as forebay.protocol.xml.strict_parser. Comments are skipped. Attributes and
namespaces are dropped: S3's documents have a namespace, OSS's have none, and the SDKs of OSS don't find an element
that has one.
"""

import re
from dataclasses import dataclass, field, replace
from typing import Final

from forebay.core.errors import MalformedXml
from forebay.protocol.xml.strict_parser import StrictParser, local_name

MAX_DEPTH: Final = 12
DECLARATION: Final = '<?xml version="1.0" encoding="UTF-8"?>\n'
S3_NAMESPACE: Final = "http://s3.amazonaws.com/doc/2006-03-01/"

NOT_XML: Final = re.compile("[\0-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
"""A character that no document of XML 1.0 can hold."""


@dataclass(slots=True)
class Element:
    """An element, its text if it has no children, and its children in order."""

    name: str
    text: str = ""
    children: "list[Element]" = field(default_factory=list)
    attributes: str = ""
    """The text of the start tag after the name. Empty in an element that was read."""

    def find(self, name: str) -> "Element | None":
        """The first child with that name."""
        return next((child for child in self.children if child.name == name), None)

    def all(self, name: str) -> "list[Element]":
        """The children with that name, in order."""
        return [child for child in self.children if child.name == name]

    def text_at(self, *path: str, default: str = "") -> str:
        """The text of the element at the end of a path of first children; `default` if there is none."""
        element: Element | None = self
        for name in path:
            element = element.find(name) if element is not None else None
        return element.text if element is not None else default

    def add(self, name: str, text: str = "", *children: "Element") -> "Element":
        """Appends a child and returns it."""
        child = Element(name, text, list(children))
        self.children.append(child)
        return child


def escape_text(value: str) -> str:
    """`value`, escaped for the text of an element.

    A key may hold characters that XML 1.0 can't carry, not even escaped. Each of them becomes U+FFFD, so that the
    document stays readable.
    """
    # A bare carriage return would be read back as a newline.
    text = NOT_XML.sub("\ufffd", value)
    # As xml.sax.saxutils.escape does, which imports urllib.request: an eighth of what a client imports.
    return text.replace("&", "&amp;").replace(">", "&gt;").replace("<", "&lt;").replace("\r", "&#13;")


def read_tree(body: bytes, *, max_size: int, max_elements: int) -> Element:
    """The root element of a document of at most `max_size` bytes. Raises MalformedXml."""
    if len(body) > max_size:
        raise MalformedXml("it is too large")
    handler = _TreeHandler(max_elements)
    # S3 keeps the connection of a long operation alive with blanks, some servers before the XML declaration.
    StrictParser(handler, comments=True).parse(body.lstrip(), last=True)
    return handler.root.children[0]


def write_tree(root: Element, namespace: str | None = None) -> bytes:
    """The document in UTF-8, with its declaration, in `namespace`."""
    parts = [DECLARATION]
    if namespace is not None:
        root = replace(root, attributes=f'xmlns="{namespace}"')
    _write(root, parts)
    return "".join(parts).encode()


def _write(element: Element, parts: list[str]) -> None:
    start = f"{element.name} {element.attributes}" if element.attributes else element.name
    if element.children:
        parts.append(f"<{start}>")
        for child in element.children:
            _write(child, parts)
        parts.append(f"</{element.name}>")
    else:
        parts.append(f"<{start}>{escape_text(element.text)}</{element.name}>")


class _TreeHandler:
    """Builds a tree from the parser's events."""

    def __init__(self, max_elements: int) -> None:
        self.root = Element("")
        self._open = [self.root]
        self._elements_left = max_elements
        self._text: list[str] = []

    def start_element(self, name: str, _attributes: dict[str, str]) -> None:
        self._elements_left -= 1
        if self._elements_left < 0 or len(self._open) > MAX_DEPTH:
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
