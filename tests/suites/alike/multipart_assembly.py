"""Multipart uploads put together in unusual ways: of one part, of empty ones, resent, read by part, summed, tagged."""

import base64
import hashlib

from suites.alike.cases import case
from suites.alike.recording_client import Answer, RecordingClient, crc32, md5

_MIB5 = b"0123456789abcdef" * 327_680
_KEY = {
    "x-amz-server-side-encryption-customer-algorithm": "AES256",
    "x-amz-server-side-encryption-customer-key": "pO3upElrwuEXSoFwCfnZPdSsmt/xWeFa0N9KgDijwVs=",
    "x-amz-server-side-encryption-customer-key-md5": "DWygnHRtgiJ77HCm+1rvHw==",
}
_WISHED = {"x-amz-object-attributes": "ETag,Checksum,ObjectParts,StorageClass,ObjectSize"}


def _completed(
    s3: RecordingClient, key: str, upload: str, parts: list[str], headers: dict[str, str] | None = None
) -> Answer:
    listed = "".join(f"<Part><PartNumber>{number}</PartNumber>{part}</Part>" for number, part in enumerate(parts, 1))
    document = f"<CompleteMultipartUpload>{listed}</CompleteMultipartUpload>".encode()
    return s3.send("POST", key, {"uploadId": upload}, headers, document)


def _made(
    s3: RecordingClient, key: str, *bodies: bytes, headers: dict[str, str] | None = None, resent: int = -1
) -> str:
    """The upload's id, once it has been completed."""
    upload = s3.send("POST", key, {"uploads": ""}, headers).of("UploadId")
    keyed = {name: value for name, value in (headers or {}).items() if name in _KEY}
    parts = []
    for number, body in enumerate(bodies, 1):
        asked = {"partNumber": str(number), "uploadId": upload}
        parts.append(f"<ETag>{s3.send('PUT', key, asked, keyed, body).etag}</ETag>")
        if number == resent:
            s3.send("PUT", key, asked, keyed, body)
    s3.send("GET", key, {"partNumber": "1"}, keyed)
    _completed(s3, key, upload, parts, keyed)
    return upload


@case
def sizes(s3: RecordingClient) -> None:
    for number, bodies in enumerate(((b"x",), (b"",), (_MIB5,), (_MIB5, b"x" * 100_000), (_MIB5, _MIB5), (_MIB5, b""))):
        key = f"of-{number}"
        _made(s3, key, *bodies)
        for _ in range(2):
            s3.send("GET", key)
        s3.send("GET", key, headers={"Range": f"bytes={len(_MIB5) - 1}-{len(_MIB5)}"})
        s3.send("GET", key, {"attributes": ""}, _WISHED)
        s3.send("GET", key, {"attributes": ""}, _WISHED | {"x-amz-max-parts": "1", "x-amz-part-number-marker": "1"})
    s3.send("GET", query={"list-type": "2"})


@case
def again(s3: RecordingClient) -> None:
    for resent in (1, 2):
        upload = _made(s3, "foo", _MIB5, b"end", resent=resent)
        s3.send("GET", "foo")
        _completed(s3, "foo", upload, [f'<ETag>"{hashlib.md5(_MIB5).hexdigest()}"</ETag>'])
        s3.send("GET", "foo")
    first = s3.send("POST", "late", {"uploads": ""}).of("UploadId")
    asked = {"partNumber": "1", "uploadId": first}
    old, new = (s3.send("PUT", "late", asked, body=body).etag for body in (b"old", b"new"))
    _completed(s3, "late", first, [f"<ETag>{old}</ETag>"])
    _completed(s3, "late", first, [f"<ETag>{new}</ETag>"])
    s3.send("GET", "late")


