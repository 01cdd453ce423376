"""Our signatures and botocore's, each a check of the other.

- What botocore signs, in the header or the query, with any key, query and headers, is accepted.
- What botocore signed and somebody changed in one place is refused.
- What we sign for an origin is, to the letter, what botocore would have signed.
"""

import re
from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import quote, urlsplit

import pytest
from botocore.auth import S3SigV4Auth, S3SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from multidict import CIMultiDict

from forebay.core.errors import S3Error
from forebay.protocol.dates import epoch_seconds
from forebay.protocol.signatures.canonical_request import canonical_query, encode_path
from forebay.protocol.signatures.signing_key import SecretKey
from forebay.protocol.signatures.sigv4 import SignedV4, verify_v4
from forebay.protocol.signatures.sigv4_claim import ClaimV4, read_claim
from forebay.protocol.signatures.sigv4_signing import sign_request
from forebay.protocol.target import parse_target
from harness.changed_text import changed_text
from security.scale import SCALE

SECRET = SecretKey("AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY")
HOST = "localhost:9000"

words = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=20)
keys = st.one_of(
    words.filter(bool),
    st.lists(
        st.sampled_from(["/", "//", "..", "%2F", "%", "+", " ", "=", "~", "*", "'", "ü", "💧", "a"]), min_size=1
    ).map("".join),
)
queries = st.lists(
    st.tuples(
        words.filter(
            lambda name: name and name not in {"Signature", "AWSAccessKeyId"} and not name.startswith("X-Amz-")
        ),
        words,
    ),
    max_size=4,
    unique_by=lambda pair: pair[0],
)
values = st.text(st.characters(codec="ascii", min_codepoint=0x20, max_codepoint=0x7E), max_size=20)
header_names = st.sampled_from(
    ["Range", "If-Match", "x-amz-meta-a", "X-Amz-Meta-B", "Content-Type", "User-Agent", "x-amz-acl"]
)
headers = st.dictionaries(header_names, values, max_size=4)
secrets = st.builds(
    SecretKey,
    st.sampled_from(["AK", "test:tester", "a/b"]),
    st.text(min_size=1).filter(str.isprintable),
    st.none() | values.map(lambda token: f"t{token}t"),
)
methods = st.sampled_from(["GET", "HEAD", "PUT", "POST", "DELETE"])
regions = st.sampled_from(["us-east-1", "eu-central-1", "garage"])


class Request(NamedTuple):
    method: str
    raw: str
    headers: CIMultiDict[str]
    now: float


def botocore_signs(  # the request, spelled out
    form: str,
    method: str,
    key: str,
    query: list[tuple[str, str]],
    more: Mapping[str, str],
    secret: SecretKey,
    region: str,
) -> Request:
    url = f"http://{HOST}/bucket/{quote(key, safe='/~')}"
    if query:
        url += "?" + "&".join(f"{quote(name, safe='-_.~')}={quote(value, safe='-_.~')}" for name, value in query)
    request = AWSRequest(method, url, headers={"Host": HOST, **more})
    credentials = Credentials(secret.access_key, secret.secret_key, secret.session_token)
    signer = S3SigV4Auth if form == "header" else S3SigV4QueryAuth
    signer(credentials, "s3", region).add_auth(request)
    parts = urlsplit(request.url)
    raw = parts.path + (f"?{parts.query}" if parts.query else "")
    sent = CIMultiDict({name: str(value) for name, value in request.headers.items()})
    return Request(method, raw, sent, epoch_seconds(request.context["timestamp"]))


def proved(request: Request, secret: SecretKey) -> SignedV4:
    target = parse_target(request.raw, request.headers["host"], [])
    claim = read_claim(target, request.headers)
    if not isinstance(claim, ClaimV4):
        raise S3Error("AccessDenied")
    return verify_v4(claim, request.method, target, request.headers, secret, request.now)


