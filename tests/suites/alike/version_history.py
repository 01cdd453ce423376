"""What versions leave behind: null versions, suspended buckets, delete markers, versions removed one by one."""

from suites.alike.cases import case
from suites.alike.recording_client import RecordingClient, md5

_STATUS = "<VersioningConfiguration><Status>{}</Status></VersioningConfiguration>"


def _set(s3: RecordingClient, status: str, bucket: str | None = None) -> None:
    s3.send("PUT", bucket=bucket, query={"versioning": ""}, body=_STATUS.format(status).encode())


def _written(s3: RecordingClient, key: str, count: int) -> list[str]:
    """The ids of so many versions."""
    bodies = [f"content {number}".encode() for number in range(count)]
    return [s3.send("PUT", key, body=body).headers.get("x-amz-version-id", "") for body in bodies]


def _looked_at(s3: RecordingClient, key: str) -> None:
    for _ in range(2):
        s3.send("GET", key)
    s3.send("HEAD", key)
    s3.send("GET", key, headers={"Range": "bytes=1-2"})
    s3.send("GET", query={"versions": "", "prefix": key})


@case
def statuses(s3: RecordingClient) -> None:
    for status in ("Suspended", "Enabled", "Enabled", "Suspended", "Off", ""):
        _set(s3, status)
        s3.send("GET", query={"versioning": ""})
    mfa = "<VersioningConfiguration><MfaDelete>Disabled</MfaDelete><Status>Enabled</Status></VersioningConfiguration>"
    s3.send("PUT", query={"versioning": ""}, body=mfa.encode())
    s3.send("GET", query={"versioning": ""})


@case
def the_null_version(s3: RecordingClient) -> None:
    s3.send("PUT", "foo", body=b"plain")
    s3.send("GET", "foo")
    _set(s3, "Enabled")
    _looked_at(s3, "foo")
    s3.send("GET", "foo", {"versionId": "null"})
    version = s3.send("PUT", "foo", body=b"versioned").headers.get("x-amz-version-id", "")
    _looked_at(s3, "foo")
    s3.send("DELETE", "foo", {"versionId": version})
    _looked_at(s3, "foo")
    s3.send("DELETE", "foo", {"versionId": "null"})
    _looked_at(s3, "foo")
    s3.send("GET", "foo", {"versionId": "null"})


@case
def suspended(s3: RecordingClient) -> None:
    s3.send("PUT", "foo", body=b"plain")
    _set(s3, "Enabled")
    made = _written(s3, "foo", 2)
    _set(s3, "Suspended")
    for body in (b"null one", b"null two"):
        s3.send("PUT", "foo", body=body)
        _looked_at(s3, "foo")
    s3.send("DELETE", "foo")
    _looked_at(s3, "foo")
    s3.send("DELETE", "foo")
    s3.send("PUT", "foo", body=b"null three")
    _looked_at(s3, "foo")
    s3.send("PUT", "copy", headers={"x-amz-copy-source": f"/{s3.bucket}/foo"})
    s3.send("PUT", "older", headers={"x-amz-copy-source": f"/{s3.bucket}/foo?versionId={made[0]}"})
    _set(s3, "Enabled")
    made += _written(s3, "foo", 1)
    for version in (*made, "null"):
        s3.send("GET", "foo", {"versionId": version})
        s3.send("DELETE", "foo", {"versionId": version})
        s3.send("GET", "foo", {"versionId": version})
        s3.send("GET", "foo")
    s3.send("GET", "copy")
    s3.send("GET", "older")


@case
def markers(s3: RecordingClient) -> None:
    s3.send("PUT", "plain", body=b"x")
    s3.send("DELETE", "plain")
    s3.send("HEAD", "plain")
    s3.send("GET", "plain")
    _set(s3, "Enabled")
    s3.send("DELETE", "never")
    s3.send("HEAD", "never")
    _written(s3, "foo", 1)
    s3.send("GET", "foo")
    for _ in range(3):
        s3.send("DELETE", "foo")
        s3.send("HEAD", "foo")
        s3.send("GET", "foo")
    s3.send("GET", query={"versions": ""})
    s3.send("GET", query={"list-type": "2"})
    s3.send("PUT", "foo", body=b"back")
    _looked_at(s3, "foo")


@case
def removed_one_by_one(s3: RecordingClient) -> None:
    _set(s3, "Enabled")
    for key in ("foo", "_", ":", " ", "_foo"):
        made = _written(s3, key, 3)
        for version in (made[1], made[2], made[0]):
            s3.send("GET", key, {"versionId": version})
            s3.send("DELETE", key, {"versionId": version})
            s3.send("GET", key)
        s3.send("DELETE", key, {"versionId": made[0]})
    s3.send("GET", query={"versions": ""})


