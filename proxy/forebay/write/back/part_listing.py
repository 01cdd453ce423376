"""Part listings: ListParts of an upload in the journal, as the origin would answer it."""

from forebay.core.errors import S3Error
from forebay.protocol.target import Target
from forebay.protocol.xml.parts_page import ListedPart, part_listing
from forebay.write.back.object_metadata import checksum_headers
from forebay.write.back.part_checksums import created_facts, elements
from forebay.write.back.pending_uploads import PendingUploads


def parts_document(uploads: PendingUploads, target: Target) -> bytes:
    """Returns the answer to a ListParts. Raises S3Error."""
    upload_id = target.param("uploadId") or ""
    upload = uploads.find(target.name, upload_id)
    if upload is None:
        raise S3Error("NoSuchUpload", UploadId=upload_id)
    parts = {
        number: ListedPart(part.etag, part.size, part.accepted_at, elements(checksum_headers(part.headers)))
        for number, part in ((number, each.part) for number, each in upload.parts.items())
    }
    return part_listing(target, parts, elements(created_facts(upload.upload.headers)))
