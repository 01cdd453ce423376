"""S3's XML: a writer that is a nested tuple, and readers that ignore the namespace.

The namespace is http://s3.amazonaws.com/doc/2006-03-01/ on answers; clients may leave it out of theirs.
"""

from collections.abc import Iterable, Iterator
from urllib.parse import quote
from xml.etree import ElementTree as Tree
from xml.sax.saxutils import escape

from harness.fake.errors import Refusal


def _inner(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int):
        # As S3: what XML 1.0 can say is escaped, what it can't comes as a reference that parsers refuse.
        return escape(str(value), {"\r": "&#13;", "\n": "&#10;", "\t": "&#9;", '"': "&quot;"})
    assert isinstance(value, Iterable)
    return "".join(f"<{name}>{_inner(inner)}</{name}>" for name, inner in value)


def xml(root: str, inner: object) -> bytes:
    """A document: `inner` is text, a number, a bool, or pairs of a name and an inner."""
    return (
        f'<?xml version="1.0" encoding="UTF-8"?>\n<{root} xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
        f"{_inner(inner)}</{root}>"
    ).encode()


def parse(body: bytes, root: str) -> Tree.Element:
    """The document's root, names without namespaces. Refusal: MalformedXML, MissingRequestBodyError."""
    if not body:
        raise Refusal("MissingRequestBodyError", "Request Body is empty")
    try:
        tree = Tree.fromstring(body)
    except Tree.ParseError:
        raise Refusal("MalformedXML") from None
    for each in tree.iter():
        each.tag = each.tag.rpartition("}")[2]
    if tree.tag != root:
        raise Refusal("MalformedXML")
    return tree


def children(tree: Tree.Element, path: str) -> Iterator[dict[str, str]]:
    """Each element at `path` as a dictionary of its children's texts."""
    for each in tree.iterfind(path):
        yield {child.tag: child.text or "" for child in each}


def tags_of(body: bytes) -> tuple[tuple[str, str], ...]:
    return tuple((each["Key"], each.get("Value", "")) for each in children(parse(body, "Tagging"), "TagSet/Tag"))


def tagging(tags: Iterable[tuple[str, str]]) -> bytes:
    return xml("Tagging", [("TagSet", [("Tag", [("Key", name), ("Value", value)]) for name, value in tags])])


def policy() -> bytes:
    """The ACL that everything has: its owner may do all."""
    owner = [("ID", "fake"), ("DisplayName", "fake")]
    return xml(
        "AccessControlPolicy",
        [
            ("Owner", owner),
            ("AccessControlList", [("Grant", [("Grantee", owner), ("Permission", "FULL_CONTROL")])]),
        ],
    )


def encoder(encoding: str | None) -> "type[str] | Encode":
    """How a listing writes keys: as they are, or percent-encoded for encoding-type=url."""
    return Encode() if encoding == "url" else str


class Encode:
    def __call__(self, text: str) -> str:
        return quote(text, safe="/")
