"""Two users, each with a credential of its own at the origin: what ACLs let the other one do, of what is cached and
what is not. After the groups of tests that give a second user access, and take it away again."""

from suites.alike.cases import case
from suites.alike.recording_client import RecordingClient
from suites.endpoints import USERS

_OTHERS = tuple(USERS)[1:]
_GRANT = (
    '<Grant><Grantee xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xsi:type="CanonicalUser"><ID>{}</ID>'
    "</Grantee><Permission>{}</Permission></Grant>"
)


def _acl(owner: str, *grants: tuple[str, str]) -> bytes:
    listed = "".join(_GRANT.format(*grant) for grant in grants)
    of = f"<Owner><ID>{owner}</ID></Owner>"
    return f"<AccessControlPolicy>{of}<AccessControlList>{listed}</AccessControlList></AccessControlPolicy>".encode()


def _tried(s3: RecordingClient, *, writes: bool = True) -> None:
    """What everybody may do, the owner first, so that what is kept of it lies there for the others."""
    others = [s3.other(user, USERS[user]) for user in _OTHERS]
    for key in ("foo", "bar"):
        for _ in range(2):
            s3.send("GET", key)
    for other in others:
        for key in ("foo", "bar", "none"):
            for method in ("GET", "HEAD"):
                other.send(method, key)
            other.send("GET", key, headers={"Range": "bytes=1-2"})
            other.send("GET", key, {"acl": ""})
        other.send("HEAD")
        other.send("GET")
        other.send("GET", query={"list-type": "2"})
        other.send("GET", query={"acl": ""})
        if writes:
            other.send("PUT", "foo", body=b"overwritten")
            other.send("PUT", "new", body=b"by another")
            other.send("POST", "new", {"uploads": ""})
            other.send("GET", "foo")
            other.send("GET", "new")
            other.send("PUT", query={"acl": ""}, headers={"x-amz-acl": "private"})
    if writes:
        s3.send("GET", "foo")
        s3.send("GET", "new")


_CANNED = ("private", "public-read", "public-read-write", "authenticated-read")


@case
def canned(s3: RecordingClient) -> None:
    for of_bucket in _CANNED[:3]:
        for of_object in _CANNED[:3]:
            s3.send("PUT", query={"acl": ""}, headers={"x-amz-acl": of_bucket})
            s3.send("PUT", "foo", body=b"foocontent")
            s3.send("PUT", "foo", {"acl": ""}, {"x-amz-acl": of_object})
            s3.send("PUT", "bar", body=b"barcontent")
            _tried(s3)


@case
def told(s3: RecordingClient) -> None:
    for acl in (*_CANNED, "bucket-owner-read", "bucket-owner-full-control", "public-ready"):
        s3.send("PUT", bucket=f"{s3.bucket}-{acl}", headers={"x-amz-acl": acl})
        s3.send("GET", query={"acl": ""}, bucket=f"{s3.bucket}-{acl}")
        s3.send("PUT", "foo", headers={"x-amz-acl": acl}, body=b"bar")
        s3.send("GET", "foo", {"acl": ""})
        s3.send("PUT", "foo", {"acl": ""}, {"x-amz-acl": acl})
        s3.send("GET", "foo", {"acl": ""})
        s3.send("GET", "foo")


@case
def granted(s3: RecordingClient) -> None:
    owner, other = s3.access_key, _OTHERS[0]
    for permission in ("READ", "WRITE", "READ_ACP", "WRITE_ACP", "FULL_CONTROL"):
        s3.send("PUT", "foo", body=b"foocontent")
        s3.send("PUT", "bar", body=b"barcontent")
        s3.send("PUT", query={"acl": ""}, body=_acl(owner, (owner, "FULL_CONTROL"), (other, permission)))
        s3.send("PUT", "foo", {"acl": ""}, body=_acl(owner, (owner, "FULL_CONTROL"), (other, permission)))
        s3.send("GET", query={"acl": ""})
        _tried(s3, writes=permission in {"WRITE", "FULL_CONTROL"})
    s3.send("PUT", query={"acl": ""}, body=_acl(owner, (owner, "FULL_CONTROL"), ("_nobody", "READ")))
    s3.send("PUT", query={"acl": ""}, body=_acl(owner))
    s3.send("GET", query={"acl": ""})
    s3.send("GET", "foo")


@case
def granted_by_header(s3: RecordingClient) -> None:
    names = ("read", "write", "read-acp", "write-acp", "full-control")
    headers = {f"x-amz-grant-{name}": f"id={_OTHERS[0]}" for name in names}
    s3.send("PUT", "foo", headers=headers, body=b"foocontent")
    s3.send("GET", "foo", {"acl": ""})
    s3.send(
        "PUT", "bar", headers={"x-amz-grant-read": 'uri="http://acs.amazonaws.com/groups/global/AllUsers"'}, body=b"bar"
    )
    s3.send("GET", "bar", {"acl": ""})
    s3.send("PUT", "bar", headers={"x-amz-grant-read": "emailAddress=nobody@example.invalid"}, body=b"bar")
    s3.send("PUT", bucket=f"{s3.bucket}-granted", headers=headers)
    s3.send("GET", query={"acl": ""}, bucket=f"{s3.bucket}-granted")
    _tried(s3)


@case
def taken_away(s3: RecordingClient) -> None:
    other = s3.other(_OTHERS[1], USERS[_OTHERS[1]])
    s3.send("PUT", "foo", headers={"x-amz-acl": "public-read"}, body=b"foocontent")
    other.send("GET", "foo")
    other.send("GET", "foo")
    s3.send("PUT", "foo", {"acl": ""}, {"x-amz-acl": "private"})
    other.send("GET", "foo")
    other.send("HEAD", "foo")
    s3.send("PUT", "foo", {"acl": ""}, {"x-amz-acl": "public-read"})
    other.send("GET", "foo")
    s3.send("DELETE", "foo")
    other.send("GET", "foo")


@case
def copied(s3: RecordingClient) -> None:
    other = s3.other(_OTHERS[0], USERS[_OTHERS[0]])
    own = f"{s3.bucket}-o"
    other.send("PUT", bucket=own)
    s3.send("PUT", "foo", body=b"foocontent")
    s3.send("GET", "foo")
    source = {"x-amz-copy-source": f"/{s3.bucket}/foo"}
    other.send("PUT", "copy", bucket=own, headers=source)
    s3.send("PUT", "foo", {"acl": ""}, {"x-amz-acl": "public-read"})
    other.send("PUT", "copy", bucket=own, headers=source)
    other.send("GET", "copy", bucket=own)
    s3.send("GET", "copy", bucket=own)
    other.send("PUT", "copy", headers=source)
    other.send("PUT", bucket=s3.bucket)
    other.send("DELETE", bucket=s3.bucket)
    other.send("GET", bucket="")