@case
def removed_together(s3: RecordingClient) -> None:
    def delete(*objects: tuple[str, str]) -> None:
        listed = "".join(
            f"<Object><Key>{key}</Key>{f'<VersionId>{version}</VersionId>' if version else ''}</Object>"
            for key, version in objects
        )
        body = f"<Delete>{listed}</Delete>".encode()
        s3.send("POST", query={"delete": ""}, headers={"Content-MD5": md5(body)}, body=body)

    _set(s3, "Enabled")
    made = _written(s3, "foo", 3)
    s3.send("GET", "foo")
    delete(("foo", made[2]))
    s3.send("GET", "foo")
    delete(("foo", ""), ("never", ""))
    s3.send("GET", "foo")
    marker = s3.send("DELETE", "foo").headers.get("x-amz-version-id", "")
    everything = (("foo", made[0]), ("foo", made[1]), ("foo", marker))
    delete(*everything)
    s3.send("GET", "foo")
    s3.send("GET", "foo", {"versionId": made[0]})
    delete(*everything, ("foo", "nonsense"), ("foo", "null"))
    s3.send("GET", query={"versions": ""})


@case
def listed(s3: RecordingClient) -> None:
    _set(s3, "Enabled")
    for key in ("foo", "foo-1", "dir/a", "dir/b"):
        _written(s3, key, 2)
    s3.send("DELETE", "dir/b")
    first = s3.send("GET", query={"versions": "", "max-keys": "2"})
    marks = {"key-marker": first.of("NextKeyMarker"), "version-id-marker": first.of("NextVersionIdMarker")}
    s3.send("GET", query={"versions": ""} | marks)
    for query in (
        {"delimiter": "/"},
        {"prefix": "foo", "max-keys": "3"},
        {"prefix": "dir/", "delimiter": "/"},
        {"version-id-marker": "nonsense"},
        {"key-marker": "foo"},
        {"max-keys": "0"},
        {"max-keys": "blah"},
        {"encoding-type": "url"},
    ):
        s3.send("GET", query={"versions": ""} | query)


@case
def about_one_version(s3: RecordingClient) -> None:
    _set(s3, "Enabled")
    made = _written(s3, "foo", 3)
    tags = b"<Tagging><TagSet><Tag><Key>of</Key><Value>one</Value></Tag></TagSet></Tagging>"
    wished = {"x-amz-object-attributes": "ETag,ObjectSize,StorageClass"}
    etag = s3.send("HEAD", "foo", {"versionId": made[0]}).etag
    for version in made[:2]:
        s3.send("GET", "foo", {"versionId": version})
        s3.send("GET", "foo", {"acl": "", "versionId": version})
        s3.send("PUT", "foo", {"acl": "", "versionId": version}, {"x-amz-acl": "public-read"})
        s3.send("GET", "foo", {"acl": "", "versionId": version})
        s3.send("PUT", "foo", {"tagging": "", "versionId": version}, body=tags)
        s3.send("GET", "foo", {"tagging": "", "versionId": version})
        s3.send("GET", "foo", {"versionId": version})
        s3.send("GET", "foo", {"attributes": "", "versionId": version}, wished)
        s3.send("DELETE", "foo", {"tagging": "", "versionId": version})
        s3.send("GET", "foo", {"versionId": version})
    s3.send("GET", "foo", {"tagging": ""})
    s3.send("GET", "foo", {"acl": ""})
    s3.send("GET", "foo", {"attributes": ""}, wished)
    s3.send("GET", "foo", {"acl": "", "versionId": "nonsense"})
    s3.send("GET", "foo", {"partNumber": "1", "versionId": made[0]})
    s3.send("GET", "foo", {"response-content-type": "a/b", "versionId": made[0]})
    s3.send("GET", "foo", {"versionId": made[0]}, {"If-None-Match": etag})
    s3.send("GET", "foo", {"versionId": made[0]}, {"If-Match": '"badetag"'})


@case
def copied_across(s3: RecordingClient) -> None:
    other = s3.bucket + "-2"
    s3.send("PUT", bucket=other)
    _set(s3, "Enabled")
    for key in ("foo", "foo?bar"):
        made = _written(s3, key, 2)
        named = key.replace("?", "%3F")
        for version in made:
            source = {"x-amz-copy-source": f"/{s3.bucket}/{named}?versionId={version}"}
            s3.send("PUT", "copy&of", headers=source)
            s3.send("GET", "copy&of")
            s3.send("PUT", "copy", bucket=other, headers=source)
            s3.send("GET", "copy", bucket=other)
    s3.send("PUT", "back", headers={"x-amz-copy-source": f"/{other}/copy"})
    s3.send("GET", "back")
    s3.send("DELETE", "foo")
    s3.send("PUT", "gone", headers={"x-amz-copy-source": f"/{s3.bucket}/foo"})
    s3.send("GET", "gone")
