"""The documents in the bodies of requests to an OSS origin, from those of S3. OSS's have no namespace.

Bodies were read from the client; what OSS has no word for is refused, not left out.
"""

from typing import Final

from forebay.core.cooperative import Stretches
from forebay.core.errors import S3Error
from forebay.protocol.xml.s3_documents import UploadedPart, listed_keys, reading_parts, writing_completion
from forebay.protocol.xml.strict_parser import XMLRefused
from forebay.protocol.xml.xml_tree import DECLARATION, Element, read_tree, write_tree

LIMIT: Final = 16 << 20
"""Bytes of a document read."""
MOST: Final = 200_000  # its elements
_TIERS: Final = frozenset({"Expedited", "Standard", "Bulk"})


def oss_request_document(operation: str, body: bytes, region: str) -> Stretches[bytes]:
    """The body that OSS gets for `operation`; empty for none. Raises S3Error MalformedXML, NotImplemented."""
    match operation:
        case "DeleteObjects":
            return (yield from _delete(body))
        case "CompleteMultipartUpload":
            parts = yield from reading_parts(body)
            quoted = [UploadedPart(number, _quoted(etag)) for number, etag in parts]
            yield
            return DECLARATION.encode() + (yield from writing_completion(quoted))
        case "PutObjectTagging" | "PutBucketTagging":
            return write_tree(_tree(body, "Tagging"))
        case "PutBucketVersioning":
            tree = _tree(body, "VersioningConfiguration")
            if any(child.name != "Status" for child in tree.children):
                raise S3Error("NotImplemented", "OSS has no MFA delete.")
            return write_tree(tree)
        case "RestoreObject":
            return _restore(_tree(body, "RestoreRequest"))
        case "CreateBucket":
            _check_location(body, region)
            return b""
        case "PutObjectAcl" | "PutBucketAcl":
            if body:
                raise S3Error("NotImplemented", "OSS has no grants; a canned ACL is taken (x-amz-acl).")
            return b""
        case _:
            return b""


def _delete(body: bytes) -> Stretches[bytes]:
    tree = _tree(body, "Delete")
    yield
    keys = listed_keys(body)
    yield
    if any(child.name not in {"Key", "VersionId"} for each in tree.all("Object") for child in each.children):
        raise S3Error("NotImplemented", "OSS deletes no objects under conditions.")
    quiet = "true" if tree.told("Quiet").lower() == "true" else "false"
    objects = [
        branch("Object", Element("Key", key), *([Element("VersionId", version)] if version is not None else []))
        for key, version in keys
    ]
    yield
    return write_tree(branch("Delete", Element("Quiet", quiet), *objects))


def _restore(tree: Element) -> bytes:
    if any(child.name not in {"Days", "Tier", "GlacierJobParameters"} for child in tree.children):
        raise S3Error("NotImplemented", "OSS restores for a number of days, at a tier, and nothing else.")
    tier = tree.told("GlacierJobParameters", "Tier") or tree.told("Tier")
    if tier and tier not in _TIERS:
        raise S3Error("MalformedXML")
    said = [Element("Days", tree.told("Days"))]
    if tier:
        said.append(branch("JobParameters", Element("Tier", tier)))
    return write_tree(branch("RestoreRequest", *said))


def _check_location(body: bytes, region: str) -> None:
    """A bucket is made where the endpoint is; somewhere else it could not be reached."""
    if not body:
        return
    wanted = _tree(body, "CreateBucketConfiguration").told("LocationConstraint")
    if wanted.removeprefix("oss-") not in {"", region}:
        raise S3Error("InvalidArgument", "A bucket can be made in the region of the origin only.")


def _quoted(etag: str) -> str:
    bare = etag.strip('"')
    return f'"{bare}"' if bare else ""


def branch(name: str, *children: Element) -> Element:
    return Element(name, "", list(children))


def _tree(body: bytes, root: str) -> Element:
    try:
        tree = read_tree(body, max_size=LIMIT, max_elements=MOST)
    except XMLRefused as refused:
        raise S3Error("MalformedXML", f"The XML was not understood: {refused}.") from refused
    if tree.name != root:
        raise S3Error("MalformedXML", f"The root element must be {root}.")
    return tree
