"""The operations on one object: GetObject, HeadObject, PutObject, CopyObject, DeleteObject, tagging, ACL.

https://docs.aws.amazon.com/AmazonS3/latest/API/API_Operations_Amazon_Simple_Storage_Service.html
"""

from collections.abc import Iterable
from itertools import accumulate
from urllib.parse import parse_qsl, unquote

from forebay.core.byte_ranges import Span
from harness.fake import documents
from harness.fake.checksums import DEFAULT_CHECKSUM, digest_of, type_of
from harness.fake.conditions import is_range_current, precondition, span_of
from harness.fake.content import Content, Stored
from harness.fake.errors import Refusal
from harness.fake.payload import Payload
from harness.fake.responses import Answer, Pairs, document, http_date, iso_date
from harness.fake.s3_request import S3Request
from harness.fake.store import Bucket, Store, StoredObject, md5_etag

_KEPT = frozenset(
    [
        "content-type",
        "content-encoding",
        "content-disposition",
        "content-language",
        "cache-control",
        "expires",
        "x-amz-object-lock-legal-hold",
        "x-amz-object-lock-mode",
        "x-amz-object-lock-retain-until-date",
        "x-amz-storage-class",
        "x-amz-website-redirect-location",
    ]
)
_OVERRIDES = ("type", "language", "encoding", "disposition")


_STORAGE_CLASS = "x-amz-storage-class"


def kept_headers(names: Iterable[tuple[str, str]]) -> Pairs:
    """The request's headers that become the object's. aws-chunked is framing and isn't kept, nor is the
    storage class that all objects have; metadata may be empty."""
    kept = []
    for name, value in ((name.lower(), value) for name, value in names):
        if name == "content-encoding" and "aws-chunked" in value:
            value = ",".join(each.strip() for each in value.split(",") if each.strip() != "aws-chunked")  # noqa: PLW2901  # the value that is kept
        if (name, value) == ("x-amz-storage-class", "STANDARD"):
            continue
        if (value and name in _KEPT) or name.startswith("x-amz-meta-"):
            kept.append((name, value))
    return tuple(kept)


def named(bucket: Bucket, version: StoredObject) -> Pairs:
    return (("x-amz-version-id", version.version_id),) if bucket.versioning else ()


def _source_span(version: StoredObject, number: str) -> Span:
    """Where part `number` lies; an object that was put at once is its own part 1."""
    sizes = version.part_sizes or (version.size,)
    if not number.isdecimal() or not 1 <= int(number) <= 10_000:
        raise Refusal("InvalidArgument", "Part number must be an integer between 1 and 10000, inclusive")
    if int(number) > len(sizes):
        raise Refusal("InvalidPartNumber", "The requested partnumber is not satisfiable", PartNumberRequested=number)
    stop = list(accumulate(sizes))[int(number) - 1]
    return Span(stop - sizes[int(number) - 1], stop)


def read(store: Store, s3_request: S3Request, bucket: str, key: str) -> Answer:
    """GetObject and HeadObject; the head's answer is the same without its body."""
    version = store.get(bucket, key, s3_request.query.get("versionId"))
    identity: Pairs = (("Last-Modified", http_date(int(version.modified))), ("ETag", version.etag))
    identity += named(store.bucket(bucket), version)
    status = precondition(s3_request.headers, version.etag, version.modified)
    if status == 412:
        raise Refusal("PreconditionFailed", "At least one of the pre-conditions you specified did not hold")
    if status == 304:
        return Answer(304, identity, bodiless=True)
    number, span = s3_request.query.get("partNumber"), None
    if number is not None:
        if s3_request.range is not None:
            raise Refusal("InvalidRequest", "Cannot specify both Range header and partNumber query parameter")
        span = _source_span(version, number)
        if version.part_sizes:
            identity += (("x-amz-mp-parts-count", str(len(version.part_sizes))),)
    elif s3_request.range is not None and is_range_current(
        s3_request.headers.get("If-Range"), version.etag, version.modified
    ):
        span = span_of(s3_request.range, version.size)
    headers = dict((("content-type", "binary/octet-stream"), *version.headers))
    for name in (*(f"content-{each}" for each in _OVERRIDES), "cache-control", "expires"):
        if (override := s3_request.query.get(f"response-{name}")) is not None:
            headers[name] = override
    pairs = (*identity, ("accept-ranges", "bytes"), *headers.items())
    if version.tags:
        pairs += (("x-amz-tagging-count", str(len(version.tags))),)
    # A checksum is of the whole object, so it does not go with a range.
    if (span is None or span.length == version.size) and s3_request.headers.get(
        "x-amz-checksum-mode", ""
    ).upper() == "ENABLED":
        pairs += tuple((f"x-amz-checksum-{name}", value) for name, value in version.checksums)
        pairs += tuple(("x-amz-checksum-type", type_of(value)) for _, value in version.checksums)
    bodiless = s3_request.method == "HEAD"
    if span is None:
        return Answer(200, pairs, version.content, 0, version.size, bodiless)
    if span.length == 0:  # part 1 of an empty object has no range to speak of
        return Answer(200, pairs, version.content, 0, 0, bodiless)
    pairs += (("Content-Range", f"bytes {span.start}-{span.stop - 1}/{version.size}"),)
    return Answer(206, pairs, version.content, span.start, span.stop, bodiless)


