"""Response templates: what matches has the facts that parsing and judging find, and nothing else matches."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.core.byte_ranges import Span
from forebay.core.errors import MalformedHttp
from forebay.core.heads import HeaderPairs, ObjectFacts
from forebay.origin.http.response_head import parse_head
from forebay.origin.reads.origin_read import OriginRead
from forebay.origin.reads.verdict import ValidResponse, judge
from forebay.protocol.response_templates import LEARNT_EVERY, MAX_TEMPLATES, ResponseTemplates

READ = OriginRead("GET", Span(0, 1 << 20), None, None)
DATE = "Fri, 27 Nov 2026 18:11:41 GMT"
WHOLE = (
    ("x-amz-request-id", "4TZ0ZC3QJ5S9K8YB"),
    ("Date", DATE),
    ("Last-Modified", DATE),
    ("ETag", '"5d41402abc4b2a76b9719d911017c592"'),
    ("x-amz-version-id", "v1"),
    ("x-amz-checksum-crc32", "aGVsbG8="),
    ("x-amz-meta-label", "cat"),
    ("Content-Range", "bytes 0-4/5"),
    ("Content-Type", "image/jpeg"),
    ("Content-Length", "5"),
    ("Connection", "keep-alive"),
)


def text_of(fields: HeaderPairs, first: str = "HTTP/1.1 206 Partial Content") -> bytes:
    return "\r\n".join([first, *(f"{name}: {value}" for name, value in fields), "", ""]).encode(
        "utf-8", "surrogateescape"
    )


def judged(raw: bytes) -> ObjectFacts | None:
    """The facts of the whole object behind this head, by the parser and the verdict."""
    try:
        head = parse_head(raw, "GET")
    except MalformedHttp:
        return None
    verdict = judge(READ, head.status, head.headers)
    if head.status != 206 or not head.is_persistent or not isinstance(verdict, ValidResponse):
        return None
    return verdict.facts if verdict.span.length == verdict.facts.size == head.body_length else None


def learn(templates: ResponseTemplates, fields: HeaderPairs) -> ObjectFacts:
    raw = text_of(fields)
    head, facts = parse_head(raw, "GET"), judged(raw)
    assert facts is not None
    templates.learn(head.reason, tuple(head.headers.items()), facts)
    return facts


def match(templates: ResponseTemplates, raw: bytes) -> ObjectFacts | None:
    return templates.match(raw.decode("latin-1"))


def changed(fields: HeaderPairs, **values: str) -> HeaderPairs:
    new = {name.replace("_", "-"): value for name, value in values.items()}
    return tuple((name, new.get(name, value)) for name, value in fields)


def test_a_like_head_gives_its_own_facts() -> None:
    templates = ResponseTemplates()
    assert match(templates, text_of(WHOLE)) is None
    learn(templates, WHOLE)
    other = changed(WHOLE, ETag='"other"', Date="later", x_amz_version_id="v2", x_amz_meta_label="dog")
    other = changed(other, x_amz_checksum_crc32="d29ybGQ=", Content_Length="9", Content_Range="bytes 0-8/9")
    found, expected = match(templates, text_of(other)), judged(text_of(other))
    assert expected is not None
    assert found == expected
    assert found.checksums_known is expected.checksums_known is True
    assert (found.size, found.version.etag, found.version.version_id) == (9, '"other"', "v2")


def test_checksums_beside_an_etag_of_parts_are_left_out() -> None:
    templates, parts = ResponseTemplates(), changed(WHOLE, ETag='"abc-2"')
    learn(templates, WHOLE)
    assert match(templates, text_of(parts)) is None
    learn(templates, parts)
    for fields in (changed(parts, ETag='"def-3"'), WHOLE):
        found, expected = match(templates, text_of(fields)), judged(text_of(fields))
        assert expected is not None
        assert found == expected
        assert found.checksums_known is expected.checksums_known


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param(text_of(WHOLE, "HTTP/1.1 200 OK"), id="200"),
        pytest.param(text_of(WHOLE, "HTTP/1.0 206 Partial Content"), id="HTTP 1.0"),
        pytest.param(text_of(changed(WHOLE, Connection="close")), id="the connection ends"),
        pytest.param(text_of(changed(WHOLE, Content_Range="bytes 0-4/9")), id="a part"),
        pytest.param(text_of(changed(WHOLE, Content_Range="bytes 0-5/5")), id="a range past the end"),
        pytest.param(text_of(changed(WHOLE, Content_Range="bytes 4-8/5")), id="another range"),
        pytest.param(text_of(changed(WHOLE, Content_Length="6")), id="another length"),
        pytest.param(text_of(changed(WHOLE, Content_Length="05", Content_Range="bytes 0-4/05")), id="a zero in front"),
        pytest.param(text_of(changed(WHOLE, Content_Length="0", Content_Range="bytes 0-0/0")), id="empty"),
        pytest.param(text_of(changed(WHOLE, ETag='W/"weak"')), id="a weak ETag"),
        pytest.param(text_of(changed(WHOLE, ETag='"a"b"')), id="a quote in an ETag"),
        pytest.param(text_of(changed(WHOLE, Date="a\rb")), id="a bare CR"),
        pytest.param(text_of(changed(WHOLE, Date="a\nb")), id="a bare LF"),
        pytest.param(text_of(changed(WHOLE, Date="a\0b")), id="a null"),
        pytest.param(text_of(changed(WHOLE, Content_Type="multipart/byteranges")), id="several ranges"),
        pytest.param(text_of((*WHOLE, ("Content-Length", "5"))), id="two lengths"),
        pytest.param(text_of((*WHOLE, ("Transfer-Encoding", "chunked"))), id="a transfer coding"),
        pytest.param(text_of((*WHOLE, ("x-amz-storage-class", "GLACIER"))), id="archived"),
        pytest.param(text_of((*WHOLE, ("x-amz-restore", "x"))), id="restored"),
        pytest.param(text_of(WHOLE)[:-2] + b" folded\r\n\r\n", id="a folded line"),
        pytest.param(text_of(WHOLE)[:-2], id="no end"),
        pytest.param(text_of(WHOLE) + b"x", id="more than a head"),
    ],
)
def test_other_heads_are_left_to_the_parser(raw: bytes) -> None:
    templates = ResponseTemplates()
    learn(templates, WHOLE)
    assert match(templates, raw) is None


def test_a_value_that_decides_has_to_be_as_it_was() -> None:
    templates, stored = ResponseTemplates(), (*WHOLE, ("x-amz-storage-class", "STANDARD_IA"))
    learn(templates, stored)
    assert match(templates, text_of(stored)) == judged(text_of(stored))
    assert match(templates, text_of(changed(stored, x_amz_storage_class="GLACIER"))) is None


def test_as_many_templates_are_kept_as_are_used() -> None:
    templates = ResponseTemplates()
    kinds = [changed(WHOLE, Content_Type=f"image/{number}") for number in range(MAX_TEMPLATES + 1)]
    for fields in kinds:
        learn(templates, fields)
    assert [match(templates, text_of(fields)) is not None for fields in kinds] == [True] * MAX_TEMPLATES + [False]
    for _ in range(LEARNT_EVERY - 1):
        learn(templates, kinds[-1])
    assert match(templates, text_of(kinds[-1])) == judged(text_of(kinds[-1]))
    assert match(templates, text_of(kinds[0])) is None, "it matched longest ago"


def test_a_head_with_a_repeated_field_is_no_template() -> None:
    templates, repeated = ResponseTemplates(), (*WHOLE, ("X-Other", "1"), ("x-other", "2"))
    learn(templates, repeated)
    assert match(templates, text_of(repeated)) is None


def test_a_value_of_other_characters_is_its_own_only() -> None:
    """Heads are parsed as UTF-8, and matched as latin-1."""
    templates, latin = ResponseTemplates(), text_of(WHOLE).replace(b"image/jpeg", b"x/\xe9")
    for kind in ("x/\u00c3\u00a9", "x/\u00e9"):
        learn(templates, changed(WHOLE, Content_Type=kind))
    for raw in (latin, text_of(changed(WHOLE, Content_Type="x/\u00e9"))):
        assert match(templates, raw) is None


_VALUES = st.one_of(
    st.text(st.characters(max_codepoint=0x17F), max_size=12),
    st.binary(max_size=4).map(lambda raw: raw.decode("utf-8", "surrogateescape")),
    st.sampled_from(["bytes 0-4/5", "bytes 0-5/6", "5", "6", "close", "keep-alive", '"e"', '"e-2"', " a", "a\t", DATE]),
)
_NAMES = st.sampled_from(
    [
        *dict(WHOLE),
        "x-amz-storage-class",
        "x-oss-object-type",
        "Content-Encoding",
        "Transfer-Encoding",
        "Server",
        "etag",
    ]
)


@given(
    learnt=st.permutations(WHOLE),
    extra=st.lists(st.tuples(_NAMES, _VALUES), max_size=2),
    changes=st.dictionaries(st.integers(0, len(WHOLE) + 1), _VALUES, max_size=4),
)
def test_what_matches_is_what_would_be_judged(
    learnt: list[tuple[str, str]], extra: list[tuple[str, str]], changes: dict[int, str]
) -> None:
    templates, fields = ResponseTemplates(), (*learnt, *extra)
    first = judged(text_of(fields))
    if first is None:
        fields = tuple(learnt)
    learn(templates, fields)
    raw = text_of(tuple((name, changes.get(at, value)) for at, (name, value) in enumerate(fields)))
    found = match(templates, raw)
    if found is not None:
        expected = judged(raw)
        assert expected is not None
        assert (found, found.checksums_known) == (expected, expected.checksums_known)
