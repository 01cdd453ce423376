"""Buckets with configurations: each is set, read, misstated and taken away, and an object read in between."""

import json

from suites.alike.cases import case
from suites.alike.recording_client import RecordingClient, md5

_KEPT = "<ID>one</ID><Prefix>a/</Prefix><Status>Enabled</Status>"


def _tried(s3: RecordingClient, name: str, *documents: str) -> None:
    """Each document in turn; what the bucket then says of it, and whether an object is still what it was."""
    s3.send("PUT", "foo", body=b"bar")
    s3.send("GET", query={name: ""})
    for document in documents:
        body = document.encode()
        s3.send("PUT", query={name: ""}, headers={"Content-MD5": md5(body)}, body=body)
        s3.send("GET", query={name: ""})
        for _ in range(2):
            s3.send("GET", "foo")
    s3.send("DELETE", query={name: ""})
    s3.send("DELETE", query={name: ""})
    s3.send("GET", query={name: ""})
    s3.send("HEAD", "foo")


@case
def lifecycles(s3: RecordingClient) -> None:
    def rule(*actions: str, kept: str = _KEPT) -> str:
        return f"<Rule>{kept}{''.join(actions)}</Rule>"

    def days(count: int) -> str:
        return f"<Expiration><Days>{count}</Days></Expiration>"

    enabled = "<Status>Enabled</Status>"
    rules = (
        rule(days(1)),
        rule(days(1)) * 2,
        rule(days(0)),
        rule(days(1), kept=_KEPT.replace("Enabled", "enabled")),
        rule(days(1), kept=_KEPT.replace("one", "x" * 256)),
        rule(days(31), kept=f"<Prefix>a/</Prefix>{enabled}"),
        rule("<Expiration><Date>2017-09-27</Date></Expiration>"),
        rule("<Expiration><Date>20200101</Date></Expiration>"),
        rule("<Expiration><ExpiredObjectDeleteMarker>true</ExpiredObjectDeleteMarker></Expiration>"),
        rule("<NoncurrentVersionExpiration><NoncurrentDays>2</NoncurrentDays></NoncurrentVersionExpiration>"),
        rule(days(3), kept=f"<ID>f</ID><Filter><Prefix>foo</Prefix></Filter>{enabled}"),
        rule(days(3), kept=f"<ID>e</ID><Filter/>{enabled}"),
        rule(days(3), kept=f"<ID>t</ID><Filter><Tag><Key>a</Key><Value>b</Value></Tag></Filter>{enabled}"),
        rule(
            "<AbortIncompleteMultipartUpload><DaysAfterInitiation>2</DaysAfterInitiation>",
            "</AbortIncompleteMultipartUpload>",
        ),
        rule("<Transition><Days>1</Days><StorageClass>GLACIER</StorageClass></Transition>"),
        rule("<Transition><Date>20220927</Date><StorageClass>GLACIER</StorageClass></Transition>"),
    )
    _tried(s3, "lifecycle", *(f"<LifecycleConfiguration>{each}</LifecycleConfiguration>" for each in rules))


@case
def cross_origin(s3: RecordingClient) -> None:
    rule = "<CORSRule><AllowedMethod>{}</AllowedMethod><AllowedOrigin>{}</AllowedOrigin>{}</CORSRule>"
    rules = (
        rule.format("GET", "*suffix", "") + rule.format("PUT", "*.put", ""),
        rule.format("GET", "*", "<ExposeHeader>x-amz-meta-a</ExposeHeader>"),
        rule.format("GET", "start*end", "<MaxAgeSeconds>60</MaxAgeSeconds>"),
        rule.format("NONSENSE", "*", ""),
        rule.format("GET", "*two*stars*", ""),
    )
    _tried(s3, "cors", *(f"<CORSConfiguration>{each}</CORSConfiguration>" for each in rules))


@case
def policies(s3: RecordingClient) -> None:
    def policy(**said: object) -> str:
        arn = f"arn:aws:s3:::{s3.bucket}"
        statement = {
            "Effect": "Allow",
            "Principal": {"AWS": "*"},
            "Action": "s3:ListBucket",
            "Resource": [arn, f"{arn}/*"],
        }
        return json.dumps({"Version": "2012-10-17", "Statement": [statement | said]})

    conditional = {"StringEquals": {"s3:x-amz-server-side-encryption": "AES256"}}
    _tried(
        s3,
        "policy",
        policy(),
        policy(Effect="Deny", Action="s3:DeleteBucket"),
        policy(Condition=conditional),
        policy(Effect="nonsense"),
        policy(Resource="arn:aws:s3:::another-bucket/*"),
        '{"Version": "2012-10-17"}',
        "not json",
    )
    s3.send("GET", query={"policyStatus": ""})


@case
def tags(s3: RecordingClient) -> None:
    one = "<Tagging><TagSet><Tag><Key>{}</Key><Value>{}</Value></Tag></TagSet></Tagging>"
    twice = one.format("a", "1").replace("</TagSet>", "<Tag><Key>a</Key><Value>2</Value></Tag></TagSet>")
    _tried(s3, "tagging", one.format("Hello", "World"), one.format("a", ""), one.format("aws:a", "b"), twice)


