"""Documents in the bodies of OSS requests, as S3 wants them: written anew, so that nothing else gets through.

    CompleteMultipartUpload   ETags as S3 writes them
    PutBucket                 the storage class is judged; S3 wants the region there
    RestoreObject             the tier under another name

All others (batch delete, tags, versioning) are the same in both.
"""

from typing import Final

from forebay.core.cooperative import Stretches
from forebay.core.errors import S3Error
from forebay.protocol.oss.oss_headers import s3_etags
from forebay.protocol.oss.oss_request import OssRequest
from forebay.protocol.xml.s3_documents import MAX_BODY, UploadedPart, reading_parts, writing_completion
from forebay.protocol.xml.strict_parser import XMLRefused
from forebay.protocol.xml.xml_tree import Element, read_tree, write_tree

_DEFAULT_REGION: Final = "us-east-1"  # which S3 wants nobody to name


def s3_request_document(request: OssRequest, body: bytes, region: str) -> Stretches[bytes]:
    """The body that the origin gets. `region`: the origin's. Raises S3Error MalformedXML, NotImplemented."""
    match request.name:
        case "CompleteMultipartUpload":
            return (yield from _completion(request, body))
        case "PutBucket":
            return _bucket(body, region)
        case "RestoreObject":
            return _restoring(body)
        case _:
            return body


def _completion(request: OssRequest, body: bytes) -> Stretches[bytes]:
    parts = yield from reading_parts(body)
    if not request.from_oss_origin:
        parts = [UploadedPart(part.number, s3_etags(part.etag)) for part in parts]
        yield
    return (yield from writing_completion(parts))


def _bucket(body: bytes, region: str) -> bytes:
    if body.strip():
        storage = _read(body, "CreateBucketConfiguration").told("StorageClass")
        if storage not in {"", "Standard"}:
            raise S3Error("NotImplemented", "Buckets of S3 have no storage class.")
    if region == _DEFAULT_REGION:
        return b""
    root = Element("CreateBucketConfiguration")
    root.add("LocationConstraint", region)
    return write_tree(root)


def _restoring(body: bytes) -> bytes:
    root = Element("RestoreRequest")
    given = _read(body, "RestoreRequest") if body.strip() else Element("")
    root.add("Days", given.told("Days") or "1")
    tier = given.told("JobParameters", "Tier")
    if tier:
        root.add("GlacierJobParameters").add("Tier", tier)
    return write_tree(root)


def _read(body: bytes, root: str) -> Element:
    try:
        document = read_tree(body, max_size=MAX_BODY, max_elements=100)
    except XMLRefused as refused:
        raise S3Error("MalformedXML", f"The XML was not understood: {refused}.") from refused
    if document.name != root:
        raise S3Error("MalformedXML", f"The root element must be {root}.")
    return document
