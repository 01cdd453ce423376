"""The CORS configuration of a bucket, as GetBucketCors returns it.

    <CORSConfiguration><CORSRule><AllowedOrigin>https://*.example</AllowedOrigin><AllowedMethod>GET</AllowedMethod>
    <AllowedHeader>*</AllowedHeader><ExposeHeader>ETag</ExposeHeader><MaxAgeSeconds>600</MaxAgeSeconds></CORSRule> ...

https://docs.aws.amazon.com/AmazonS3/latest/userguide/ManageCorsUsing.html
"""

from dataclasses import dataclass
from typing import Final

from forebay.core.errors import MalformedXml
from forebay.protocol.xml.xml_tree import Element, read_tree

MAX_SIZE: Final = 256 << 10
"""Bytes of a document; S3 accepts 64 KiB and 100 rules."""
_MAX_ELEMENTS: Final = 10_000
_MAX_DIGITS: Final = 9


@dataclass(frozen=True, slots=True)
class CorsRule:
    """The requests that pages of some sites may send. In patterns, one `*` stands for any characters."""

    origins: tuple[str, ...]
    methods: tuple[str, ...]
    headers: tuple[str, ...] = ()
    """Patterns of request headers, in lower case."""
    exposed: tuple[str, ...] = ()
    max_age: str | None = None
    """Seconds that a browser may keep the response to a preflight."""


def read_cors_rules(document: bytes) -> tuple[CorsRule, ...]:
    """The rules of a configuration, in order. Raises MalformedXml."""
    root = read_tree(document, max_size=MAX_SIZE, max_elements=_MAX_ELEMENTS)
    if root.name != "CORSConfiguration":
        raise MalformedXml("it is no CORS configuration")
    return tuple(_rule(element) for element in root.all("CORSRule"))


def _rule(element: Element) -> CorsRule:
    def texts(name: str) -> tuple[str, ...]:
        return tuple(child.text.strip() for child in element.all(name))

    age = element.text_at("MaxAgeSeconds").strip()
    return CorsRule(
        texts("AllowedOrigin"),
        texts("AllowedMethod"),
        tuple(pattern.lower() for pattern in texts("AllowedHeader")),
        texts("ExposeHeader"),
        age if age.isascii() and age.isdigit() and len(age) <= _MAX_DIGITS else None,
    )
