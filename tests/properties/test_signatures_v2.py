"""Signature Version 2, checked by botocore: what it signs is accepted, and what was changed since is not.

A query without the sub-resources that botocore does not know, as those have to be covered here and are not there.
"""

import re
from urllib.parse import quote, urlsplit

import pytest
from botocore.auth import HmacV1Auth, HmacV1QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from multidict import CIMultiDict

from forebay.core.errors import S3Error
from forebay.protocol.dates import epoch_seconds, timestamp_of_date_header
from forebay.protocol.signatures.signing_key import SecretKey
from forebay.protocol.signatures.sigv2 import SignedV2, is_hoisted_header, verify_v2
from forebay.protocol.signatures.sigv2_claim import ClaimV2
from forebay.protocol.signatures.sigv4_claim import read_claim
from forebay.protocol.target import parse_query, parse_target
from harness.changed_text import changed_text
from security.scale import SCALE

HOST = "localhost:9000"
SECRET = SecretKey("AK", "secret")

words = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=12)
keys = st.one_of(
    words.filter(bool),
    st.lists(st.sampled_from(["/", "..", "%2F", "%", "+", " ", "=", "~", "ü", "a"]), min_size=1).map("".join),
)
values = st.text(st.characters(codec="ascii", min_codepoint=0x20, max_codepoint=0x7E), max_size=12)
names = ["acl", "uploads", "partNumber", "uploadId", "versionId", "response-content-type", "response-expires", "delete"]
queries = st.dictionaries(st.sampled_from([*names, "prefix", "marker", "max-keys", "x-id", "list-type"]), words)
headers = st.dictionaries(
    st.sampled_from(["Content-Type", "Content-MD5", "x-amz-meta-a", "X-Amz-Meta-B", "x-amz-acl", "Range"]), values
)
secrets = st.builds(
    SecretKey,
    st.sampled_from(["AK", "test:tester", "a/b"]),
    st.text(min_size=1).filter(str.isprintable),
    st.none() | values.map(lambda token: f"t{token}t"),
)
methods = st.sampled_from(["GET", "HEAD", "PUT", "POST", "DELETE"])


class HeaderSigner(HmacV1Auth):
    """Signs at one moment: hypothesis wants the same from the same."""

    def _get_date(self) -> str:
        return "Tue, 27 Mar 2007 19:36:42 GMT"


class QuerySigner(HmacV1QueryAuth):
    """The same, good for a minute from then."""

    def _get_date(self) -> str:
        return "1175024262"


def signed(
    form: str, method: str, path: str, query: dict[str, str], more: dict[str, str], secret: SecretKey, bucket: str = ""
) -> tuple[str, CIMultiDict[str], float]:
    """Target, headers and time of a request as botocore signs it. `bucket`: it is in the host."""
    url = f"http://{HOST}{quote(path, safe='/~')}"
    if query:
        url += "?" + "&".join(f"{name}={quote(value, safe='-_.~')}" for name, value in query.items())
    request = AWSRequest(
        method, url, headers={"Host": HOST, **more}, auth_path=bucket and f"/{bucket}{urlsplit(url).path}"
    )
    request.auth_path = request.auth_path or None
    credentials = Credentials(secret.access_key, secret.secret_key, secret.session_token)
    signer = HeaderSigner(credentials) if form == "header" else QuerySigner(credentials)
    signer.add_auth(request)
    sent = CIMultiDict({name: str(value) for name, value in request.headers.items()})
    parts = urlsplit(request.url)
    raw = parts.path + (f"?{parts.query}" if parts.query else "")
    if form == "query":
        del sent["Date"]  # only for the signer: it holds the end
        for name in [name for name in sent if name.lower().startswith("x-amz-")]:
            del sent[name]  # they are in the query now
        expires = dict(parse_query(parts.query))["Expires"]
        return raw, sent, float(expires)
    return raw, sent, float(epoch_seconds(timestamp_of_date_header(sent["Date"])))


