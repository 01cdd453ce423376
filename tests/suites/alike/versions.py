"""Versions, tags, locks, encryption: what needs an origin that has them, and has to pass through unharmed."""

from suites.alike.cases import case
from suites.alike.recording_client import RecordingClient

_ENABLED = b"<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>"
_SUSPENDED = _ENABLED.replace(b"Enabled", b"Suspended")


@case
def life(s3: RecordingClient) -> None:
    s3.send("PUT", "foo", body=b"plain")
    s3.send("GET", "foo")
    s3.send("GET", query={"versioning": ""})
    s3.send("PUT", query={"versioning": ""}, body=_ENABLED)
    s3.send("GET", query={"versioning": ""})
    s3.send("GET", "foo")
    s3.send("GET", "foo", {"versionId": "null"})
    made = [s3.send("PUT", "foo", body=body).headers.get("x-amz-version-id", "") for body in (b"one", b"two")]
    for version in made:
        for _ in range(2):
            s3.send("GET", "foo", {"versionId": version})
            s3.send("HEAD", "foo", {"versionId": version})
            s3.send("GET", "foo", {"versionId": version}, {"Range": "bytes=1-1"})
    s3.send("GET", "foo", {"versionId": "nonsense"})
    s3.send("GET", "foo", {"versionId": ""})
    s3.send("PUT", "copy", headers={"x-amz-copy-source": f"/{s3.bucket}/foo?versionId={made[0]}"})
    s3.send("GET", "copy")
    marker = s3.send("DELETE", "foo").headers.get("x-amz-version-id", "")
    s3.send("GET", "foo")
    s3.send("HEAD", "foo")
    s3.send("GET", "foo", {"versionId": made[1]})
    s3.send("GET", "foo", {"versionId": marker})
    s3.send("HEAD", "foo", {"versionId": marker})
    s3.send("GET", query={"versions": ""})
    s3.send("DELETE", "foo", {"versionId": marker})
    s3.send("GET", "foo")
    s3.send("DELETE", "foo", {"versionId": made[1]})
    s3.send("GET", "foo")
    s3.send("GET", "foo", {"versionId": made[1]})
    listed = f"<Object><Key>foo</Key><VersionId>{made[0]}</VersionId></Object><Object><Key>copy</Key></Object>"
    s3.send("POST", query={"delete": ""}, body=f"<Delete>{listed}</Delete>".encode())
    s3.send("GET", "foo")
    s3.send("GET", "copy")
    s3.send("PUT", query={"versioning": ""}, body=_SUSPENDED)
    s3.send("PUT", "foo", body=b"suspended")
    s3.send("GET", "foo")
    s3.send("GET", "foo", {"versionId": "null"})
    s3.send("DELETE", "foo")
    s3.send("GET", "foo")
    s3.send("PUT", query={"versioning": ""}, body=_SUSPENDED.replace(b"Suspended", b"Nonsense"))


@case
def tags(s3: RecordingClient) -> None:
    s3.send("PUT", "foo", headers={"x-amz-tagging": "one=1&two=a%20b"}, body=b"bar")
    s3.send("GET", "foo", {"tagging": ""})
    s3.send("GET", "foo")
    s3.send("HEAD", "foo")
    s3.send("GET", "foo")
    document = b"<Tagging><TagSet><Tag><Key>three</Key><Value>3</Value></Tag></TagSet></Tagging>"
    s3.send("PUT", "foo", {"tagging": ""}, body=document)
    s3.send("GET", "foo", {"tagging": ""})
    s3.send("GET", "foo")
    many = b"".join(b"<Tag><Key>%d</Key><Value>v</Value></Tag>" % number for number in range(11))
    s3.send("PUT", "foo", {"tagging": ""}, body=b"<Tagging><TagSet>" + many + b"</TagSet></Tagging>")
    s3.send("PUT", "copy", headers={"x-amz-copy-source": f"/{s3.bucket}/foo"})
    s3.send("GET", "copy", {"tagging": ""})
    s3.send("DELETE", "foo", {"tagging": ""})
    s3.send("GET", "foo", {"tagging": ""})
    s3.send("GET", "foo")
    s3.send("PUT", query={"tagging": ""}, body=document)
    s3.send("GET", query={"tagging": ""})


@case
def customer_keys(s3: RecordingClient) -> None:
    key = {
        "x-amz-server-side-encryption-customer-algorithm": "AES256",
        "x-amz-server-side-encryption-customer-key": "pO3upElrwuEXSoFwCfnZPdSsmt/xWeFa0N9KgDijwVs=",
        "x-amz-server-side-encryption-customer-key-md5": "DWygnHRtgiJ77HCm+1rvHw==",
    }
    s3.send("PUT", "foo", headers=key, body=b"secret")
    for headers in (key, {}, key | {"x-amz-server-side-encryption-customer-key-md5": "AAAAAAAAAAAAAAAAAAAAAA=="}, key):
        s3.send("GET", "foo", headers=headers)
        s3.send("HEAD", "foo", headers=headers)
    for wrong in (key | {"x-amz-server-side-encryption-customer-algorithm": "ROT13"}, dict(list(key.items())[:1])):
        s3.send("PUT", "foo", headers=wrong, body=b"secret")
    for kind in ("AES256", "aws:kms", "nonsense", ""):
        s3.send("PUT", "managed", headers={"x-amz-server-side-encryption": kind}, body=b"secret")
        s3.send("GET", "managed")


@case
def locks(s3: RecordingClient) -> None:
    bucket = s3.bucket + "-l"
    s3.send("PUT", bucket=bucket, headers={"x-amz-bucket-object-lock-enabled": "true"})
    s3.send("GET", bucket=bucket, query={"object-lock": ""})
    until = {"x-amz-object-lock-mode": "GOVERNANCE", "x-amz-object-lock-retain-until-date": "2040-01-01T00:00:00Z"}
    version = s3.send("PUT", "foo", bucket=bucket, headers=until, body=b"bar").headers.get("x-amz-version-id", "")
    for _ in range(2):
        s3.send("GET", "foo", bucket=bucket)
        s3.send("HEAD", "foo", bucket=bucket)
    s3.send("GET", "foo", {"retention": ""}, bucket=bucket)
    s3.send("PUT", "foo", {"legal-hold": ""}, bucket=bucket, body=b"<LegalHold><Status>ON</Status></LegalHold>")
    s3.send("GET", "foo", {"legal-hold": ""}, bucket=bucket)
    s3.send("GET", "foo", bucket=bucket)
    s3.send("DELETE", "foo", {"versionId": version}, bucket=bucket)
    s3.send(
        "DELETE", "foo", {"versionId": version}, bucket=bucket, headers={"x-amz-bypass-governance-retention": "true"}
    )
    s3.send("GET", "foo", bucket=bucket)


@case
def storage(s3: RecordingClient) -> None:
    for kind in ("STANDARD", "REDUCED_REDUNDANCY", "GLACIER", "nonsense"):
        s3.send("PUT", "foo", headers={"x-amz-storage-class": kind}, body=b"bar")
        s3.send("GET", "foo")
        s3.send("HEAD", "foo")
    s3.send("POST", "foo", {"restore": ""}, body=b"<RestoreRequest><Days>1</Days></RestoreRequest>")
    s3.send("PUT", "foo", headers={"x-amz-website-redirect-location": "/other"}, body=b"bar")
    s3.send("GET", "foo")
    s3.send("HEAD", "foo")
    s3.send("GET", "foo", {"attributes": ""}, {"x-amz-object-attributes": "ETag,ObjectSize,StorageClass"})
