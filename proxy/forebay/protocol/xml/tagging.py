"""The tags of an object: a document in a form upload, a header in a PutObject.

    <Tagging><TagSet><Tag><Key>a</Key><Value>b c</Value></Tag> ... </TagSet></Tagging>      x-amz-tagging: a=b%20c& ...

https://docs.aws.amazon.com/AmazonS3/latest/userguide/object-tagging.html
"""

from typing import Final
from urllib.parse import quote, urlencode

from forebay.core.errors import MalformedXml, S3Error
from forebay.protocol.xml.xml_tree import Element, read_tree

MAX_TAGS: Final = 10
MAX_KEY: Final = 128  # characters
MAX_VALUE: Final = 256  # characters

_MAX_SIZE: Final = 64 * 1024  # bytes; ten tags, however escaped


def tagging_header(document: str) -> str:
    """The value of x-amz-tagging for the tags of `document`.

    Raises S3Error MalformedXML, BadRequest (too many tags), InvalidTag.
    """
    try:
        root = read_tree(document.encode("utf-8", "surrogateescape"), max_size=_MAX_SIZE, max_elements=MAX_TAGS * 8)
    except MalformedXml as refused:
        raise S3Error("MalformedXML", f"The field tagging was not understood: {refused}.") from refused
    if root.name != "Tagging" or [child.name for child in root.children] != ["TagSet"]:
        raise S3Error("MalformedXML")
    tags = [_tag(element) for element in root.children[0].children]
    if len(tags) > MAX_TAGS:
        raise S3Error("BadRequest", f"Object tags cannot be greater than {MAX_TAGS}")
    if len(dict(tags)) != len(tags):
        raise S3Error("InvalidTag", "Cannot provide multiple Tags with the same key")
    return urlencode(tags, quote_via=quote)


def _tag(element: Element) -> tuple[str, str]:
    if element.name != "Tag" or sorted(child.name for child in element.children) != ["Key", "Value"]:
        raise S3Error("MalformedXML")
    key, value = element.text_at("Key"), element.text_at("Value")
    if any(child.children for child in element.children):
        raise S3Error("MalformedXML")
    if not 1 <= len(key) <= MAX_KEY:
        raise S3Error("InvalidTag", "The TagKey you have provided is invalid", TagKey=key)
    if len(value) > MAX_VALUE:
        raise S3Error("InvalidTag", "The TagValue you have provided is invalid", TagValue=value)
    return key, value
