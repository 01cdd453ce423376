"""The CORS configuration of a bucket, as origins return it."""

import pytest

from forebay.core.errors import MalformedXml
from forebay.protocol.xml.cors_document import CorsRule, read_cors_rules

DOCUMENT = b"""<?xml version="1.0"?><CORSConfiguration xmlns="http://s3.amazonaws.com/doc/2006-03-01/">
<CORSRule><ID>a</ID><AllowedOrigin>https://*.example</AllowedOrigin><AllowedOrigin>http://b</AllowedOrigin>
<AllowedMethod>GET</AllowedMethod><AllowedHeader>X-Amz-*</AllowedHeader><ExposeHeader>ETag</ExposeHeader>
<MaxAgeSeconds>600</MaxAgeSeconds></CORSRule>
<CORSRule><AllowedOrigin>*</AllowedOrigin><AllowedMethod>PUT</AllowedMethod><MaxAgeSeconds>-1</MaxAgeSeconds></CORSRule>
</CORSConfiguration>"""


def test_rules_keep_their_order() -> None:
    assert read_cors_rules(DOCUMENT) == (
        CorsRule(("https://*.example", "http://b"), ("GET",), ("x-amz-*",), ("ETag",), "600"),
        CorsRule(("*",), ("PUT",)),
    )


@pytest.mark.parametrize("document", [b"", b"no xml", b"<Error/>", DOCUMENT[:100]])
def test_anything_else_is_malformed(document: bytes) -> None:
    with pytest.raises(MalformedXml):
        read_cors_rules(document)
