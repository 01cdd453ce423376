"""Multipart uploads: create, upload part, part copy, list parts, complete, abort.

https://docs.aws.amazon.com/AmazonS3/latest/userguide/mpuoverview.html. The ETag of the whole is the MD5 of the
parts' MD5s and their number. A part other than the last has at least 5 MiB, or `smallest` of the fake, so that
tests may be small.
"""

import hashlib
import re
import uuid
from itertools import pairwise

from harness.fake import documents
from harness.fake.checksums import ALGORITHMS, DEFAULT_CHECKSUM, composite_of, digest_of, type_of
from harness.fake.conditions import span_of
from harness.fake.content import Stored, joined
from harness.fake.errors import Refusal
from harness.fake.objects import check_write, copy_source, header_tags, kept_headers, named
from harness.fake.payload import Payload
from harness.fake.responses import Answer, Pairs, document, iso_date
from harness.fake.s3_request import S3Request, limit_of
from harness.fake.store import Store, StoredObject, Upload, md5_etag

SMALLEST = 5 << 20
_COPIED = re.compile(r"bytes=(\d+)-\d+")


def _upload(store: Store, s3_request: S3Request, bucket: str, key: str) -> tuple[str, Upload]:
    name = s3_request.query.get("uploadId", "")
    upload = store.bucket(bucket).uploads.get(name)
    if upload is None or upload.key != key:
        raise Refusal("NoSuchUpload", "The specified upload does not exist.", UploadId=name)
    return name, upload


def _number(s3_request: S3Request) -> int:
    text = s3_request.query.get("partNumber", "")
    if not text.isdecimal() or not 1 <= int(text) <= 10_000:
        raise Refusal("InvalidArgument", "Part number must be an integer between 1 and 10000, inclusive")
    return int(text)


def create(store: Store, s3_request: S3Request, bucket: str, key: str) -> Answer:
    home, name = store.bucket(bucket), f"{store.next_upload():08x}{uuid.uuid4().hex[8:]}"
    algorithm = s3_request.headers.get("x-amz-checksum-algorithm", "")
    kind = s3_request.headers.get("x-amz-checksum-type", "FULL_OBJECT" if algorithm == "CRC64NVME" else "COMPOSITE")
    if algorithm and algorithm.lower() not in ALGORITHMS:
        raise Refusal("InvalidRequest", "Checksum algorithm provided is unsupported.")
    home.uploads[name] = Upload(
        key,
        kept_headers(s3_request.headers.items()),
        header_tags(s3_request),
        store.clock(),
        algorithm=algorithm.lower(),
        full_object=kind == "FULL_OBJECT",
    )
    told = (("x-amz-checksum-algorithm", algorithm), ("x-amz-checksum-type", kind)) if algorithm else ()
    said = [("Bucket", bucket), ("Key", key), ("UploadId", name)]
    return document(documents.xml("InitiateMultipartUploadResult", said), headers=(*home.encryption_headers, *told))


def upload_part(store: Store, s3_request: S3Request, bucket: str, key: str, payload: Payload) -> Answer:
    (_, upload), number = _upload(store, s3_request, bucket, key), _number(s3_request)
    home = store.bucket(bucket)
    if upload.algorithm and not upload.full_object and upload.algorithm not in dict(payload.checksums):
        message = f"Checksum Type mismatch occurred, expected checksum Type: {upload.algorithm}, actual: null"
        raise Refusal("InvalidRequest", message)
    etag = home.etag_of(payload.body)
    upload.parts[number] = StoredObject(key, Stored(payload.body), etag, store.clock(), checksums=payload.checksums)
    told = tuple((f"x-amz-checksum-{name}", value) for name, value in payload.checksums)
    return Answer(200, (("ETag", etag), *told, *home.encryption_headers))


def upload_part_copy(store: Store, s3_request: S3Request, bucket: str, key: str) -> Answer:
    (_, upload), number = _upload(store, s3_request, bucket, key), _number(s3_request)
    source = copy_source(store, s3_request)
    header = s3_request.headers.get("x-amz-copy-source-range")
    first = _COPIED.fullmatch(header) if header is not None else None
    span = span_of(header, source.size) if first is not None and int(first[1]) < source.size else None
    if header is not None and (span is None or header.rpartition("-")[2] != str(span.stop - 1)):
        raise Refusal("InvalidArgument", "The x-amz-copy-source-range value must be of the form bytes=first-last")
    start, stop = span or (0, source.size)
    body = b"".join(source.content.views(start, stop))
    sums = ((upload.algorithm, digest_of(upload.algorithm, body)),) if upload.algorithm else ()
    upload.parts[number] = part = StoredObject(key, Stored(body), md5_etag(body), store.clock(), checksums=sums)
    said = [("LastModified", iso_date(part.modified)), ("ETag", part.etag), *_elements(sums)]
    return document(documents.xml("CopyPartResult", said))


def _elements(checksums: Pairs) -> list[tuple[str, str]]:
    return [(f"Checksum{name.upper()}", value) for name, value in checksums]


