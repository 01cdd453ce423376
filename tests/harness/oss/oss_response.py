"""Translates a response of the S3 fake to OSS: header names, upper-case ETags, XML without namespace, CRC-64.

https://www.alibabacloud.com/help/en/oss/developer-reference/common-http-headers
"""

import base64
from dataclasses import replace
from urllib.parse import quote, unquote
from xml.etree import ElementTree as Tree

from fastcrc import crc64

from harness.fake.content import Content
from harness.fake.responses import Answer
from harness.fake.store import StoredObject
from harness.oss.oss_request import CLASSES, OssRequest

_CLASSES = {s3: oss for oss, s3 in CLASSES.items()}
_NAMED = ("version-id", "delete-marker", "tagging-count", "copy-source-version-id", "storage-class")
_NAMES = {"Key", "KeyMarker", "NextKeyMarker", "NextMarker", "Prefix", "Marker", "Delimiter", "StartAfter"}
CONTINUATION_TOKENS = {"ContinuationToken", "NextContinuationToken"}
_PLAIN = {"InitiateMultipartUploadResult", "CompleteMultipartUploadResult", "ListPartsResult"}
"""Documents whose names the fake does not encode."""
_OVERRIDING = {"x-oss-object-type"}


def crc_of(content: Content) -> str:
    value = 0
    for view in content.views(0, content.size):
        value = crc64.xz(view, value)
    return str(value)


def type_of(version: StoredObject) -> str:
    return dict(version.headers).get("x-oss-object-type") or ("Multipart" if version.part_sizes else "Normal")


def to_oss_response(answer: Answer, s3_request: OssRequest, *facts: tuple[str, str]) -> Answer:
    """`facts`: headers that only OSS has."""
    pairs: list[tuple[str, str]] = []
    for name, value in answer.headers:
        lower = name.lower()
        bare = lower.removeprefix("x-amz-")
        if lower == "etag":
            pairs.append(("ETag", value.upper()))
        elif lower in _OVERRIDING:
            continue
        elif bare == lower:
            pairs.append((name, value))
        elif bare.startswith("meta-") or bare in _NAMED:
            pairs.append((f"x-oss-{bare}", _CLASSES.get(value, value) if bare == "storage-class" else value))
    answer = replace(answer, headers=(*pairs, *facts))
    if s3_request.method == "HEAD" and "objectMeta" in s3_request.query and answer.status == 200:
        shown = {"etag", "last-modified", "x-oss-hash-crc64ecma", "x-oss-version-id"}
        answer = replace(answer, headers=tuple(pair for pair in answer.headers if pair[0].lower() in shown))
    if dict(answer.headers).get("Content-Type") == "application/xml" and answer.length:
        return _document(answer, s3_request)
    return answer


def _document(answer: Answer, s3_request: OssRequest) -> Answer:
    tree = Tree.fromstring(b"".join(answer.content.views(answer.start, answer.stop)))
    encodes = s3_request.query.get("encoding-type") == "url"
    for parent in [*tree.iter()]:
        for each in [each for each in parent if "}Checksum" in each.tag]:
            parent.remove(each)
    for each in tree.iter():
        each.tag = each.tag.rpartition("}")[2]
        if each.tag == "ETag":
            each.text = (each.text or "").upper()
        elif each.tag == "StorageClass":
            each.text = _CLASSES.get(each.text or "", each.text)
        elif each.tag in {"Contents", "Version"}:
            Tree.SubElement(each, "Type").text = "Normal"
        elif each.tag in CONTINUATION_TOKENS and encodes:
            each.text = quote(each.text or "", safe="")
        elif each.tag in _NAMES and encodes and tree.tag != "DeleteResult":
            each.text = quote(each.text or "", safe="") if tree.tag in _PLAIN else (each.text or "").replace("/", "%2F")
    if encodes and tree.find("EncodingType") is None and tree.tag != "DeleteResult":
        Tree.SubElement(tree, "EncodingType").text = "url"
    if tree.tag == "ListBucketResult" and "list-type" not in s3_request.query:
        _next_marker(tree)
    if tree.tag == "DeleteResult":
        if tree.find("Deleted") is None:
            return replace(
                answer.with_body(b""), headers=tuple(each for each in answer.headers if each[0] != "Content-Type")
            )
        if encodes:
            for each in tree.iter("Key"):
                each.text = quote(each.text or "", safe="")
            Tree.SubElement(tree, "EncodingType").text = "url"
    if tree.tag == "AccessControlPolicy":
        grants = tree.find("AccessControlList")
        assert grants is not None
        grants.clear()
        Tree.SubElement(grants, "Grant").text = "private" if s3_request.key is None else "default"
    if tree.tag in {"ListBucketResult", "ListVersionsResult"} and tree.find("Delimiter") is None:
        Tree.SubElement(tree, "Delimiter")
    if tree.tag == "ListAllMyBucketsResult":
        for each in tree.iter("Bucket"):
            for name in ("Location", "ExtranetEndpoint", "IntranetEndpoint"):
                Tree.SubElement(each, name).text = "oss-test-1"
            Tree.SubElement(each, "StorageClass").text = "Standard"
    if tree.tag == "LocationConstraint":
        tree.text = "oss-test-1"
    if tree.tag == "Error":
        headers: tuple[tuple[str, str], ...] = (("x-oss-ec", "0000-00000000"),)
        Tree.SubElement(tree, "EC").text = "0000-00000000"
        body = Tree.tostring(tree)
        if s3_request.method == "HEAD":
            headers += (("x-oss-err", base64.b64encode(body).decode()),)
        return replace(answer.with_body(body), headers=(*answer.headers, *headers))
    return answer.with_body(b'<?xml version="1.0" encoding="UTF-8"?>\n' + Tree.tostring(tree, encoding="utf-8"))


def _next_marker(tree: Tree.Element) -> None:
    """OSS tells it whenever there is more, S3 only with a delimiter."""
    if tree.findtext("IsTruncated") == "true" and tree.find("NextMarker") is None:
        last = max(
            [*tree.iterfind("Contents/Key"), *tree.iterfind("CommonPrefixes/Prefix")],
            key=lambda each: unquote(each.text or ""),  # they may be encoded by now, which changes their order
        )
        Tree.SubElement(tree, "NextMarker").text = last.text
