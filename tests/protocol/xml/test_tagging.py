"""A tagging document becomes the value of x-amz-tagging."""

from urllib.parse import parse_qsl
from xml.sax.saxutils import escape

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.core.errors import S3Error
from forebay.protocol.xml.tagging import MAX_KEY, MAX_TAGS, MAX_VALUE, tagging_header

NAMESPACE = 'xmlns="http://s3.amazonaws.com/doc/2006-03-01/"'
TEXT = st.text(st.characters(exclude_categories=("C", "Z")), max_size=MAX_KEY)


def tag(key: str, value: str) -> str:
    return f"<Tag><Key>{escape(key)}</Key><Value>{escape(value)}</Value></Tag>"


def tagging(*tags: str, root: str = "Tagging") -> str:
    return f"<{root}><TagSet>{''.join(tags)}</TagSet></{root.split(maxsplit=1)[0]}>"


def test_amazons_example_is_translated() -> None:
    assert tagging_header(tagging(tag("Tag Name", "Tag Value"))) == "Tag%20Name=Tag%20Value"
    named = (
        f'<?xml version="1.0" encoding="UTF-8"?>{tagging(tag("a", "b"), tag("c&d", ""), root=f"Tagging {NAMESPACE}")}'
    )
    assert tagging_header(named) == "a=b&c%26d="
    assert tagging_header(tagging()) == ""


@given(st.dictionaries(TEXT.filter(bool), TEXT, max_size=MAX_TAGS))
def test_the_header_has_the_tags_of_the_document(tags: dict[str, str]) -> None:
    header = tagging_header(tagging(*(tag(key, value) for key, value in tags.items())))
    assert header.isascii()
    assert parse_qsl(header, keep_blank_values=True) == list(tags.items())


@pytest.mark.parametrize(
    ("document", "code"),
    [
        ("", "MalformedXML"),
        ("a=b", "MalformedXML"),
        ("<Tagging/>", "MalformedXML"),
        ("<Tags><TagSet/></Tags>", "MalformedXML"),
        ("<Tagging><TagSet/><TagSet/></Tagging>", "MalformedXML"),
        ('<!DOCTYPE x [<!ENTITY e "y">]><Tagging><TagSet/></Tagging>', "MalformedXML"),
        (tagging("<Tag><Key>a</Key></Tag>"), "MalformedXML"),
        (tagging("<Tag><Key>a</Key><Key>a</Key><Value/></Tag>"), "MalformedXML"),
        (tagging("<Tag><Key><b/></Key><Value/></Tag>"), "MalformedXML"),
        (tagging("<Other/>"), "MalformedXML"),
        (tagging(tag("", "v")), "InvalidTag"),
        (tagging(tag("k" * (MAX_KEY + 1), "v")), "InvalidTag"),
        (tagging(tag("k", "v" * (MAX_VALUE + 1))), "InvalidTag"),
        (tagging(tag("k", "v"), tag("k", "w")), "InvalidTag"),
        (tagging(*(tag(f"k{number}", "v") for number in range(MAX_TAGS + 1))), "BadRequest"),
        (tagging(*("<Tag/>" for _ in range(1000))), "MalformedXML"),
    ],
)
def test_a_malformed_tagging_is_refused(document: str, code: str) -> None:
    with pytest.raises(S3Error) as refused:
        tagging_header(document)
    assert refused.value.code == code
