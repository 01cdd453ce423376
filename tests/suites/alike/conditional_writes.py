"""Writes, completions and deletes under conditions, with versions and without."""

from suites.alike.cases import case
from suites.alike.recording_client import Answer, RecordingClient, md5

_OLD = "Thu, 01 Jan 2015 00:00:00 GMT"


def _versioned(s3: RecordingClient) -> None:
    s3.send(
        "PUT",
        query={"versioning": ""},
        body=b"<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>",
    )


def _deleted(s3: RecordingClient, *objects: str) -> Answer:
    document = f"<Delete>{''.join(f'<Object>{each}</Object>' for each in objects)}</Delete>".encode()
    return s3.send("POST", query={"delete": ""}, headers={"Content-MD5": md5(document)}, body=document)


def _puts(s3: RecordingClient) -> None:
    s3.send("PUT", "foo", headers={"If-Match": "*"}, body=b"nothing is there")
    s3.send("PUT", "foo", headers={"If-Match": "badetag"}, body=b"nothing is there")
    etag = s3.send("PUT", "foo", headers={"If-None-Match": "*"}, body=b"one").etag
    s3.send("GET", "foo")
    for value in ("*", etag, etag.strip('"'), "badetag"):
        s3.send("PUT", "foo", headers={"If-None-Match": value}, body=b"two")
        s3.send("GET", "foo")
    for value in ("badetag", etag, "*"):
        s3.send("PUT", "foo", headers={"If-Match": value}, body=b"three")
        s3.send("GET", "foo")
    s3.send("DELETE", "foo")
    s3.send("PUT", "foo", headers={"If-Match": "*"}, body=b"four")
    s3.send("PUT", "foo", headers={"If-Match": etag}, body=b"four")
    s3.send("PUT", "foo", headers={"If-None-Match": etag}, body=b"five")
    s3.send("GET", "foo")
    s3.send("PUT", "foo", headers={"If-None-Match": "*", "If-Match": "*"}, body=b"both")
    s3.send("GET", "foo")


@case
def puts(s3: RecordingClient) -> None:
    _puts(s3)


@case
def puts_with_versions(s3: RecordingClient) -> None:
    _versioned(s3)
    _puts(s3)


def _completions(s3: RecordingClient) -> None:
    def complete(headers: dict[str, str]) -> Answer:
        upload = s3.send("POST", "foo", {"uploads": ""}, quiet=True).of("UploadId")
        etag = s3.send("PUT", "foo", {"partNumber": "1", "uploadId": upload}, body=b"part", quiet=True).etag
        listed = f"<Part><PartNumber>1</PartNumber><ETag>{etag}</ETag></Part>"
        document = f"<CompleteMultipartUpload>{listed}</CompleteMultipartUpload>".encode()
        answer = s3.send("POST", "foo", {"uploadId": upload}, headers, document)
        s3.send("GET", "foo")
        return answer

    complete({"If-Match": "*"})
    complete({"If-Match": "badetag"})
    etag = complete({"If-None-Match": "*"}).of("ETag").replace("&quot;", '"')
    complete({"If-None-Match": "*"})
    complete({"If-None-Match": etag})
    complete({"If-None-Match": "badetag"})
    complete({"If-Match": "badetag"})
    complete({"If-Match": etag})
    complete({"If-Match": "*"})


@case
def completions(s3: RecordingClient) -> None:
    _completions(s3)


@case
def completions_with_versions(s3: RecordingClient) -> None:
    _versioned(s3)
    _completions(s3)


def _deletes(s3: RecordingClient) -> None:
    def conditions() -> tuple[tuple[str, str], ...]:
        told = s3.send("HEAD", "foo", quiet=True).headers
        return (
            ("If-Match", told.get("etag", "")),
            ("If-Match", "*"),
            ("x-amz-if-match-size", "3"),
            ("x-amz-if-match-last-modified-time", told.get("last-modified", "")),
        )

    bad = {
        "If-Match": "badetag",
        "x-amz-if-match-size": "9999",
        "x-amz-if-match-last-modified-time": _OLD,
    }
    for name, value in bad.items():
        s3.send("DELETE", "none", headers={name: value})
    for number in range(4):
        version = s3.send("PUT", "foo", body=b"foo").headers.get("x-amz-version-id")
        s3.send("GET", "foo")
        name, value = conditions()[number]
        s3.send("DELETE", "foo", headers={name: bad[name]})
        s3.send("GET", "foo")
        s3.send("DELETE", "foo", headers={name: value})
        s3.send("GET", "foo")
        s3.send("DELETE", "foo", headers={name: bad[name]})
        if version is not None:
            s3.send("DELETE", "foo", {"versionId": version}, {name: bad[name]})
            s3.send("GET", "foo", {"versionId": version})
            s3.send("DELETE", "foo", {"versionId": version}, {name: value})
            s3.send("GET", "foo", {"versionId": version})


@case
def deletes(s3: RecordingClient) -> None:
    _deletes(s3)


@case
def deletes_with_versions(s3: RecordingClient) -> None:
    _versioned(s3)
    _deletes(s3)


def _batches(s3: RecordingClient) -> None:
    for good, bad in (
        ("<ETag>{etag}</ETag>", "<ETag>badetag</ETag>"),
        ("<Size>3</Size>", "<Size>9999</Size>"),
        ("<LastModifiedTime>{time}</LastModifiedTime>", f"<LastModifiedTime>{_OLD}</LastModifiedTime>"),
    ):
        put = s3.send("PUT", "foo", body=b"foo")
        s3.send("GET", "foo")
        told = s3.send("HEAD", "foo", quiet=True).headers
        right = good.format(etag=put.etag, time=told.get("last-modified", ""))
        _deleted(s3, f"<Key>foo</Key>{bad}")
        s3.send("GET", "foo")
        _deleted(s3, f"<Key>foo</Key>{right}", f"<Key>none</Key>{bad}")
        s3.send("GET", "foo")
        _deleted(s3, f"<Key>foo</Key>{bad}")
        version = put.headers.get("x-amz-version-id")
        if version is not None:
            _deleted(s3, f"<Key>foo</Key><VersionId>{version}</VersionId>{bad}")
            s3.send("GET", "foo", {"versionId": version})
            _deleted(s3, f"<Key>foo</Key><VersionId>{version}</VersionId>{right}")
            s3.send("GET", "foo", {"versionId": version})


@case
def batches(s3: RecordingClient) -> None:
    _batches(s3)


@case
def batches_with_versions(s3: RecordingClient) -> None:
    _versioned(s3)
    _batches(s3)
