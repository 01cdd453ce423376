"""ListObjects, ListObjectsV2, ListObjectVersions, ListMultipartUploads, ListBuckets.

https://docs.aws.amazon.com/AmazonS3/latest/API/API_ListObjectsV2.html. The continuation token is the last name
shown, in base64; it is opaque to clients, and tests should hold them to that.
"""

import base64
import binascii
from collections.abc import Iterator
from dataclasses import dataclass

from harness.fake import documents
from harness.fake.errors import Refusal
from harness.fake.responses import Answer, document, iso_date
from harness.fake.s3_request import S3Request
from harness.fake.store import Bucket, Store, StoredObject, Upload

_OWNER = ("Owner", [("ID", "fake"), ("DisplayName", "fake")])


@dataclass(frozen=True, slots=True)
class _Shown:
    """One line of a listing: a key with its version, or a common prefix."""

    name: str
    version: StoredObject | None


def _lines(bucket: Bucket, prefix: str, delimiter: str, after: str) -> Iterator[_Shown]:
    """The lines behind `after`, which may itself be a key or a common prefix."""
    last = None
    for key in bucket.keys_from(max(prefix, after)):
        if not key.startswith(prefix):
            break
        if key <= after or bucket.versions[key][-1].marker:
            continue
        head, found, _ = key[len(prefix) :].partition(delimiter) if delimiter else (key, "", "")
        if not found:
            yield _Shown(key, bucket.versions[key][-1])
        elif (rolled := prefix + head + delimiter) not in {last, after}:
            last = rolled
            yield _Shown(rolled, None)


def _limit(s3_request: S3Request, name: str = "max-keys") -> int:
    text = s3_request.query.get(name, "1000") or "1000"
    if not text.isdecimal():
        raise Refusal("InvalidArgument", f"Provided {name} not an integer or within integer range")
    return min(int(text), 1000)


def _after(s3_request: S3Request, modern: bool) -> str:
    if not modern:
        return s3_request.query.get("marker", "")
    token = s3_request.query.get("continuation-token")
    if token is None:
        return s3_request.query.get("start-after", "")
    try:
        return base64.urlsafe_b64decode(token).decode()
    except (binascii.Error, UnicodeDecodeError):
        raise Refusal("InvalidArgument", "The continuation token provided is incorrect") from None


def objects(store: Store, s3_request: S3Request, name: str) -> Answer:
    """Version 1 and 2."""
    bucket, modern = store.bucket(name), s3_request.operation == "ListObjectsV2"
    prefix, delimiter = s3_request.query.get("prefix", ""), s3_request.query.get("delimiter", "")
    encoding, limit, after = s3_request.query.get("encoding-type"), _limit(s3_request), _after(s3_request, modern)
    write = documents.encoder(encoding)
    shown: list[_Shown] = []
    truncated = False
    for line in _lines(bucket, prefix, delimiter, after) if limit else ():
        if len(shown) == limit:
            truncated = True
            break
        shown.append(line)
    said: list[tuple[str, object]] = [
        ("Name", name),
        ("Prefix", write(prefix)),
        ("MaxKeys", limit),
        ("IsTruncated", truncated),
    ]
    if delimiter:
        said.append(("Delimiter", write(delimiter)))
    if encoding:
        said.append(("EncodingType", encoding))
    if modern:
        said.append(("KeyCount", len(shown)))
        if "continuation-token" in s3_request.query:
            said.append(("ContinuationToken", s3_request.query["continuation-token"]))
        said += [("StartAfter", write(s3_request.query["start-after"]))] if s3_request.query.get("start-after") else []
        if truncated:
            token = base64.urlsafe_b64encode(shown[-1].name.encode()).decode()
            said.append(("NextContinuationToken", token))
    else:
        said.append(("Marker", write(after)))
        if truncated and delimiter:
            said.append(("NextMarker", write(shown[-1].name)))
    owned = not modern or s3_request.query.get("fetch-owner") == "true"
    for line in shown:
        if line.version is None:
            said.append(("CommonPrefixes", [("Prefix", write(line.name))]))
        else:
            said.append(("Contents", [("Key", write(line.name)), *_facts(line.version), *([_OWNER] if owned else [])]))
    return document(documents.xml("ListBucketResult", said))


