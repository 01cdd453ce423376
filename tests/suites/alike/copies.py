"""Copies that are out of the ordinary: empty, large, onto itself, of odd names, with tags and keys of their own, in
parts."""

from suites.alike.cases import case
from suites.alike.recording_client import RecordingClient

_MIB5 = b"0123456789abcdef" * 327_680
_KEY = {
    "x-amz-server-side-encryption-customer-algorithm": "AES256",
    "x-amz-server-side-encryption-customer-key": "pO3upElrwuEXSoFwCfnZPdSsmt/xWeFa0N9KgDijwVs=",
    "x-amz-server-side-encryption-customer-key-md5": "DWygnHRtgiJ77HCm+1rvHw==",
}
_OF_SOURCE = {name.replace("x-amz-", "x-amz-copy-source-"): value for name, value in _KEY.items()}


@case
def sizes(s3: RecordingClient) -> None:
    for number, body in enumerate((b"", b"x", _MIB5 * 2 + b"rest")):
        s3.send("PUT", f"from{number}", body=body)
        s3.send("PUT", f"to{number}", headers={"x-amz-copy-source": f"/{s3.bucket}/from{number}"})
        for _ in range(2):
            s3.send("GET", f"to{number}")
        s3.send("HEAD", f"to{number}")
        s3.send("GET", f"to{number}", headers={"Range": "bytes=-3"})


@case
def directives(s3: RecordingClient) -> None:
    source = {"x-amz-copy-source": f"/{s3.bucket}/from"}
    kept = {"x-amz-tagging": "a=1", "x-amz-meta-a": "1", "Content-Type": "audio/ogg", "Cache-Control": "no-cache"}
    s3.send("PUT", "from", headers=kept, body=b"from")
    for more in (
        {"x-amz-tagging-directive": "COPY"},
        {"x-amz-tagging-directive": "REPLACE", "x-amz-tagging": "b=2&c=3"},
        {"x-amz-tagging-directive": "REPLACE"},
        {"x-amz-tagging-directive": "nonsense"},
        {"x-amz-acl": "public-read"},
        {"x-amz-acl": "public-ready"},
        {"x-amz-storage-class": "REDUCED_REDUNDANCY"},
        {"x-amz-server-side-encryption": "AES256"},
        {"x-amz-website-redirect-location": "/other"},
        {"x-amz-metadata-directive": "REPLACE", "Content-Type": "audio/mpeg", "x-amz-meta-b": "2"},
        {"x-amz-metadata-directive": "REPLACE"},
        {"x-amz-checksum-algorithm": "SHA256"},
        {"If-None-Match": "*"},
        {"If-Match": '"badetag"'},
    ):
        s3.send("PUT", "to", headers=source | more)
        s3.send("GET", "to")
        s3.send("GET", "to", {"tagging": ""})
        s3.send("PUT", "from", headers=source | more)
        s3.send("GET", "from")


@case
def names(s3: RecordingClient) -> None:
    for name, written in (
        (" ", "%20"),
        ("_", "_"),
        ("__", "__"),
        ("?versionId", "%3FversionId"),
        ("a%25b", "a%2525b"),
        ("a+b", "a%2Bb"),
        ("a+b", "a+b"),
        ("é", "%C3%A9"),
        ("a/../b", "a/../b"),
        ("a//b", "a//b"),
        ("&c=d", "&c=d"),
    ):
        s3.send("PUT", name, body=name.encode())
        for separator in ("/", "%2F"):
            s3.send("PUT", "to", headers={"x-amz-copy-source": f"{s3.bucket}{separator}{written}"})
            s3.send("GET", "to")
    for wrong in ("a%25b", "%ZZ", "%"):
        s3.send("PUT", "to", headers={"x-amz-copy-source": f"/{s3.bucket}/{wrong}"})
    s3.send("GET", "to")


@case
def customer_keys(s3: RecordingClient) -> None:
    source = {"x-amz-copy-source": f"/{s3.bucket}/secret"}
    s3.send("PUT", "secret", headers=_KEY, body=b"secret")
    for more in ({}, _OF_SOURCE, _OF_SOURCE | _KEY, _KEY):
        s3.send("PUT", "to", headers=source | more)
        s3.send("GET", "to", headers=_KEY)
        s3.send("GET", "to")
        s3.send("HEAD", "to")


@case
def in_parts(s3: RecordingClient) -> None:
    s3.send("PUT", "from", body=_MIB5 + b"rest")
    s3.send("PUT", "small", body=b"01234")
    upload = s3.send("POST", "to", {"uploads": ""}).of("UploadId")
    numbered = {"partNumber": "1", "uploadId": upload}
    for span in ("0-2", "bytes=0", "bytes=hello-world", "bytes=0-bar", "bytes=hello-", "bytes=0-2,3-5", "bytes=0-21"):
        s3.send("PUT", "to", numbered, {"x-amz-copy-source": f"/{s3.bucket}/small", "x-amz-copy-source-range": span})
    etag = s3.send("HEAD", "small").etag
    for name, value in (("if-match", '"badetag"'), ("if-none-match", etag), ("if-match", etag)):
        headers = {"x-amz-copy-source": f"/{s3.bucket}/small", f"x-amz-copy-source-{name}": value}
        s3.send("PUT", "to", numbered, headers)
    s3.send("PUT", "to", numbered, {"x-amz-copy-source": f"/{s3.bucket}/from%25"})
    parts = []
    for number, span in ((1, "bytes=0-5242879"), (2, "bytes=5242880-5242883"), (3, "bytes=0-0")):
        headers = {"x-amz-copy-source": f"/{s3.bucket}/from", "x-amz-copy-source-range": span}
        copied = s3.send("PUT", "to", {"partNumber": str(number), "uploadId": upload}, headers)
        etag = copied.of("ETag").replace("&quot;", '"')
        parts.append(f"<Part><PartNumber>{number}</PartNumber><ETag>{etag}</ETag></Part>")
    s3.send("GET", "to", {"uploadId": upload})
    for listed in (parts, parts[:2], parts[:2]):
        document = f"<CompleteMultipartUpload>{''.join(listed)}</CompleteMultipartUpload>".encode()
        s3.send("POST", "to", {"uploadId": upload}, body=document)
    for _ in range(2):
        s3.send("GET", "to")
        s3.send("HEAD", "to")
    s3.send("GET", "to", {"partNumber": "2"})
