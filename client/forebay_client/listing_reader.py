"""Listings: ListObjectsV2 of S3 and OSS, page by page, as they are consumed.

Keys travel percent-encoded (`encoding-type=url`), because XML can't carry all of them.

https://docs.aws.amazon.com/AmazonS3/latest/API/API_ListObjectsV2.html
"""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Final
from urllib.parse import unquote_plus

from forebay.core.errors import MalformedXml
from forebay.protocol.xml.xml_tree import Element, read_tree
from forebay_client.client_errors import InvalidRequest, ServiceUnavailable
from forebay_client.objects import CommonPrefix, ObjectInfo, checked_key, key_problem
from forebay_client.transport.object_request import ObjectRequest, SendRequest

_MAX_PAGE: Final = 32 << 20
_MAX_ELEMENTS: Final = 100_000


def list_object_pages(
    send: SendRequest, bucket: str, prefix: str, delimiter: str, start_after: str, *, has_plain_tokens: bool
) -> Iterator[Sequence[ObjectInfo | CommonPrefix]]:
    """Pages of objects and common prefixes in the order of their UTF-8 bytes. `has_plain_tokens`: continuation tokens
    are never encoded (S3); OSS encodes them as it does keys. Raises ClientError."""
    for name, text in (("prefix", prefix), ("delimiter", delimiter), ("start_after", start_after)):
        if text and (problem := key_problem(checked_key(text))):
            raise InvalidRequest(f"{name}: {problem}", bucket=bucket)
    token = ""
    while True:
        query = [("encoding-type", "url"), ("list-type", "2"), ("prefix", prefix)]
        query += [("delimiter", delimiter)] if delimiter else []
        if token:
            query.append(("continuation-token", token))
        elif start_after:
            query.append(("start-after", start_after))
        response = send(ObjectRequest("GET", bucket, query=tuple(query)))
        try:
            page = read_tree(bytes(response.body), max_size=_MAX_PAGE, max_elements=_MAX_ELEMENTS)
            if page.name != "ListBucketResult":
                raise MalformedXml("it is no listing")
            is_encoded = page.text_at("EncodingType") == "url"
            entries = list(_entries(page, bucket, is_encoded=is_encoded))
        except MalformedXml as error:
            raise ServiceUnavailable(f"the listing can't be read: {error}", bucket=bucket) from error
        yield entries
        if page.text_at("IsTruncated").strip().lower() != "true":
            return
        following = page.text_at("NextContinuationToken")
        following = unquote_plus(following) if is_encoded and not has_plain_tokens else following
        if not following or following == token:
            raise ServiceUnavailable("the listing does not say how it goes on", bucket=bucket)
        token = following


def _entries(page: Element, bucket: str, *, is_encoded: bool) -> Iterator[ObjectInfo | CommonPrefix]:
    def decoded(text: str) -> str:
        return unquote_plus(text) if is_encoded else text

    objects = [(decoded(each.text_at("Key")), each) for each in page.all("Contents")]
    prefixes = [decoded(each.text_at("Prefix")) for each in page.all("CommonPrefixes")]
    if not prefixes:
        for key, each in objects:
            yield _object_info(bucket, key, each)
        return
    named = dict(objects)
    for name in sorted((*named, *prefixes)):
        yield _object_info(bucket, name, named[name]) if name in named else CommonPrefix(bucket, name)


def _object_info(bucket: str, key: str, entry: Element) -> ObjectInfo:
    size, modified = entry.text_at("Size").strip(), entry.text_at("LastModified").strip()
    if not (size.isascii() and size.isdecimal()):
        raise MalformedXml("an object has no size")
    try:
        changed = datetime.fromisoformat(modified) if modified else None
    except ValueError:
        raise MalformedXml("an object has no time") from None
    return ObjectInfo(bucket, key, int(size), entry.text_at("ETag"), changed)