def _facts(version: StoredObject) -> list[tuple[str, object]]:
    return [
        ("LastModified", iso_date(version.modified)),
        ("ETag", version.etag),
        ("Size", version.size),
        ("StorageClass", dict(version.headers).get("x-amz-storage-class", "STANDARD")),
    ]


def versions(store: Store, s3_request: S3Request, name: str) -> Answer:
    """All versions at once: no test needs them in pages."""
    bucket, prefix = store.bucket(name), s3_request.query.get("prefix", "")
    write = documents.encoder(s3_request.query.get("encoding-type"))
    said: list[tuple[str, object]] = [
        ("Name", name), ("Prefix", write(prefix)), ("KeyMarker", ""), ("VersionIdMarker", ""),
        ("MaxKeys", _limit(s3_request)), ("IsTruncated", False),
    ]  # fmt: skip
    for key in bucket.keys_from(prefix):
        if not key.startswith(prefix):
            break
        latest = bucket.versions[key][-1]
        for each in reversed(bucket.versions[key]):
            identity: list[tuple[str, object]] = [
                ("Key", write(key)), ("VersionId", each.version_id), ("IsLatest", each is latest),
            ]  # fmt: skip
            if each.marker:
                said.append(("DeleteMarker", [*identity, ("LastModified", iso_date(each.modified)), _OWNER]))
            else:
                said.append(("Version", [*identity, *_facts(each), _OWNER]))
    return document(documents.xml("ListVersionsResult", said))


def uploads(store: Store, s3_request: S3Request, name: str) -> Answer:
    """By key, and by upload id within a key; behind both markers, or behind the key alone."""
    query, limit = s3_request.query, _limit(s3_request, "max-uploads")
    prefix, delimiter, marker = query.get("prefix", ""), query.get("delimiter", ""), query.get("key-marker", "")
    behind = query.get("upload-id-marker", "") if marker else ""
    write = documents.encoder(query.get("encoding-type"))
    rows: dict[tuple[str, str], Upload | None] = {}
    for upload_id, upload in sorted(store.bucket(name).uploads.items(), key=lambda each: (each[1].key, each[0])):
        key = upload.key
        is_behind = (key, upload_id) > (marker, behind) if behind else key > marker
        if key.startswith(prefix) and is_behind:
            head, found, _ = key[len(prefix) :].partition(delimiter) if delimiter else (key, "", "")
            rolled = prefix + head + delimiter
            rows[(rolled, "") if found else (key, upload_id)] = None if found else upload
    shown = list(rows)[:limit]
    is_truncated = len(shown) < len(rows)
    last = shown[-1] if is_truncated and shown else ("", "")
    said: list[tuple[str, object]] = [
        ("Bucket", name), ("Prefix", write(prefix)), ("Delimiter", write(delimiter)), ("KeyMarker", write(marker)),
        ("UploadIdMarker", behind), ("NextKeyMarker", write(last[0])), ("NextUploadIdMarker", last[1]),
        ("MaxUploads", limit), ("IsTruncated", is_truncated), ("EncodingType", query.get("encoding-type", "")),
    ]  # fmt: skip
    for key, upload_id in shown:
        found_upload = rows[key, upload_id]
        if found_upload is None:
            said.append(("CommonPrefixes", [("Prefix", write(key))]))
            continue
        identity = [("Key", write(key)), ("UploadId", upload_id), ("Initiated", iso_date(found_upload.started))]
        said.append(("Upload", [*identity, ("StorageClass", "STANDARD"), _OWNER]))
    return document(documents.xml("ListMultipartUploadsResult", said))


def buckets(store: Store) -> Answer:
    lines = [
        ("Bucket", [("Name", name), ("CreationDate", iso_date(store.buckets[name].created))])
        for name in sorted(store.buckets)
    ]
    return document(documents.xml("ListAllMyBucketsResult", [_OWNER, ("Buckets", lines)]))