@case
def public_access(s3: RecordingClient) -> None:
    names = ("BlockPublicAcls", "IgnorePublicAcls", "BlockPublicPolicy", "RestrictPublicBuckets")
    blocked = "<PublicAccessBlockConfiguration>{}</PublicAccessBlockConfiguration>"
    documents = [blocked.format("".join(f"<{name}>{value}</{name}>" for name in names)) for value in ("true", "false")]
    _tried(s3, "publicAccessBlock", *documents, blocked.format(""))
    s3.send("PUT", query={"publicAccessBlock": ""}, body=documents[0].encode())
    for acl in ("public-read", "public-read-write", "authenticated-read", "private"):
        s3.send("PUT", query={"acl": ""}, headers={"x-amz-acl": acl})
        s3.send("PUT", acl, headers={"x-amz-acl": acl}, body=b"x")
        s3.send("GET", acl)
    s3.send("GET", query={"policyStatus": ""})


@case
def encryption(s3: RecordingClient) -> None:
    applied = "<SSEAlgorithm>{}</SSEAlgorithm>{}"
    rule = f"<Rule><ApplyServerSideEncryptionByDefault>{applied}</ApplyServerSideEncryptionByDefault></Rule>"
    documents = [
        f"<ServerSideEncryptionConfiguration>{rule.format(*each)}</ServerSideEncryptionConfiguration>"
        for each in (("AES256", ""), ("aws:kms", "<KMSMasterKeyID>a-key</KMSMasterKeyID>"), ("nonsense", ""))
    ]
    _tried(s3, "encryption", *documents)
    s3.send("PUT", query={"encryption": ""}, body=documents[0].encode())
    s3.send("PUT", "by default", body=b"secret")
    for _ in range(2):
        s3.send("GET", "by default")
        s3.send("HEAD", "by default")
    s3.send("HEAD", "by default", headers={"x-amz-server-side-encryption": "AES256"})
    s3.send("PUT", "other", headers={"x-amz-server-side-encryption": "aws:kms"}, body=b"secret")
    s3.send("GET", "other")


@case
def ownership(s3: RecordingClient) -> None:
    rule = "<OwnershipControls><Rule><ObjectOwnership>{}</ObjectOwnership></Rule></OwnershipControls>"
    names = ("BucketOwnerPreferred", "ObjectWriter", "BucketOwnerEnforced", "nonsense")
    _tried(s3, "ownershipControls", *(rule.format(name) for name in names))
    for number, name in enumerate(names):
        bucket = f"{s3.bucket}-{number}"
        s3.send("PUT", bucket=bucket, headers={"x-amz-object-ownership": name})
        s3.send("GET", bucket=bucket, query={"ownershipControls": ""})
        s3.send("PUT", "foo", bucket=bucket, headers={"x-amz-acl": "public-read"}, body=b"x")
        s3.send("DELETE", "foo", bucket=bucket)
        s3.send("DELETE", bucket=bucket)


@case
def the_rest(s3: RecordingClient) -> None:
    target = f"<TargetBucket>{s3.bucket}</TargetBucket><TargetPrefix>log/</TargetPrefix>"
    site = "<WebsiteConfiguration><IndexDocument><Suffix>index.html</Suffix></IndexDocument></WebsiteConfiguration>"
    paid = "<RequestPaymentConfiguration><Payer>{}</Payer></RequestPaymentConfiguration>"
    fast = "<AccelerateConfiguration><Status>Enabled</Status></AccelerateConfiguration>"
    _tried(s3, "logging", f"<BucketLoggingStatus><LoggingEnabled>{target}</LoggingEnabled></BucketLoggingStatus>")
    _tried(s3, "logging", "<BucketLoggingStatus/>", "<BucketLoggingStatus>")
    _tried(s3, "website", site, site.replace("index.html", ""))
    _tried(s3, "requestPayment", *(paid.format(payer) for payer in ("Requester", "BucketOwner", "nonsense")))
    _tried(s3, "accelerate", fast)
    _tried(s3, "notification", "<NotificationConfiguration/>")
    s3.send("POST", query={"logging": ""})
    s3.send("GET", query={"usage": ""}, bucket="")
    s3.send("HEAD", query={"read-stats": "true"})
    for kind in ({}, {"list-type": "2"}):
        s3.send("GET", query={"allow-unordered": "true", "delimiter": "/"} | kind)
        s3.send("GET", query={"allow-unordered": "true", "max-keys": "1"} | kind)


@case
def expected_owner(s3: RecordingClient) -> None:
    for owner in ("123456789012", "000000000000", "nonsense", ""):
        headers = {"x-amz-expected-bucket-owner": owner}
        s3.send("PUT", "foo", headers=headers, body=b"bar")
        for _ in range(2):
            s3.send("GET", "foo", headers=headers)
        s3.send("HEAD", "foo", headers=headers)
        s3.send("GET", headers=headers)
        s3.send("PUT", "to", headers=headers | {"x-amz-copy-source": f"/{s3.bucket}/foo"})
        s3.send(
            "PUT", "to", headers={"x-amz-copy-source": f"/{s3.bucket}/foo", "x-amz-source-expected-bucket-owner": owner}
        )
        s3.send("DELETE", "to", headers=headers)