def proved(method: str, raw: str, sent: CIMultiDict[str], secret: SecretKey, now: float, host: str = HOST) -> SignedV2:
    target = parse_target(raw, host, ["forebay.internal"])
    claim = read_claim(target, sent)
    if not isinstance(claim, ClaimV2):
        raise S3Error("AccessDenied")
    return verify_v2(claim, method, target, sent, secret, now)


@settings(max_examples=100 * SCALE, deadline=None)
@given(st.sampled_from(["header", "query"]), methods, keys, queries, headers, secrets)
def test_requests_signed_by_botocore_are_accepted(
    form: str, method: str, key: str, query: dict[str, str], more: dict[str, str], secret: SecretKey
) -> None:
    assume(len(key.encode()) <= 1024)
    raw, sent, now = signed(form, method, f"/bucket/{key}", query, more, secret)
    assert proved(method, raw, sent, secret, now).form == form
    path = f"/{key}"
    raw, sent, now = signed(form, method, path, query, more, secret, "bucket")
    assert proved(method, raw, sent, secret, now, "bucket.forebay.internal").access_key == secret.access_key


@pytest.mark.parametrize("form", ["header", "query"])
@pytest.mark.parametrize("path", ["/bucket", "/bucket/", "/"])
def test_buckets_and_the_service(form: str, path: str) -> None:
    for query in ({}, {"uploads": ""}, {"prefix": "a b"}):
        raw, sent, now = signed(form, "GET", path, query, {}, SECRET)
        assert proved("GET", raw, sent, SECRET, now).form == form


def meaning(method: str, raw: str, sent: CIMultiDict[str]) -> object:
    """What a request means, as far as this version speaks of it."""
    target = parse_target(raw, HOST, [])
    unsigned = {"prefix", "marker", "max-keys", "x-id", "list-type"}
    named = [(name.lower() if is_hoisted_header(name) else name, value) for name, value in target.query]
    query = sorted(pair for pair in named if pair[0] not in unsigned)
    # Blanks around a value say nothing, nor do those between a scheme and its credentials (RFC 9110 section 11.4).
    covered = sorted(
        (name.lower(), re.sub(r"^AWS +", "AWS ", value.strip()))
        for name, value in sent.items()
        if name.lower() not in {"range", "host"}
    )
    if "content-type" not in sent:  # a presigned URL says it as well
        covered += [("content-type", value) for name, value in query if name == "content-type"]
    return method, target.bucket, target.key, query, sorted(covered)


@settings(max_examples=500 * SCALE, deadline=None)
@given(st.sampled_from(["header", "query"]), st.data())
def test_signed_request_with_one_change_is_refused(form: str, data: st.DataObject) -> None:
    query = {"versionId": "a b", "response-content-type": "x/y", "prefix": "p"}
    raw, sent, now = signed(form, "GET", "/bucket/a b/c", query, {"x-amz-meta-a": "b", "Content-Type": "t"}, SECRET)
    method, changed, fields = "GET", raw, sent.copy()
    match data.draw(st.sampled_from(["method", "target", "value", "removed", "added", "parameter"])):
        case "method":
            method = data.draw(st.sampled_from(["HEAD", "PUT", "DELETE", "get", ""]))
        case "target":
            changed = changed_text(raw, data)
        case "value":
            name = data.draw(st.sampled_from(sorted(fields)))
            fields[name] = changed_text(fields[name], data)
        case "removed":
            del fields[data.draw(st.sampled_from(sorted(fields)))]
        case "added":
            fields.add(data.draw(st.sampled_from(["x-amz-acl", "X-Amz-Meta-Z", "x-amz-meta-a", "Authorization"])), "x")
        case _:
            names = ["acl", "tagging", "retention", "legal-hold", "encryption", "append", "foo", "x-amz-acl", "uploads"]
            changed = f"{raw}{'&' if '?' in raw else '?'}{data.draw(st.sampled_from(names))}=x"
    try:
        assume(meaning(method, changed, fields) != meaning("GET", raw, sent))
    except S3Error:
        return  # it is not even a target any more
    with pytest.raises(S3Error):
        proved(method, changed, fields, SECRET, now)
