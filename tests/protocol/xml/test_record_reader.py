"""The record reader: bounded, strict, and only for the flat form of S3's documents."""

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.core.errors import MalformedXml
from forebay.protocol.xml.record_reader import RecordDocument, RecordReader, read_document

LAUGHS = b"""<!DOCTYPE r [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">]><r><f>&b;</f></r>"""


def read(body: bytes, size: int = 10_000, elements: int = 20, depth: int = 3) -> RecordDocument:
    return read_document(body, max_size=size, max_elements=elements, max_depth=depth)


def test_fields_and_records_are_read() -> None:
    document = read(
        b'<?xml version="1.0" encoding="UTF-8"?>\n<r xmlns="http://s3.amazonaws.com/doc/2006-03-01/">\n'
        b" <f>a&amp;b</f> <x><k> c </k><v><![CDATA[<d>]]></v></x>\n<x><k>\xc3\xa9</k></x><e/>\n</r>"
    )
    assert document.root == "r"
    assert document.fields == {"f": "a&b", "e": ""}
    assert document.records == [("x", {"k": " c ", "v": "<d>"}), ("x", {"k": "é"})]


def test_namespaces_are_dropped() -> None:
    assert read(b'<n:r xmlns:n="u"><n:f>1</n:f></n:r>').fields == {"f": "1"}


@pytest.mark.parametrize(
    "body",
    [
        LAUGHS,
        b'<!DOCTYPE r SYSTEM "file:///etc/passwd"><r/>',
        b'<!DOCTYPE r [<!ENTITY a SYSTEM "file:///etc/passwd">]><r><f>&a;</f></r>',
        b"<!DOCTYPE r><r/>",
        b"<r><f>&undefined;</f></r>",
        b"<r><f>a<!-- b -->c</f></r>",
        b"<r><?php x?></r>",
        b'<?xml version="1.0" encoding="ISO-8859-1"?><r/>',
        b'<?xml version="1.0" encoding="UTF-7"?><r/>',
        '<?xml version="1.0" encoding="UTF-16"?><r/>'.encode("utf-16"),
        b"",
        b"<r>",
        b"<r></s>",
        b"<r/><r/>",
        b"<r><f>\xff</f></r>",
        b"<r><f>\x00</f></r>",
        b"<r><f>1</f><f>2</f></r>",
        b"<r><x><k>1</k><k>2</k></x></r>",
        b"<r><x><k><deep/></k></x></r>",
        b"<r>" + b"<f/>" * 20 + b"</r>",
    ],
)
def test_hostile_and_malformed_documents_are_refused(body: bytes) -> None:
    with pytest.raises(MalformedXml):
        read(body)


def test_size_elements_and_depth_are_bounded() -> None:
    body = b"<r><x><k>1</k></x></r>"
    assert read(body, size=len(body), elements=3, depth=3).records
    for bound in ({"size": len(body) - 1}, {"elements": 2}, {"depth": 2}):
        with pytest.raises(MalformedXml):
            read(body, **bound)


LONG = (
    "<r><k>",
    "<r><x><k>\U0001f600",
    "<r><x><k>&#x1F600;",
    '<r a="',
    "<r><k>&amp;",
    "<r><![CDATA[",
    "<r",
    "<r><x><y><z>",
)


@pytest.mark.parametrize("begin", LONG)
def test_memory_is_bounded_by_one_element(begin: str) -> None:
    reader = RecordReader(max_elements=100, max_depth=4)

    def feed() -> None:
        for piece in (begin.encode(), *[b"a" * 65536] * 64):
            reader.feed(piece)
        reader.close()

    tracemalloc.start()
    try:
        with pytest.raises(MalformedXml):
            feed()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 2 << 20


def test_too_deep_a_document_is_refused_before_its_end() -> None:
    reader = RecordReader(max_elements=100, max_depth=3)
    with pytest.raises(MalformedXml):
        reader.feed(b"<a>" * 4)


def test_deeper_elements_are_skipped() -> None:
    document = read(b"<r><x><k>1</k><o><id>2</id></o></x><f>3</f></r>", depth=4)
    assert document.fields == {"f": "3"}
    assert document.records[0][1]["k"] == "1"


@given(st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=20_000))
def test_long_text_is_read_whole(text: str) -> None:
    escaped = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    document = read(f"<r><f>{escaped}</f></r>".encode(), size=200_000)
    # XML forbids two non-characters.
    if not {"\ufffe", "\uffff"} & set(text):
        assert document.fields["f"] == text


@given(st.binary(max_size=200) | st.text(alphabet="<>/r f&;!?-[]xmlDOCTYPE\"'=", max_size=80).map(str.encode))
def test_any_bytes_are_read_or_refused(body: bytes) -> None:
    try:
        read(body)
    except MalformedXml:
        return