def checksum_facts(upload: Upload) -> list[tuple[str, str]]:
    """What listings show of the checksums that an upload was created for."""
    if not upload.algorithm:
        return []
    kind = "FULL_OBJECT" if upload.full_object else "COMPOSITE"
    return [("ChecksumAlgorithm", upload.algorithm.upper()), ("ChecksumType", kind)]


def list_parts(store: Store, s3_request: S3Request, bucket: str, key: str) -> Answer:
    name, upload = _upload(store, s3_request, bucket, key)
    limit = limit_of(s3_request, "max-parts")
    after = limit_of(s3_request, "part-number-marker", 0, 10_000)
    later = [number for number in sorted(upload.parts) if number > after]
    shown = later[:limit]
    said: list[tuple[str, object]] = [
        ("Bucket", bucket),
        ("Key", key),
        ("UploadId", name),
        ("StorageClass", "STANDARD"),
        *checksum_facts(upload),
        ("PartNumberMarker", after),
        ("NextPartNumberMarker", shown[-1] if shown else 0),
        ("MaxParts", limit),
        ("IsTruncated", 0 < limit < len(later)),
    ]
    for number in shown:
        part = upload.parts[number]
        one = [("PartNumber", number), ("LastModified", iso_date(part.modified)), ("ETag", part.etag)]
        said.append(("Part", [*one, ("Size", part.size), *_elements(part.checksums)]))
    return document(documents.xml("ListPartsResult", said))


def complete(store: Store, s3_request: S3Request, bucket: str, key: str, payload: Payload, *, smallest: int) -> Answer:
    name, upload = _upload(store, s3_request, bucket, key)
    wanted = list(documents.children(documents.parse(payload.body, "CompleteMultipartUpload"), "Part"))
    if not wanted:
        raise Refusal("MalformedXML", "You must specify at least one part")
    numbers = [int(each.get("PartNumber", "0")) for each in wanted]
    if any(later <= earlier for earlier, later in pairwise(numbers)):
        raise Refusal("InvalidPartOrder", "The list of parts was not in ascending order.")
    parts = []
    for number, each in zip(numbers, wanted, strict=True):
        part = upload.parts.get(number)
        if part is None or part.etag.strip('"') != each.get("ETag", "").strip('"'):
            raise Refusal("InvalidPart", "One or more of the specified parts could not be found.", PartNumber=number)
        sums = {name.removeprefix("Checksum").lower(): value for name, value in each.items() if "Checksum" in name}
        if any(dict(part.checksums).get(name, value) != value for name, value in sums.items()):
            raise Refusal("InvalidPart", "The checksum of a part did not match.", PartNumber=number)
        if upload.algorithm and not upload.full_object and upload.algorithm not in sums:
            message = (
                f"The upload was created using a {upload.algorithm} checksum. The complete request must include it"
            )
            raise Refusal(
                "InvalidRequest", f"{message} for each part. It was missing for part {number} in the request."
            )
        parts.append(part)
    whole = b"".join(b"".join(part.content.views(0, part.size)) for part in parts)
    for algorithm in ALGORITHMS:
        given = s3_request.headers.get(f"x-amz-checksum-{algorithm}")
        if given is not None and given != digest_of(algorithm, whole):
            raise Refusal("BadDigest", f"The {algorithm} you specified did not match the calculated checksum.")
    if any(part.size < smallest for part in parts[:-1]):
        raise Refusal("EntityTooSmall", "Your proposed upload is smaller than the minimum allowed size")
    check_write(store, s3_request, bucket, key)
    digests = b"".join(bytes.fromhex(part.etag.strip('"')) for part in parts)
    etag = f'"{hashlib.md5(digests, usedforsecurity=False).hexdigest()}-{len(parts)}"'
    home, content = store.bucket(bucket), joined([part.content for part in parts])
    sizes = tuple(part.size for part in parts)
    own = [dict(part.checksums).get(upload.algorithm) for part in parts]
    if upload.algorithm and not upload.full_object:
        checksum = upload.algorithm, composite_of(upload.algorithm, filter(None, own))
    else:
        algorithm = upload.algorithm or DEFAULT_CHECKSUM
        checksum = algorithm, digest_of(algorithm, whole)
    version = store.add(
        home,
        StoredObject(
            key,
            content,
            etag,
            store.clock(),
            upload.headers,
            part_sizes=sizes,
            checksums=(checksum,),
            part_checksums=tuple(((upload.algorithm, each),) for each in own if each) if all(own) else (),
            tags=upload.tags,
        ),
    )
    del home.uploads[name]
    said = [("Location", f"/{bucket}/{key}"), ("Bucket", bucket), ("Key", key), ("ETag", etag)]
    said += [*_elements((checksum,)), ("ChecksumType", type_of(checksum[1]))]
    headers = (*named(home, version), *home.encryption_headers)
    return document(documents.xml("CompleteMultipartUploadResult", said), headers=headers)


def abort(store: Store, s3_request: S3Request, bucket: str, key: str) -> Answer:
    name, _ = _upload(store, s3_request, bucket, key)
    del store.bucket(bucket).uploads[name]
    return Answer(204)
