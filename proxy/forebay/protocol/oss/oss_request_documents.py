"""The documents in the bodies of requests, in both directions: an OSS client's for S3, S3's for an OSS origin.

                                 from an OSS client (s3_request_document)     to an OSS origin (oss_request_document)
    CompleteMultipartUpload      ETags as S3 writes them                      ETags in quotes
    CreateBucket                 storage class checked, the region added      region checked, no document
    RestoreObject                the tier under S3's name                     the tier under OSS's name
    DeleteObjects, tags,         the same                                     without the namespace, which OSS's
      versioning                                                              documents don't have

Documents are written anew, so that no other element is forwarded; an element that the other side lacks is refused, not
left out. Both directions are cooperative work: a completion may list 10,000 parts.
"""

from typing import Final

from forebay.core.cooperative import CooperativeWork
from forebay.core.errors import MalformedXml, S3Error
from forebay.protocol.oss.oss_headers import s3_etags
from forebay.protocol.oss.oss_request import OssRequest
from forebay.protocol.xml.s3_documents import (
    MAX_BODY,
    UploadedPart,
    listed_keys,
    read_parts_cooperatively,
    write_completion_cooperatively,
)
from forebay.protocol.xml.xml_tree import DECLARATION, Element, read_tree, write_tree

_MAX_ELEMENTS: Final = 200_000
_DEFAULT_REGION: Final = "us-east-1"  # S3 refuses its name in a document
_TIERS: Final = frozenset({"Expedited", "Standard", "Bulk"})


def s3_request_document(request: OssRequest, body: bytes, region: str) -> CooperativeWork[bytes]:
    """Returns the body for an S3 origin in `region`. Raises S3Error MalformedXML, NotImplemented."""
    match request.name:
        case "CompleteMultipartUpload":
            parts = yield from read_parts_cooperatively(body)
            if not request.origin_is_oss:
                parts = [UploadedPart(part.number, s3_etags(part.etag)) for part in parts]
                yield
            return (yield from write_completion_cooperatively(parts))
        case "PutBucket":
            return _s3_bucket(body, region)
        case "RestoreObject":
            return _s3_restore(body)
        case _:
            return body


def _s3_bucket(body: bytes, region: str) -> bytes:
    if body.strip():
        storage = _read(body, "CreateBucketConfiguration", max_elements=100).text_at("StorageClass")
        if storage not in {"", "Standard"}:
            raise S3Error("NotImplemented", "Buckets of S3 have no storage class.")
    if region == _DEFAULT_REGION:
        return b""
    return write_tree(branch("CreateBucketConfiguration", Element("LocationConstraint", region)))


def _s3_restore(body: bytes) -> bytes:
    restore = _read(body, "RestoreRequest", max_elements=100) if body.strip() else Element("")
    written = branch("RestoreRequest", Element("Days", restore.text_at("Days") or "1"))
    tier = restore.text_at("JobParameters", "Tier")
    if tier:
        written.add("GlacierJobParameters").add("Tier", tier)
    return write_tree(written)


def oss_request_document(operation: str, body: bytes, region: str) -> CooperativeWork[bytes]:
    """Returns the body of an operation of S3 for an OSS origin in `region`; empty if it has none. Raises S3Error
    MalformedXML, NotImplemented, InvalidArgument.
    """
    match operation:
        case "DeleteObjects":
            return (yield from _oss_delete(body))
        case "CompleteMultipartUpload":
            parts = yield from read_parts_cooperatively(body)
            quoted = [UploadedPart(part.number, _quoted(part.etag)) for part in parts]
            yield
            return DECLARATION.encode() + (yield from write_completion_cooperatively(quoted))
        case "PutObjectTagging" | "PutBucketTagging":
            return write_tree(_read(body, "Tagging"))
        case "PutBucketVersioning":
            versioning = _read(body, "VersioningConfiguration")
            if any(child.name != "Status" for child in versioning.children):
                raise S3Error("NotImplemented", "OSS has no MFA delete.")
            return write_tree(versioning)
        case "RestoreObject":
            return _oss_restore(_read(body, "RestoreRequest"))
        case "CreateBucket":
            _check_location(body, region)
        case "PutObjectAcl" | "PutBucketAcl" if body:
            raise S3Error("NotImplemented", "OSS has no grants; a canned ACL is taken (x-amz-acl).")
        case _:
            pass
    return b""


def _oss_delete(body: bytes) -> CooperativeWork[bytes]:
    tree = _read(body, "Delete")
    yield
    keys = listed_keys(body)
    yield
    if any(child.name not in {"Key", "VersionId"} for each in tree.all("Object") for child in each.children):
        raise S3Error("NotImplemented", "OSS deletes no objects under conditions.")
    quiet = "true" if tree.text_at("Quiet").lower() == "true" else "false"
    objects = [
        branch("Object", Element("Key", key), *([Element("VersionId", version)] if version is not None else []))
        for key, version, _ in keys
    ]
    yield
    return write_tree(branch("Delete", Element("Quiet", quiet), *objects))


def _oss_restore(tree: Element) -> bytes:
    if any(child.name not in {"Days", "Tier", "GlacierJobParameters"} for child in tree.children):
        raise S3Error("NotImplemented", "OSS restores for a number of days, at a tier, and nothing else.")
    tier = tree.text_at("GlacierJobParameters", "Tier") or tree.text_at("Tier")
    if tier and tier not in _TIERS:
        raise S3Error("MalformedXML")
    written = branch("RestoreRequest", Element("Days", tree.text_at("Days")))
    if tier:
        written.add("JobParameters").add("Tier", tier)
    return write_tree(written)


def _check_location(body: bytes, region: str) -> None:
    """Refuses another region than the endpoint's: the bucket could not be reached there."""
    if not body:
        return
    location = _read(body, "CreateBucketConfiguration").text_at("LocationConstraint")
    if location.removeprefix("oss-") not in {"", region}:
        raise S3Error("InvalidArgument", "A bucket can be made in the region of the origin only.")


def _quoted(etag: str) -> str:
    bare = etag.strip('"')
    return f'"{bare}"' if bare else ""


def branch(name: str, *children: Element) -> Element:
    """An element with these children."""
    return Element(name, "", list(children))


def _read(body: bytes, root: str, *, max_elements: int = _MAX_ELEMENTS) -> Element:
    try:
        tree = read_tree(body, max_size=MAX_BODY, max_elements=max_elements)
    except MalformedXml as refused:
        raise S3Error("MalformedXML", f"The XML was not understood: {refused}.") from refused
    if tree.name != root:
        raise S3Error("MalformedXML", f"The root element must be {root}.")
    return tree
