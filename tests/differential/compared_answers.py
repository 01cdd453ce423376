"""What two answers to one call have in common, as fields with names: all of it but ids, dates and words.

    status   code   body   header etag   element ListBucketResult/Contents/Key 1 ...

Not compared: who answered and when (Date, Server, request ids), how the connection goes on, and what an error says
beside its status, code and headers.
Names that a side has invented are replaced by the placeholder that they have in the program.
"""

import re
from base64 import b64decode
from collections import Counter
from collections.abc import Iterator
from typing import Final
from xml.etree import ElementTree as Tree

from differential.sides import Fields, Side
from harness.conformance import parsed
from harness.raw_connection import RawAnswer

_WHO_AND_WHEN: Final = "date server x-amz-request-id x-amz-id-2 x-oss-request-id x-oss-server-time x-oss-ec"
_UNCOMPARED_HEADERS: Final = frozenset(["connection", "keep-alive", "transfer-encoding", *_WHO_AND_WHEN.split()])
_UNCOMPARED_ELEMENTS: Final = frozenset(["Message", "Resource"])
_NAMES: Final = frozenset(
    ["VersionId", "UploadId", "VersionIdMarker", "UploadIdMarker", "NextVersionIdMarker", "NextUploadIdMarker"]
)
_TIMES: Final = re.compile("last-modified|LastModified|Initiated")
_INVENTED: Final = frozenset(["DeleteMarkerVersionId", "NextContinuationToken", "ContinuationToken"])
"""Elements with names that no placeholder knows."""
_NO_NAMES: Final = frozenset(["", "null", "unknown"])


def fields_of(answer: RawAnswer, side: Side) -> Fields:
    headers: dict[str, str] = {}
    if answer.aborted:
        headers["aborted"] = "yes"
    document = _document(answer)
    for name, value in answer.pairs:
        lower = name.lower()
        if lower in _UNCOMPARED_HEADERS or lower.startswith("x-forebay-"):
            continue
        if lower == "x-oss-err":
            headers["code"] = _code(b64decode(value))
            continue
        if lower == "content-length" and (document is not None or answer.status >= 400):
            continue
        header, shown = f"header {lower}", _named(value, side) if lower.endswith("-version-id") else value
        headers[header] = f"{headers[header]}, {shown}" if header in headers else shown
    fields: dict[str, str | bytes] = {"status": str(answer.status), **headers}
    if document is None:
        fields["body"] = answer.body
        return fields
    if document.tag == "Error":
        fields["code"] = document.findtext("Code") or ""
        return fields
    for path, number, text in _leaves(document, document.tag, side):
        while f"element {path} {number}" in fields:
            number += 1  # noqa: PLW2901  # of several in one entry
        fields[f"element {path} {number}"] = text
    return fields


def differences(
    direct: Fields, through: Fields, *, have_one_clock: bool
) -> list[tuple[str, str | bytes | None, str | bytes | None]]:
    """(field, direct, through) of every field that is not the same."""
    names = sorted(name for name in direct.keys() | through.keys() if have_one_clock or not _TIMES.search(name))
    return [(name, direct.get(name), through.get(name)) for name in names if direct.get(name) != through.get(name)]


def _document(answer: RawAnswer) -> Tree.Element | None:
    if not answer.body.startswith((b"<?xml", b"<Error>")):
        return None
    try:
        return parsed(answer)
    except Tree.ParseError:
        return None


def _leaves(element: Tree.Element, path: str, side: Side, number: int = 1) -> Iterator[tuple[str, int, str]]:
    """The path of each scalar, and which entry of those it is in. Their order has no meaning, that of entries has."""
    children, entries = list(element), Counter[str]()
    if element.tag == "ListMultipartUploadsResult":  # uploads of one key are in the order of their ids
        children.sort(
            key=lambda each: (each.findtext("Key") or "", side.names.get(each.findtext("UploadId") or "", ""))
        )
    for each in children:
        if len(each):
            entries[each.tag] += 1
            yield from _leaves(each, f"{path}/{each.tag}", side, max(number, entries[each.tag]))
        elif each.tag in _INVENTED:
            yield f"{path}/{each.tag}", number, "a name"
        elif each.tag not in _UNCOMPARED_ELEMENTS and each.text:
            yield f"{path}/{each.tag}", number, _named(each.text, side) if each.tag in _NAMES else each.text


def _named(value: str, side: Side) -> str:
    """The placeholder of what the side has invented; the marker of a quiet delete has none."""
    return side.names.get(value, value if value in _NO_NAMES else "a name")


def code_of(answer: RawAnswer) -> str:
    return _code(answer.body)


def _code(document: bytes) -> str:
    found = re.search(rb"<Code>([^<]*)</Code>", document)
    return found[1].decode() if found else ""
