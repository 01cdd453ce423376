"""Multipart uploads: their parts, resent, copied, missing, too small; completed, aborted, read by part."""

import base64

from suites.alike.cases import case
from suites.alike.recording_client import Answer, RecordingClient, crc32

_MIB5 = b"0123456789abcdef" * 327_680


def _begun(s3: RecordingClient, key: str, headers: dict[str, str] | None = None) -> str:
    return s3.send("POST", key, {"uploads": ""}, headers=headers).of("UploadId")


def _part(s3: RecordingClient, key: str, upload: str, number: int | str, body: bytes) -> Answer:
    return s3.send("PUT", key, {"partNumber": str(number), "uploadId": upload}, body=body)


def _complete(
    s3: RecordingClient, key: str, upload: str, *parts: tuple[int, str], headers: dict[str, str] | None = None
) -> Answer:
    listed = "".join(f"<Part><PartNumber>{number}</PartNumber><ETag>{etag}</ETag></Part>" for number, etag in parts)
    document = f"<CompleteMultipartUpload>{listed}</CompleteMultipartUpload>".encode()
    return s3.send("POST", key, {"uploadId": upload}, headers=headers, body=document)


@case
def whole(s3: RecordingClient) -> None:
    s3.send("PUT", "foo", body=b"before")
    s3.send("GET", "foo")
    upload = _begun(s3, "foo", {"Content-Type": "text/x-foo", "x-amz-meta-foo": "bar"})
    parts = [(1, _part(s3, "foo", upload, 1, _MIB5).etag), (2, _part(s3, "foo", upload, 2, b"end").etag)]
    s3.send("GET", "foo")
    s3.send("GET", "foo", {"uploadId": upload})
    s3.send("GET", "foo", {"uploadId": upload, "max-parts": "1"})
    s3.send("GET", "foo", {"uploadId": upload, "part-number-marker": "1"})
    s3.send("GET", "foo", {"uploadId": upload, "max-parts": "x"})
    _complete(s3, "foo", upload, *parts)
    for _ in range(2):
        s3.send("HEAD", "foo")
        s3.send("GET", "foo")
        s3.send("GET", "foo", headers={"Range": f"bytes={len(_MIB5) - 2}-{len(_MIB5) + 1}"})
    for number in ("1", "2", "3", "0", "-1", "x", "", "10001"):
        s3.send("GET", "foo", {"partNumber": number})
        s3.send("HEAD", "foo", {"partNumber": number})
    s3.send("GET", "foo", {"partNumber": "1"}, {"Range": "bytes=0-1"})
    s3.send("GET", "foo", {"uploadId": upload})
    _complete(s3, "foo", upload, *parts)
    s3.send("DELETE", "foo", {"uploadId": upload})
    s3.send("GET", "foo")


@case
def wrong(s3: RecordingClient) -> None:
    upload = _begun(s3, "foo")
    small = [(number, _part(s3, "foo", upload, number, b"small").etag) for number in (1, 2)]
    for number in (0, -1, 10001, "x", "", "01"):
        _part(s3, "foo", upload, number, b"part")
    _part(s3, "foo", "nonsense", 1, b"part")
    _complete(s3, "foo", upload, *small)
    _complete(s3, "foo", upload)
    _complete(s3, "foo", upload, small[1], small[0])
    _complete(s3, "foo", upload, (1, '"wrong"'))
    _complete(s3, "foo", upload, (7, small[0][1]))
    _complete(s3, "foo", "nonsense", *small)
    for body in (b"", b"nonsense", b"<CompleteMultipartUpload/>", b"<Other/>"):
        s3.send("POST", "foo", {"uploadId": upload}, body=body)
    s3.send("GET", "foo")
    s3.send("DELETE", "foo", {"uploadId": upload})
    s3.send("DELETE", "foo", {"uploadId": upload})
    s3.send("DELETE", "foo", {"uploadId": "nonsense"})
    _part(s3, "foo", upload, 1, b"after")
    s3.send("GET", "foo")


@case
def resent(s3: RecordingClient) -> None:
    upload = _begun(s3, "foo")
    _part(s3, "foo", upload, 1, b"first")
    first = _part(s3, "foo", upload, 1, _MIB5).etag
    last = _part(s3, "foo", upload, 5, b"last").etag
    skipped = _part(s3, "foo", upload, 3, b"left out").etag
    _complete(s3, "foo", upload, (1, first.strip('"')), (5, last))
    s3.send("GET", "foo")
    again = _begun(s3, "foo")
    part = _part(s3, "foo", again, 1, skipped.encode()).etag
    _complete(s3, "foo", again, (1, part), headers={"If-None-Match": "*"})
    s3.send("GET", "foo")
    s3.send("HEAD", "foo")


@case
def copied(s3: RecordingClient) -> None:
    s3.send("PUT", "from", body=_MIB5 + b"rest")
    source = {"x-amz-copy-source": f"/{s3.bucket}/from"}
    upload = _begun(s3, "to")
    asked = (
        "bytes=0-5242879",
        "bytes=5242880-5242883",
        "bytes=0-99999999",
        "bytes=5-4",
        "0-2",
        "bytes=-3",
        "bytes=0-",
        "x",
        "",
    )
    etags: list[str] = []
    for number, span in enumerate(asked, 1):
        answer = s3.send(
            "PUT", "to", {"partNumber": str(number), "uploadId": upload}, source | {"x-amz-copy-source-range": span}
        )
        etags.append(answer.of("ETag").replace("&quot;", '"'))
    s3.send("PUT", "to", {"partNumber": "1", "uploadId": upload}, {"x-amz-copy-source": f"/{s3.bucket}/none"})
    _complete(s3, "to", upload, (1, etags[0]), (2, etags[1]))
    s3.send("GET", "to")
    upload = _begun(s3, "to")
    etag = s3.send("PUT", "to", {"partNumber": "1", "uploadId": upload}, source).of("ETag").replace("&quot;", '"')
    _complete(s3, "to", upload, (1, etag))
    s3.send("GET", "to")
    s3.send("GET", "to", {"partNumber": "1"}, {"Range": "bytes=0-1"})


@case
def checksummed(s3: RecordingClient) -> None:
    right = base64.b64encode(crc32(b"bar")).decode()
    for kind in ("CRC32", "SHA256", "CRC64NVME", "nonsense"):
        s3.send("POST", "foo", {"uploads": ""}, headers={"x-amz-checksum-algorithm": kind})
    upload = _begun(s3, "foo", {"x-amz-checksum-algorithm": "CRC32"})
    part = s3.send("PUT", "foo", {"partNumber": "1", "uploadId": upload}, {"x-amz-checksum-crc32": right}, b"bar")
    s3.send("PUT", "foo", {"partNumber": "2", "uploadId": upload}, {"x-amz-checksum-crc32": "AAAAAA=="}, b"bar")
    listed = f"<Part><PartNumber>1</PartNumber><ETag>{part.etag}</ETag><ChecksumCRC32>{right}</ChecksumCRC32></Part>"
    document = f"<CompleteMultipartUpload>{listed}</CompleteMultipartUpload>".encode()
    s3.send("POST", "foo", {"uploadId": upload}, body=document)
    s3.send("HEAD", "foo", headers={"x-amz-checksum-mode": "ENABLED"})
    s3.send("GET", "foo", headers={"x-amz-checksum-mode": "ENABLED"})
    s3.send("GET", "foo", {"attributes": ""}, {"x-amz-object-attributes": "ETag,Checksum,ObjectParts,ObjectSize"})