def check_write(store: Store, s3_request: S3Request, bucket: str, key: str) -> None:
    """The conditions of a write. Refusal: PreconditionFailed, NoSuchKey."""
    current = store.current(bucket, key)
    match, none_match = s3_request.headers.get("If-Match"), s3_request.headers.get("If-None-Match")
    if none_match is not None and none_match.strip() != "*":
        raise Refusal("NotImplemented", "If-None-Match of a write is '*' or nothing")
    if match is not None and current is None:
        raise Refusal("NoSuchKey", "The specified key does not exist.", Key=key)
    if (none_match is not None and current is not None) or (
        match is not None
        and current is not None
        and match.strip('"') != current.etag.strip('"')
        and (s3_request.method, match) != ("DELETE", "*")
    ):
        raise Refusal("PreconditionFailed", "At least one of the pre-conditions you specified did not hold")


def header_tags(s3_request: S3Request) -> Pairs:
    return tuple(parse_qsl(s3_request.headers.get("x-amz-tagging", ""), keep_blank_values=True))


def put(store: Store, s3_request: S3Request, bucket: str, key: str, payload: Payload) -> Answer:
    home = store.bucket(bucket)
    check_write(store, s3_request, bucket, key)
    checksums = payload.checksums or ((DEFAULT_CHECKSUM, digest_of(DEFAULT_CHECKSUM, payload.body)),)
    version = store.add(
        home,
        StoredObject(
            key,
            Stored(payload.body),
            home.etag_of(payload.body),
            store.clock(),
            kept_headers(s3_request.headers.items()),
            checksums=checksums,
            tags=header_tags(s3_request),
        ),
    )
    told = tuple((f"x-amz-checksum-{name}", value) for name, value in checksums)
    told += (("x-amz-checksum-type", "FULL_OBJECT"),)
    return Answer(200, (("ETag", version.etag), *named(home, version), *told, *home.encryption_headers))


def copy_source(store: Store, s3_request: S3Request) -> StoredObject:
    """The version that x-amz-copy-source names, once its conditions hold."""
    raw, _, query = s3_request.headers["x-amz-copy-source"].partition("?")
    bucket, _, key = unquote(raw).removeprefix("/").partition("/")
    if not key:
        raise Refusal("InvalidArgument", "Copy Source must mention the source bucket and key: sourcebucket/sourcekey")
    version = store.get(bucket, key, dict(parse_qsl(query)).get("versionId"))
    if precondition(s3_request.headers, version.etag, version.modified, "x-amz-copy-source-") is not None:
        raise Refusal("PreconditionFailed", "At least one of the pre-conditions you specified did not hold")
    return version


def copy(store: Store, s3_request: S3Request, bucket: str, key: str) -> Answer:
    home, source = store.bucket(bucket), copy_source(store, s3_request)
    replaced = s3_request.headers.get("x-amz-metadata-directive", "COPY").upper() == "REPLACE"
    if source in home.versions.get(key, ()) and not replaced and "?" not in s3_request.headers["x-amz-copy-source"]:
        raise Refusal("InvalidRequest", "This copy request is illegal because it is trying to copy an object to itself")
    check_write(store, s3_request, bucket, key)
    content: Content = source.content
    etag, checksums = source.etag, source.checksums
    if source.part_sizes:  # a copy is put at once, so its ETag is the MD5 of the whole
        content = Stored(b"".join(content.views(0, content.size)))
        whole = next(iter(content.views(0, content.size)), b"")
        etag, checksums = md5_etag(whole), tuple((name, digest_of(name, whole)) for name, _ in checksums)
    if algorithm := s3_request.headers.get("x-amz-checksum-algorithm", "").lower():
        whole = b"".join(content.views(0, content.size))
        checksums = ((algorithm, digest_of(algorithm, whole)),)
    sent = kept_headers(s3_request.headers.items())
    headers = sent
    if not replaced:  # how an object is stored is no metadata
        headers = tuple(pair for pair in source.headers if pair[0].lower() != _STORAGE_CLASS)
        headers += tuple(pair for pair in sent if pair[0].lower() == _STORAGE_CLASS)
    tags = header_tags(s3_request) if s3_request.headers.get("x-amz-tagging-directive") == "REPLACE" else source.tags
    version = store.add(
        home,
        StoredObject(key, content, etag, store.clock(), headers, checksums=checksums, tags=tags),
    )
    told = named(home, version)
    if store.bucket(bucket).versioning:
        told += (("x-amz-copy-source-version-id", source.version_id),)
    result = [("ETag", version.etag), ("LastModified", iso_date(version.modified))]
    result += [(f"Checksum{name.upper()}", value) for name, value in checksums]
    result += [("ChecksumType", type_of(value)) for _, value in checksums]
    return document(documents.xml("CopyObjectResult", result), headers=told)


