"""The fields of a form upload: the key, the headers of its PutObject, and the response that it selects.

An allow-list decides, as with headers: a field that an origin may obey in a PUT and that S3's forms do not have
(x-amz-copy-source) must not become a header.

https://docs.aws.amazon.com/AmazonS3/latest/API/RESTObjectPOST.html
"""

import re
from collections.abc import Mapping
from typing import Final
from urllib.parse import quote, urlencode, urlsplit

from forebay.core.errors import S3Error
from forebay.core.heads import HeaderPairs
from forebay.core.names import ObjectName
from forebay.protocol.header_line import can_be_header
from forebay.protocol.signatures.canonical_request import encode_path
from forebay.protocol.target import check_key
from forebay.protocol.xml.tagging import tagging_header
from forebay.protocol.xml.xml_tree import escape_text

FILENAME: Final = "${filename}"

_HEADERS: Final = frozenset(
    {
        "cache-control",
        "content-disposition",
        "content-encoding",
        "content-md5",
        "content-type",
        "expires",
        "if-match",
        "if-none-match",
        "x-amz-storage-class",
        "x-amz-tagging",
        "x-amz-website-redirect-location",
    }
)
_FAMILIES: Final = (
    "x-amz-checksum-",
    "x-amz-grant-",
    "x-amz-meta-",
    "x-amz-object-lock-",
    "x-amz-server-side-encryption",
)
# Fields of the signature, and names of checksum algorithms, which no origin needs.
_DROPPED: Final = frozenset(
    {
        "x-amz-algorithm",
        "x-amz-checksum-algorithm",
        "x-amz-credential",
        "x-amz-date",
        "x-amz-sdk-checksum-algorithm",
        "x-amz-security-token",
        "x-amz-signature",
    }
)


def form_key(fields: Mapping[str, str], filename: str) -> str:
    """The key, with the file name filled in. Raises S3Error InvalidArgument, InvalidURI, KeyTooLongError."""
    template = fields.get("key")
    if not template:
        raise S3Error("InvalidArgument", "Bucket POST must contain a field named 'key'.", ArgumentName="key")
    key = template.replace(FILENAME, filename)
    if "\0" in key:
        raise S3Error("InvalidURI", "A NUL character is not allowed.")
    return check_key(key)


def put_headers(fields: Mapping[str, str]) -> HeaderPairs:
    """The headers of the PutObject. Raises S3Error InvalidArgument, MalformedXML, InvalidTag."""
    pairs = []
    for name, value in fields.items():
        if name == "tagging" and value:
            if fields.get("x-amz-tagging"):
                raise S3Error("InvalidArgument", "The tags are given twice.", ArgumentName=name)
            pairs.append(("x-amz-tagging", tagging_header(value)))
            continue
        header = "x-amz-acl" if name == "acl" else name
        if header not in _HEADERS and not header.startswith(_FAMILIES) and header != "x-amz-acl":
            if name.startswith("x-amz-") and name not in _DROPPED:
                raise S3Error("InvalidArgument", "This field can't be in a form.", ArgumentName=name)
            continue
        if name in _DROPPED or not value:
            continue
        if not can_be_header(header, value):
            raise S3Error("InvalidArgument", "A field of the form can't be a header.", ArgumentName=name)
        pairs.append((header, value.strip(" \t")))
    return tuple(pairs)


def success_response(fields: Mapping[str, str], name: ObjectName, etag: str) -> tuple[int, HeaderPairs, bytes]:
    """Status, headers and body of the response to a form that was carried out.

    The fields select a redirect, 200 or 201; the default is 204.
    """
    redirect = _redirect(fields.get("success_action_redirect") or fields.get("redirect") or "", name, etag)
    if redirect is not None:
        return 303, (("Location", redirect),), b""
    # Relative, so that it is right for every scheme and host.
    location = f"/{encode_path(name.path)}"
    match fields.get("success_action_status"):
        case "200":
            return 200, (("Location", location),), b""
        case "201":
            elements = {"Location": location, "Bucket": name.bucket, "Key": name.key, "ETag": etag}
            inner = "".join(f"<{tag}>{escape_text(text)}</{tag}>" for tag, text in elements.items())
            document = f'<?xml version="1.0" encoding="UTF-8"?>\n<PostResponse>{inner}</PostResponse>'
            return 201, (("Location", location), ("Content-Type", "application/xml")), document.encode()
        case _:
            return 204, (("Location", location),), b""


def _redirect(url: str, name: ObjectName, etag: str) -> str | None:
    """The target of the redirect; None, as in S3, if `url` is no absolute http or https URL."""
    if not url.isascii() or re.search(r"[\x00-\x20\x7f]", url):
        return None
    try:
        parts = urlsplit(url)
    except ValueError:
        return None
    if parts.scheme not in {"http", "https"} or not parts.netloc:
        return None
    added = urlencode({"bucket": name.bucket, "key": name.key, "etag": etag}, quote_via=quote)
    return parts._replace(query=f"{parts.query}&{added}" if parts.query else added).geturl()