@case
def by_part(s3: RecordingClient) -> None:
    _made(s3, "many", _MIB5, _MIB5, b"last", resent=2)
    _made(s3, "one", b"only")
    _made(s3, "secret", _MIB5, b"last", headers=_KEY)
    s3.send("PUT", "plain", body=b"body")
    s3.send("PUT", "empty")
    for key, headers in (("many", {}), ("one", {}), ("plain", {}), ("empty", {}), ("secret", _KEY), ("secret", {})):
        for number in ("1", "2", "3", "5"):
            s3.send("GET", key, {"partNumber": number}, headers)
            s3.send("HEAD", key, {"partNumber": number}, headers)
        s3.send("GET", key, {"partNumber": "1"}, headers | {"If-None-Match": "*"})
        s3.send("GET", key, {"partNumber": "1", "response-content-type": "a/b"}, headers)
        s3.send("GET", key, headers=headers)


@case
def sums(s3: RecordingClient) -> None:
    def told(kind: str, body: bytes) -> str:
        return base64.b64encode(crc32(body) if kind == "CRC32" else hashlib.sha256(body).digest()).decode()

    for kind, form in (
        ("CRC32", "FULL_OBJECT"),
        ("SHA256", "COMPOSITE"),
        ("CRC32", "COMPOSITE"),
        ("SHA256", "FULL_OBJECT"),
    ):
        header, element = f"x-amz-checksum-{kind.lower()}", f"Checksum{kind}"
        wished = {"x-amz-checksum-algorithm": kind, "x-amz-checksum-type": form}
        upload = s3.send("POST", "foo", {"uploads": ""}, wished).of("UploadId")
        s3.send("PUT", "foo", {"partNumber": "1", "uploadId": upload}, {header: told(kind, b"other")}, b"bar")
        s3.send("PUT", "foo", {"partNumber": "1", "uploadId": upload}, {"Content-MD5": md5(b"other")}, b"bar")
        etag = s3.send("PUT", "foo", {"partNumber": "1", "uploadId": upload}, {header: told(kind, b"bar")}, b"bar").etag
        s3.send("GET", "foo", {"uploadId": upload})
        right = f"<ETag>{etag}</ETag><{element}>{told(kind, b'bar')}</{element}>"
        _completed(s3, "foo", upload, [right], {header: "bad"})
        _completed(s3, "foo", upload, [right.replace(told(kind, b"bar"), told(kind, b"other"))])
        _completed(s3, "foo", upload, [right], {"x-amz-mp-object-size": "9"})
        _completed(s3, "foo", upload, [right], {"x-amz-checksum-type": form, "x-amz-mp-object-size": "3"})
        s3.send("GET", "foo")
        s3.send("HEAD", "foo", headers={"x-amz-checksum-mode": "ENABLED"})
        s3.send("HEAD", "foo")
        s3.send("GET", "foo", {"attributes": ""}, _WISHED)


@case
def with_more(s3: RecordingClient) -> None:
    kept = {
        "x-amz-tagging": "Hello=World&foo=bar",
        "x-amz-meta-a": "b",
        "Cache-Control": "no-cache",
        "Expires": "never",
    }
    _made(s3, "foo", b"part", headers=kept | {"x-amz-storage-class": "STANDARD_IA", "x-amz-acl": "public-read"})
    s3.send("GET", "foo")
    s3.send("GET", "foo", {"tagging": ""})
    s3.send("GET", "foo", {"acl": ""})
    for wrong in ({"x-amz-tagging": "a=1&a=2"}, {"x-amz-acl": "public-ready"}, {"x-amz-storage-class": "nonsense"}):
        s3.send("POST", "foo", {"uploads": ""}, wrong)
    uploads = [s3.send("POST", key, {"uploads": ""}).of("UploadId") for key in ("a", "b")]
    s3.send("GET", query={"uploads": ""})
    s3.send("GET", query={"uploads": "", "max-uploads": "1"})
    s3.send("DELETE", "b", {"uploadId": uploads[0]})
    s3.send("DELETE", "a", {"uploadId": uploads[0]})
    s3.send("GET", "a", {"uploadId": uploads[0]})
    s3.send("GET", query={"uploads": ""})
    s3.send("POST", "a", {"uploads": ""}, bucket="alike-no-such-bucket")
