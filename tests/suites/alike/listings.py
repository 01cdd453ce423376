"""Listings of both kinds with all their parameters, of versions, of uploads, of buckets; buckets themselves."""

from suites.alike.cases import case
from suites.alike.recording_client import RecordingClient

_KEYS = (
    "asdf",
    "bar",
    "baz",
    "boo/bar",
    "boo/baz/xyzzy",
    "cquux/bla",
    "cquux/thud",
    "foo",
    "foo+1/bar",
    "quux ab/thud",
    "_under/x",
    "é",
)


def _filled(s3: RecordingClient) -> None:
    for key in _KEYS:
        s3.send("PUT", key, body=key.encode(), quiet=True)


@case
def first(s3: RecordingClient) -> None:
    s3.send("GET")
    _filled(s3)
    odd: tuple[dict[str, str], ...] = tuple({"delimiter": value} for value in ("/", "a", "%", " ", "", "\n", "bo", "."))
    odd += tuple({"prefix": value} for value in ("boo/", "b", "", "none", "\n", "é", "foo+"))
    odd += tuple({"max-keys": value} for value in ("0", "1", "5", "1000", "2000", "-1", "blah", "", "99999999999"))
    odd += tuple({"marker": value} for value in ("baz", "", "zzz", "blah", "\n", "boo/", "é"))
    odd += tuple({"encoding-type": value} for value in ("url", "", "nonsense"))
    odd += ({"prefix": "boo/", "delimiter": "/"}, {"prefix": "", "delimiter": "/", "max-keys": "1"})
    odd += ({"delimiter": "/", "marker": "boo/", "max-keys": "2"}, {"allow-unordered": "true"}, {"unknown": "x"})
    odd += ({"delimiter": "/", "encoding-type": "url"}, {"prefix": "foo+", "encoding-type": "url", "marker": "foo+"})
    odd += tuple({"prefix": prefix, "delimiter": "a"} for prefix in ("ba", "b", "y", "/", "boo/ba", "_under/"))
    odd += ({"prefix": "_under/"}, {"prefix": "_", "delimiter": "/"}, {"delimiter": "ab"}, {"marker": "_under/x"})
    for query in odd:
        s3.send("GET", query=query)
    for more in ({}, {"delimiter": "/"}, {"delimiter": "/", "prefix": "boo/"}):
        marker = ""
        for _ in range(20):
            turned = s3.send("GET", query={"max-keys": "1", "marker": marker} | more)
            marker = turned.of("NextMarker") or turned.of("Key")
            if turned.of("IsTruncated") != "true":
                break


@case
def odd_keys(s3: RecordingClient) -> None:
    for key in (" ", '"', "$", "%", "&", "'", "<", ">", "_", "_ ", "_ _", "__", "b%ar", "b%az", "b.ar", "b ar", "\x01"):
        s3.send("PUT", key, body=key.encode())
        s3.send("GET", key)
        s3.send("PUT", key, {"acl": ""}, {"x-amz-acl": "private"})
    for more in ({}, {"encoding-type": "url"}):
        for query in ({}, {"delimiter": "%"}, {"delimiter": " "}, {"delimiter": "."}, {"prefix": "_"}, {"marker": "_"}):
            s3.send("GET", query=query | more)
            s3.send("GET", query={"list-type": "2"} | query | more)


@case
def second(s3: RecordingClient) -> None:
    s3.send("GET", query={"list-type": "2"})
    _filled(s3)
    odd: tuple[dict[str, str], ...] = tuple({"delimiter": value} for value in ("/", "a", "%", "", "\n"))
    odd += tuple({"prefix": value} for value in ("boo/", "b", "", "none", "é"))
    odd += tuple({"max-keys": value} for value in ("0", "1", "5", "1000", "2000", "-1", "blah", ""))
    odd += tuple({"start-after": value} for value in ("baz", "", "zzz", "blah", "\n"))
    odd += tuple({"fetch-owner": value} for value in ("true", "false", "x", ""))
    odd += ({"continuation-token": ""}, {"continuation-token": "nonsense"}, {"encoding-type": "url", "delimiter": "/"})
    odd += ({"prefix": "boo/", "delimiter": "/", "max-keys": "1"},)
    for query in odd:
        s3.send("GET", query={"list-type": "2"} | query)
    for more in ({}, {"delimiter": "/"}, {"delimiter": "/", "prefix": "boo/"}, {"start-after": "baz"}):
        token = ""
        for _ in range(20):
            turned = s3.send("GET", query={"list-type": "2", "max-keys": "1", "continuation-token": token} | more)
            token = turned.of("NextContinuationToken")
            if not token:
                break
    token = s3.send("GET", query={"list-type": "2", "max-keys": "3"}).of("NextContinuationToken")
    s3.send("GET", query={"list-type": "2", "max-keys": "3", "continuation-token": token})
    s3.send("GET", query={"list-type": "2", "start-after": "bar", "continuation-token": token})
    s3.send("GET", query={"list-type": "1"})
    s3.send("GET", query={"list-type": "3"})
    s3.send("GET", bucket="alike-no-such-bucket", query={"list-type": "2"})