@settings(max_examples=100 * SCALE, deadline=None)
@given(st.sampled_from(["header", "query"]), methods, keys, queries, headers, secrets, regions)
def test_requests_signed_by_botocore_are_accepted(  # what hypothesis draws
    form: str,
    method: str,
    key: str,
    query: list[tuple[str, str]],
    more: dict[str, str],
    secret: SecretKey,
    region: str,
) -> None:
    assume(len(key.encode()) <= 1024)
    request = botocore_signs(form, method, key, query, more, secret, region)
    signed = proved(request, secret)
    assert (signed.access_key, signed.form, signed.scope.region) == (secret.access_key, form, region)
    assert parse_target(request.raw, HOST, []).key == key


def canonical(request: Request) -> object:
    """What a request means, as far as a signature speaks of it: requests of equal meaning are one request."""
    target = parse_target(request.raw, request.headers["host"], [])
    covered = {
        name.lower(): " ".join(value.split(" ")).strip()
        for name, value in request.headers.items()
        if name.lower() != "user-agent"
    }
    authorization = "".join(covered.get("authorization", "").split())
    # Header names have no case: a list of them means the same in any.
    covered["authorization"] = re.sub(r"SignedHeaders=[^,]*", lambda names: names[0].lower(), authorization)
    return request.method, target.bucket, target.key, sorted(target.query), covered


@settings(max_examples=500 * SCALE, deadline=None)
@given(st.sampled_from(["header", "query"]), st.data())
def test_signed_request_with_one_change_is_refused(form: str, data: st.DataObject) -> None:
    more = {"Range": "bytes=0-99", "x-amz-meta-a": "b", "User-Agent": "x"}
    query = [("versionId", "a b"), ("partNumber", "1")]
    request = botocore_signs(form, "GET", "a b/c%2Fd", query, more, SECRET, "us-east-1")
    changed = changed_once(request, data)
    try:
        assume(canonical(changed) != canonical(request))
    except S3Error:
        return  # it is not even a target any more
    with pytest.raises(S3Error):
        proved(changed, SECRET)


def changed_once(request: Request, data: st.DataObject) -> Request:
    where = data.draw(st.sampled_from(["method", "target", "value", "removed", "added", "twice"]))
    sent = request.headers.copy()
    covered = [name for name in sent if name.lower() != "user-agent"]
    name = data.draw(st.sampled_from(covered))
    match where:
        case "method":
            return request._replace(method=data.draw(st.sampled_from(["HEAD", "PUT", "DELETE", "get", ""])))
        case "target":
            return request._replace(raw=changed_text(request.raw, data))
        case "value":
            sent[name] = changed_text(sent[name], data)
        case "removed":
            assume(name.lower() != "host")
            del sent[name]
        case "added":
            sent[data.draw(st.sampled_from(["x-amz-acl", "X-Amz-Copy-Source", "x-amz-meta-z", "Authorization"]))] = "x"
        case _:
            assume(name.lower() != "host")
            sent.add(name, sent[name])
    return request._replace(headers=sent)


@settings(max_examples=100 * SCALE, deadline=None)
@given(methods, keys, queries, headers, secrets, regions)
def test_our_signature_equals_botocores(  # what hypothesis draws
    method: str, key: str, query: list[tuple[str, str]], more: dict[str, str], secret: SecretKey, region: str
) -> None:
    assume(len(key.encode()) <= 1024)
    theirs = botocore_signs("header", method, key, query, more, secret, region)
    payload = theirs.headers["x-amz-content-sha256"]
    path = f"/{encode_path(f'bucket/{key}')}"
    ours = sign_request(method, HOST, path, query, more, payload, secret, region, theirs.now)
    assert ours == {name: theirs.headers[name] for name in ours}
    assert set(ours) == {name.lower() for name in theirs.headers} - {name.lower() for name in more} - {"host"}
    raw = path + (f"?{canonical_query(query)}" if query else "")
    proved(Request(method, raw, CIMultiDict({"Host": HOST, **more, **ours}), theirs.now), secret)
