"""Part listings: ListParts of an upload in the journal, as the origin would answer it."""

from forebay.core.errors import S3Error
from forebay.protocol.body.checksum_headers import checksum_elements, checksums_in
from forebay.protocol.body.part_checksums import created_facts
from forebay.protocol.target import Target
from forebay.protocol.xml.parts_page import ListedPart, part_listing
from forebay.write.back.pending.pending_uploads import PendingUploads


def parts_document(uploads: PendingUploads, target: Target) -> bytes:
    """Returns the answer to a ListParts. Raises S3Error."""
    upload_id = target.param("uploadId") or ""
    upload = uploads.find(target.name, upload_id)
    if upload is None:
        raise S3Error("NoSuchUpload", UploadId=upload_id)
    parts = {
        number: ListedPart(part.etag, part.size, part.accepted_at, checksum_elements(checksums_in(part.headers)))
        for number, part in ((number, each.part) for number, each in upload.parts.items())
    }
    return part_listing(target, parts, checksum_elements(created_facts(upload.upload.headers)))