@case
def uploads_and_versions(s3: RecordingClient) -> None:
    _filled(s3)
    for key in ("a/one", "a/two", "b"):
        s3.send("POST", key, {"uploads": ""}, quiet=True)
    for query in (
        {},
        {"prefix": "a/"},
        {"delimiter": "/"},
        {"max-uploads": "1"},
        {"max-uploads": "x"},
        {"key-marker": "a/two"},
    ):
        s3.send("GET", query={"uploads": ""} | query)
        s3.send(
            "GET", query={"versions": ""} | {name.replace("uploads", "keys"): value for name, value in query.items()}
        )
    s3.send("GET", query={"uploads": "", "encoding-type": "url"})
    s3.send("GET", query={"versions": "", "encoding-type": "url"})


@case
def buckets(s3: RecordingClient) -> None:
    s3.send("HEAD")
    s3.send("PUT")
    s3.send("HEAD", bucket="alike-no-such-bucket")
    s3.send("DELETE", bucket="alike-no-such-bucket")
    s3.send("GET", query={"location": ""})
    s3.send("PUT", "foo", body=b"x")
    s3.send("GET", "foo")
    s3.send("DELETE")
    s3.send("DELETE", "foo")
    s3.send("DELETE")
    s3.send("GET", "foo")
    s3.send("HEAD")
    s3.send("PUT")
    s3.send("GET", "foo")
    s3.send("PUT", body=b"<CreateBucketConfiguration/>", bucket="alike-configured-1")
    s3.send("PUT", body=b"nonsense", bucket="alike-configured-2")
    named = b'<CreateBucketConfiguration xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><LocationConstraint>%b</LocationConstraint></CreateBucketConfiguration>'
    s3.send("PUT", body=named % b"us-east-1", bucket="alike-configured-3")
    s3.send("PUT", body=named % b"mars", bucket="alike-configured-4")
    for name in (
        "ab",
        "x" * 64,
        "UPPER-case",
        "under_score",
        "dot.ted",
        "dots..two",
        "-lead",
        "trail-",
        "192.168.5.123",
        "a-.b",
        "a.-b",
        "_lead",
        "a",
        "0digits-first",
        "aaa.111",
        "tenant:bucket",
        ":bucket",
        "x" * 63,
    ):
        s3.send("PUT", bucket=name)
        s3.send("HEAD", bucket=name)
        s3.send("DELETE", bucket=name)


@case
def all_buckets(s3: RecordingClient) -> None:
    for query in (
        {},
        {"max-buckets": "1"},
        {"prefix": s3.bucket},
        {"continuation-token": "x"},
        {"bucket-region": "us-east-1"},
        {"x": "y"},
    ):
        s3.send("GET", bucket="", query=query)


@case
def configurations(s3: RecordingClient) -> None:
    s3.send("PUT", "foo", body=b"x")
    names: tuple[str, ...] = (
        "acl",
        "policy",
        "cors",
        "lifecycle",
        "tagging",
        "versioning",
        "website",
        "logging",
        "notification",
        "encryption",
    )
    names += (
        "replication",
        "requestPayment",
        "accelerate",
        "object-lock",
        "publicAccessBlock",
        "ownershipControls",
        "policyStatus",
    )
    for name in names:
        s3.send("GET", query={name: ""})
        s3.send("PUT", query={name: ""}, body=b"nonsense")
        s3.send("PUT", query={name: ""})
        s3.send("DELETE", query={name: ""})
    for name in ("acl", "tagging", "torrent", "retention", "legal-hold", "attributes"):
        s3.send("GET", "foo", {name: ""})
        s3.send("PUT", "foo", {name: ""}, body=b"nonsense")
        s3.send("GET", "none", {name: ""})
    for acl in ("private", "public-read", "public-ready", ""):
        s3.send("PUT", query={"acl": ""}, headers={"x-amz-acl": acl})
        s3.send("PUT", "foo", {"acl": ""}, headers={"x-amz-acl": acl})
        s3.send("PUT", "foo", headers={"x-amz-acl": acl}, body=b"x")
    s3.send("GET", "foo")
