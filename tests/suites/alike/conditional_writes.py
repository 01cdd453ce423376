"""Writes, completions and deletes under conditions, with versions and without."""

from suites.alike.cases import case
from suites.alike.recording_client import Answer, Asking, md5

_OLD = "Thu, 01 Jan 2015 00:00:00 GMT"


def _versioned(s3: Asking) -> None:
    s3.ask(
        "PUT",
        query={"versioning": ""},
        body=b"<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>",
    )


def _deleted(s3: Asking, *objects: str) -> Answer:
    document = f"<Delete>{''.join(f'<Object>{each}</Object>' for each in objects)}</Delete>".encode()
    return s3.ask("POST", query={"delete": ""}, headers={"Content-MD5": md5(document)}, body=document)


def _puts(s3: Asking) -> None:
    s3.ask("PUT", "foo", headers={"If-Match": "*"}, body=b"nothing is there")
    s3.ask("PUT", "foo", headers={"If-Match": "badetag"}, body=b"nothing is there")
    etag = s3.ask("PUT", "foo", headers={"If-None-Match": "*"}, body=b"one").etag
    s3.ask("GET", "foo")
    for value in ("*", etag, etag.strip('"'), "badetag"):
        s3.ask("PUT", "foo", headers={"If-None-Match": value}, body=b"two")
        s3.ask("GET", "foo")
    for value in ("badetag", etag, "*"):
        s3.ask("PUT", "foo", headers={"If-Match": value}, body=b"three")
        s3.ask("GET", "foo")
    s3.ask("DELETE", "foo")
    s3.ask("PUT", "foo", headers={"If-Match": "*"}, body=b"four")
    s3.ask("PUT", "foo", headers={"If-Match": etag}, body=b"four")
    s3.ask("PUT", "foo", headers={"If-None-Match": etag}, body=b"five")
    s3.ask("GET", "foo")
    s3.ask("PUT", "foo", headers={"If-None-Match": "*", "If-Match": "*"}, body=b"both")
    s3.ask("GET", "foo")


@case
def puts(s3: Asking) -> None:
    _puts(s3)


@case
def puts_with_versions(s3: Asking) -> None:
    _versioned(s3)
    _puts(s3)


def _completions(s3: Asking) -> None:
    def complete(headers: dict[str, str]) -> Answer:
        upload = s3.ask("POST", "foo", {"uploads": ""}, quiet=True).of("UploadId")
        etag = s3.ask("PUT", "foo", {"partNumber": "1", "uploadId": upload}, body=b"part", quiet=True).etag
        listed = f"<Part><PartNumber>1</PartNumber><ETag>{etag}</ETag></Part>"
        document = f"<CompleteMultipartUpload>{listed}</CompleteMultipartUpload>".encode()
        answer = s3.ask("POST", "foo", {"uploadId": upload}, headers, document)
        s3.ask("GET", "foo")
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
def completions(s3: Asking) -> None:
    _completions(s3)


@case
def completions_with_versions(s3: Asking) -> None:
    _versioned(s3)
    _completions(s3)


def _deletes(s3: Asking) -> None:
    def conditions() -> tuple[tuple[str, str], ...]:
        told = s3.ask("HEAD", "foo", quiet=True).headers
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
        s3.ask("DELETE", "none", headers={name: value})
    for number in range(4):
        version = s3.ask("PUT", "foo", body=b"foo").headers.get("x-amz-version-id")
        s3.ask("GET", "foo")
        name, value = conditions()[number]
        s3.ask("DELETE", "foo", headers={name: bad[name]})
        s3.ask("GET", "foo")
        s3.ask("DELETE", "foo", headers={name: value})
        s3.ask("GET", "foo")
        s3.ask("DELETE", "foo", headers={name: bad[name]})
        if version is not None:
            s3.ask("DELETE", "foo", {"versionId": version}, {name: bad[name]})
            s3.ask("GET", "foo", {"versionId": version})
            s3.ask("DELETE", "foo", {"versionId": version}, {name: value})
            s3.ask("GET", "foo", {"versionId": version})


@case
def deletes(s3: Asking) -> None:
    _deletes(s3)


@case
def deletes_with_versions(s3: Asking) -> None:
    _versioned(s3)
    _deletes(s3)


def _batches(s3: Asking) -> None:
    for good, bad in (
        ("<ETag>{etag}</ETag>", "<ETag>badetag</ETag>"),
        ("<Size>3</Size>", "<Size>9999</Size>"),
        ("<LastModifiedTime>{time}</LastModifiedTime>", f"<LastModifiedTime>{_OLD}</LastModifiedTime>"),
    ):
        put = s3.ask("PUT", "foo", body=b"foo")
        s3.ask("GET", "foo")
        told = s3.ask("HEAD", "foo", quiet=True).headers
        right = good.format(etag=put.etag, time=told.get("last-modified", ""))
        _deleted(s3, f"<Key>foo</Key>{bad}")
        s3.ask("GET", "foo")
        _deleted(s3, f"<Key>foo</Key>{right}", f"<Key>none</Key>{bad}")
        s3.ask("GET", "foo")
        _deleted(s3, f"<Key>foo</Key>{bad}")
        version = put.headers.get("x-amz-version-id")
        if version is not None:
            _deleted(s3, f"<Key>foo</Key><VersionId>{version}</VersionId>{bad}")
            s3.ask("GET", "foo", {"versionId": version})
            _deleted(s3, f"<Key>foo</Key><VersionId>{version}</VersionId>{right}")
            s3.ask("GET", "foo", {"versionId": version})


@case
def batches(s3: Asking) -> None:
    _batches(s3)


@case
def batches_with_versions(s3: Asking) -> None:
    _versioned(s3)
    _batches(s3)
