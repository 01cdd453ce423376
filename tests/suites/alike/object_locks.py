"""Object locks: retention and legal holds, set with the object and after it, shortened, lifted, against deletes."""

from suites.alike.cases import case
from suites.alike.recording_client import RecordingClient, md5

_LATER, _SOONER = "2040-01-03T00:00:00Z", "2040-01-01T00:00:00Z"
_BYPASS = {"x-amz-bypass-governance-retention": "true"}


def _locking(s3: RecordingClient) -> str:
    bucket = s3.bucket + "-l"
    s3.send("PUT", bucket=bucket, headers={"x-amz-bucket-object-lock-enabled": "true"})
    return bucket


def _retention(mode: str, until: str) -> bytes:
    return f"<Retention><Mode>{mode}</Mode><RetainUntilDate>{until}</RetainUntilDate></Retention>".encode()


@case
def of_buckets(s3: RecordingClient) -> None:
    def tried(bucket: str, enabled: str, rule: str) -> None:
        document = (
            f"<ObjectLockEnabled>{enabled}</ObjectLockEnabled><Rule><DefaultRetention>{rule}</DefaultRetention></Rule>"
        )
        body = f"<ObjectLockConfiguration>{document}</ObjectLockConfiguration>".encode()
        s3.send("PUT", bucket=bucket, query={"object-lock": ""}, headers={"Content-MD5": md5(body)}, body=body)
        s3.send("GET", bucket=bucket, query={"object-lock": ""})

    locking = _locking(s3)
    for bucket in (locking, s3.bucket):
        for rule in (
            "<Mode>GOVERNANCE</Mode><Days>1</Days>",
            "<Mode>COMPLIANCE</Mode><Years>1</Years>",
            "<Mode>GOVERNANCE</Mode><Days>1</Days><Years>1</Years>",
            "<Mode>GOVERNANCE</Mode><Days>0</Days>",
            "<Mode>GOVERNANCE</Mode><Years>-1</Years>",
            "<Mode>governance</Mode><Years>1</Years>",
        ):
            tried(bucket, "Enabled", rule)
        tried(bucket, "Disabled", "<Mode>GOVERNANCE</Mode><Years>1</Years>")
    suspended = b"<VersioningConfiguration><Status>Suspended</Status></VersioningConfiguration>"
    s3.send("PUT", bucket=locking, query={"versioning": ""}, body=suspended)
    s3.send("GET", bucket=locking, query={"versioning": ""})


@case
def retention(s3: RecordingClient) -> None:
    bucket = _locking(s3)
    version = s3.send("PUT", "foo", bucket=bucket, body=b"bar").headers.get("x-amz-version-id", "")

    def keep(mode: str, until: str, headers: dict[str, str] | None = None, query: dict[str, str] | None = None) -> None:
        s3.send("PUT", "foo", {"retention": ""} | (query or {}), headers, _retention(mode, until), bucket=bucket)
        s3.send("GET", "foo", {"retention": ""}, bucket=bucket)
        for _ in range(2):
            s3.send("HEAD", "foo", bucket=bucket)
        s3.send("GET", "foo", bucket=bucket)

    s3.send("GET", "foo", {"retention": ""}, bucket=bucket)
    keep("GOVERNANCE", _SOONER)
    keep("GOVERNANCE", _LATER)
    keep("GOVERNANCE", _SOONER)
    keep("GOVERNANCE", _SOONER, _BYPASS)
    keep("GOVERNANCE", _LATER, None, {"versionId": version})
    keep("governance", _LATER)
    keep("COMPLIANCE", _LATER)
    s3.send("DELETE", "foo", {"versionId": version}, bucket=bucket)
    marker = s3.send("DELETE", "foo", bucket=bucket).headers.get("x-amz-version-id", "")
    s3.send("GET", "foo", bucket=bucket)
    s3.send("DELETE", "foo", {"versionId": marker}, bucket=bucket)
    s3.send("GET", "foo", bucket=bucket)
    s3.send("DELETE", "foo", {"versionId": version}, _BYPASS, bucket=bucket)
    s3.send("GET", "foo", bucket=bucket)
    s3.send("PUT", "plain", body=b"x")
    s3.send("PUT", "plain", {"retention": ""}, body=_retention("GOVERNANCE", _LATER))
    s3.send("GET", "plain", {"retention": ""})


@case
def together(s3: RecordingClient) -> None:
    bucket = _locking(s3)
    held = {"x-amz-object-lock-mode": "GOVERNANCE", "x-amz-object-lock-retain-until-date": _LATER}
    made = {}
    for key, headers in (("held", held), ("free", {})):
        made[key] = s3.send("PUT", key, bucket=bucket, headers=headers, body=b"x").headers.get("x-amz-version-id", "")
    listed = "".join(
        f"<Object><Key>{key}</Key><VersionId>{version}</VersionId></Object>" for key, version in made.items()
    )
    body = f"<Delete>{listed}</Delete>".encode()
    for headers in ({}, _BYPASS):
        s3.send("POST", bucket=bucket, query={"delete": ""}, headers={"Content-MD5": md5(body)} | headers, body=body)
        s3.send("GET", "held", bucket=bucket)
        s3.send("GET", "free", bucket=bucket)


@case
def holds(s3: RecordingClient) -> None:
    bucket = _locking(s3)
    version = s3.send("PUT", "foo", bucket=bucket, body=b"bar").headers.get("x-amz-version-id", "")
    for status in ("ON", "abc", "OFF", "ON"):
        body = f"<LegalHold><Status>{status}</Status></LegalHold>".encode()
        s3.send("PUT", "foo", {"legal-hold": ""}, bucket=bucket, body=body)
        s3.send("GET", "foo", {"legal-hold": ""}, bucket=bucket)
        s3.send("HEAD", "foo", bucket=bucket)
        s3.send("GET", "foo", bucket=bucket)
    s3.send("DELETE", "foo", {"versionId": version}, bucket=bucket)
    s3.send("PUT", "foo", {"legal-hold": ""}, bucket=bucket, body=b"<LegalHold><Status>OFF</Status></LegalHold>")
    s3.send("DELETE", "foo", {"versionId": version}, bucket=bucket)
    s3.send("PUT", "plain", body=b"x")
    s3.send("PUT", "plain", {"legal-hold": ""}, body=b"<LegalHold><Status>ON</Status></LegalHold>")
    s3.send("GET", "plain", {"legal-hold": ""})


@case
def of_uploads(s3: RecordingClient) -> None:
    bucket = _locking(s3)
    wished = {"x-amz-object-lock-mode": "GOVERNANCE", "x-amz-object-lock-retain-until-date": _LATER}
    for headers in (wished, {"x-amz-object-lock-legal-hold": "ON"}):
        upload = s3.send("POST", "foo", {"uploads": ""}, headers, bucket=bucket).of("UploadId")
        etag = s3.send("PUT", "foo", {"partNumber": "1", "uploadId": upload}, body=b"part", bucket=bucket).etag
        listed = f"<Part><PartNumber>1</PartNumber><ETag>{etag}</ETag></Part>"
        document = f"<CompleteMultipartUpload>{listed}</CompleteMultipartUpload>".encode()
        made = s3.send("POST", "foo", {"uploadId": upload}, body=document, bucket=bucket)
        for _ in range(2):
            s3.send("HEAD", "foo", bucket=bucket)
        version = made.headers.get("x-amz-version-id", "")
        s3.send("DELETE", "foo", {"versionId": version}, bucket=bucket)
        s3.send("DELETE", "foo", {"versionId": version}, _BYPASS, bucket=bucket)
