"""How a body comes: in HTTP's chunks and without a length, or only after it was asked for."""

import base64

from suites.alike.cases import case
from suites.alike.recording_client import RecordingClient, crc32, md5


@case
def chunks(s3: RecordingClient) -> None:
    for body in (b"bar", b"", b"0123456789abcdef" * 20_000):
        s3.chunked("PUT", "foo", body=body)
        s3.send("GET", "foo")
    s3.chunked(
        "PUT", "foo", headers={"X-Amz-Content-SHA256": "UNSIGNED-PAYLOAD", "x-amz-meta-a": "b"}, body=b"unsigned"
    )
    s3.send("GET", "foo")
    s3.chunked("PUT", "foo", headers={"Content-MD5": md5(b"right")}, body=b"right")
    s3.send("GET", "foo")
    right = base64.b64encode(crc32(b"summed")).decode()
    s3.chunked("PUT", "summed", headers={"x-amz-checksum-crc32": right}, body=b"summed")
    s3.send("GET", "summed")
    s3.chunked("PUT", "copy", headers={"x-amz-copy-source": f"/{s3.bucket}/foo"})
    s3.send("GET", "copy")


@case
def bad_chunks(s3: RecordingClient) -> None:
    s3.send("PUT", "foo", body=b"before")
    s3.chunked("PUT", "foo", headers={"X-Amz-Content-SHA256": "0" * 64}, body=b"bar")
    s3.chunked("PUT", "foo", headers={"Content-MD5": md5(b"other")}, body=b"bar")
    s3.chunked("PUT", "foo", headers={"x-amz-checksum-crc32": "AAAAAA=="}, body=b"bar")
    s3.chunked("PUT", "foo", headers={"If-None-Match": "*"}, body=b"bar")
    s3.send("GET", "foo")


@case
def chunked_documents(s3: RecordingClient) -> None:
    for key in ("a", "b"):
        s3.send("PUT", key, body=b"x")
    listed = b"<Delete><Object><Key>a</Key></Object></Delete>"
    s3.chunked("POST", query={"delete": ""}, headers={"Content-MD5": md5(listed)}, body=listed)
    s3.send("GET", "a")
    s3.chunked("PUT", query={"versioning": ""}, body=b"<VersioningConfiguration/>")
    upload = s3.send("POST", "big", {"uploads": ""}).of("UploadId")
    part = s3.chunked("PUT", "big", {"partNumber": "1", "uploadId": upload}, body=b"part")
    whole = f"<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>{part.etag}</ETag></Part>"
    s3.chunked("POST", "big", {"uploadId": upload}, body=whole.encode() + b"</CompleteMultipartUpload>")
    s3.send("GET", "big")
    s3.chunked("DELETE", "b")
    s3.send("GET", "b")


@case
def waits_to_be_asked(s3: RecordingClient) -> None:
    s3.expecting("foo", b"bar")
    s3.send("GET", "foo")
    s3.expecting("foo", b"wrong key", secret_key="another")
    s3.expecting("foo", b"no bucket", bucket="alike-no-such-bucket")
    s3.expecting("foo", b"there is one", {"If-None-Match": "*"})
    s3.send("GET", "foo")
    s3.expecting("foo", b"again")
    s3.send("GET", "foo")