def delete(store: Store, s3_request: S3Request, bucket: str, key: str) -> Answer:
    home, match = store.bucket(bucket), s3_request.headers.get("If-Match")
    if match is not None:
        check_write(store, s3_request, bucket, key)
    marker = store.delete(bucket, key, s3_request.query.get("versionId"))
    told: Pairs = (("x-amz-delete-marker", "true"), *named(home, marker)) if marker else ()
    return Answer(204, told)


def tagging(store: Store, s3_request: S3Request, bucket: str, key: str, payload: Payload) -> Answer:
    home, version = store.bucket(bucket), store.get(bucket, key, s3_request.query.get("versionId"))
    if s3_request.method == "GET":
        return document(documents.tagging(version.tags), headers=named(home, version))
    tags = documents.tags_of(payload.body) if s3_request.method == "PUT" else ()
    changed = StoredObject(
        key, version.content, version.etag, version.modified, version.headers, version.version_id,
        part_sizes=version.part_sizes, checksums=version.checksums, part_checksums=version.part_checksums, tags=tags,
    )  # fmt: skip
    store.swap(home, version, changed)
    return Answer(200 if s3_request.method == "PUT" else 204, named(home, version))


_ATTRIBUTES = frozenset(["ETag", "Checksum", "ObjectParts", "StorageClass", "ObjectSize"])


def attributes(store: Store, s3_request: S3Request, bucket: str, key: str) -> Answer:
    """GetObjectAttributes: https://docs.aws.amazon.com/AmazonS3/latest/API/API_GetObjectAttributes.html."""
    version = store.get(bucket, key, s3_request.query.get("versionId"))
    wanted = {each.strip() for each in s3_request.headers.get("x-amz-object-attributes", "").split(",")}
    if not wanted <= _ATTRIBUTES:
        raise Refusal("InvalidArgument", "Invalid attribute name specified.")
    said: list[tuple[str, object]] = [("ETag", version.etag.strip('"'))]
    if version.checksums:
        sums = [(f"Checksum{name.upper()}", value) for name, value in version.checksums]
        said.append(("Checksum", [*sums, ("ChecksumType", type_of(version.checksums[0][1]))]))
    if version.part_sizes:
        said.append(("ObjectParts", _object_parts(version, s3_request)))
    said.append(("StorageClass", dict(version.headers).get("x-amz-storage-class", "STANDARD")))
    said.append(("ObjectSize", version.size))
    told = (("Last-Modified", http_date(int(version.modified))), *named(store.bucket(bucket), version))
    return document(
        documents.xml("GetObjectAttributesResponse", [each for each in said if each[0] in wanted]), headers=told
    )


def _object_parts(version: StoredObject, s3_request: S3Request) -> list[tuple[str, object]]:
    """S3 lists those parts that have checksums."""
    count = ("PartsCount", len(version.part_sizes))
    if not version.part_checksums:
        return [count]
    limit = min(int(s3_request.headers.get("x-amz-max-parts", "1000")), 1000)
    after = int(s3_request.headers.get("x-amz-part-number-marker", "0"))
    shown = range(after, min(after + limit, len(version.part_sizes)))
    page = [
        ("PartNumberMarker", after),
        ("NextPartNumberMarker", after + len(shown)),
        ("MaxParts", limit),
        ("IsTruncated", shown.stop < len(version.part_sizes)),
    ]
    sums = [[(f"Checksum{name.upper()}", value) for name, value in each] for each in version.part_checksums]
    parts = [("Part", [("PartNumber", at + 1), ("Size", version.part_sizes[at]), *sums[at]]) for at in shown]
    return [count, *page, *parts]


def acl(store: Store, s3_request: S3Request, bucket: str, key: str) -> Answer:
    """A stub: everything is private to its owner, and a change is taken and forgotten."""
    store.get(bucket, key, s3_request.query.get("versionId"))
    return document(documents.policy()) if s3_request.method == "GET" else Answer(200)
