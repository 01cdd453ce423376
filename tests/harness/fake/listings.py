"""ListObjects, ListObjectsV2, ListObjectVersions, ListMultipartUploads, ListBuckets.

https://docs.aws.amazon.com/AmazonS3/latest/API/API_ListObjectsV2.html. The continuation token is the last name
shown, in base64; it is opaque to clients, and tests should hold them to that.
"""

import base64
import binascii
from collections.abc import Iterator
from dataclasses import dataclass

from harness.fake import documents
from harness.fake.checksums import type_of
from harness.fake.errors import Refusal
from harness.fake.multipart import checksum_facts
from harness.fake.responses import Answer, document, iso_date
from harness.fake.s3_request import S3Request, limit_of
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
    encoding, limit, after = (
        s3_request.query.get("encoding-type"),
        limit_of(s3_request, "max-keys"),
        _after(s3_request, modern),
    )
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
        *[("ChecksumAlgorithm", name.upper()) for name, _ in version.checksums],
        *[("ChecksumType", type_of(value)) for _, value in version.checksums],
        ("Size", version.size),
        ("StorageClass", dict(version.headers).get("x-amz-storage-class", "STANDARD")),
    ]


def versions(store: Store, s3_request: S3Request, name: str) -> Answer:
    """By key, and the latest version of a key first; behind both markers, or behind the key alone."""
    query, limit, bucket = s3_request.query, limit_of(s3_request, "max-keys"), store.bucket(name)
    prefix, delimiter, marker = query.get("prefix", ""), query.get("delimiter", ""), query.get("key-marker", "")
    behind = query.get("version-id-marker", "")
    if behind and not marker:
        raise Refusal("InvalidArgument", "A version-id marker cannot be specified without a key marker.")
    write = documents.encoder(query.get("encoding-type"))
    rows: list[tuple[str, str, list[tuple[str, object]] | None]] = []
    for key in bucket.keys_from(prefix):
        if not key.startswith(prefix):
            break
        head, found, _ = key[len(prefix) :].partition(delimiter) if delimiter else (key, "", "")
        rolled = prefix + head + delimiter
        if found:
            if rolled > marker and (not rows or rows[-1][0] != rolled):
                rows.append((rolled, "", None))
            continue
        latest_first = bucket.versions[key][::-1]
        ids = [each.version_id for each in latest_first]
        if key < marker or (key == marker and behind not in ids):
            continue
        later = latest_first[ids.index(behind) + 1 :] if key == marker else latest_first
        rows += [
            (key, each.version_id, _version(write(key), each, is_latest=each is latest_first[0])) for each in later
        ]
    shown, is_truncated = rows[:limit], bool(limit) and len(rows) > limit
    said: list[tuple[str, object]] = [
        ("Name", name), ("Prefix", write(prefix)), ("KeyMarker", write(marker)), ("VersionIdMarker", behind),
        ("MaxKeys", limit), ("IsTruncated", is_truncated),
    ]  # fmt: skip
    said += [("Delimiter", write(delimiter))] if delimiter else []
    said += [("EncodingType", query["encoding-type"])] if query.get("encoding-type") else []
    if is_truncated:
        said += [("NextKeyMarker", write(shown[-1][0])), ("NextVersionIdMarker", shown[-1][1])]
    for key, _, facts in shown:
        if facts is None:
            said.append(("CommonPrefixes", [("Prefix", write(key))]))
        else:
            said.append(("Version" if ("Size" in dict(facts)) else "DeleteMarker", facts))
    return document(documents.xml("ListVersionsResult", said))


def _version(key: str, version: StoredObject, *, is_latest: bool) -> list[tuple[str, object]]:
    identity: list[tuple[str, object]] = [
        ("Key", key), ("VersionId", version.version_id), ("IsLatest", is_latest),
    ]  # fmt: skip
    if version.marker:
        return [*identity, ("LastModified", iso_date(version.modified)), _OWNER]
    return [*identity, *_facts(version), _OWNER]


def uploads(store: Store, s3_request: S3Request, name: str) -> Answer:
    """By key, and by upload id within a key; behind both markers, or behind the key alone."""
    query, limit = s3_request.query, limit_of(s3_request, "max-uploads")
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
        facts = [*identity, *checksum_facts(found_upload), ("StorageClass", "STANDARD"), _OWNER]
        said.append(("Upload", facts))
    return document(documents.xml("ListMultipartUploadsResult", said))


def buckets(store: Store) -> Answer:
    lines = [
        ("Bucket", [("Name", name), ("CreationDate", iso_date(store.buckets[name].created))])
        for name in sorted(store.buckets)
    ]
    return document(documents.xml("ListAllMyBucketsResult", [_OWNER, ("Buckets", lines)]))
