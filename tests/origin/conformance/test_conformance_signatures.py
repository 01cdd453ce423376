"""Signatures: the good ones are taken, each bad one is refused, and nothing is told to those refused."""

import time
from dataclasses import replace
from uuid import uuid4

import pytest

from harness.clients import RawClient, query_of
from harness.conformance import Subject, code
from harness.quirks import Quirk
from harness.reference_sigv4 import Secret

BODY = b"signed"


async def test_a_wrong_secret(origin: Subject) -> None:
    kept = await origin.put(BODY)
    wrong = RawClient(origin.endpoint, replace(origin.secret, secret="wrong"))
    for method in ("GET", "PUT", "DELETE"):
        answer = await wrong.request(method, origin.target(kept.key))
        assert (answer.status, code(answer)) == (403, "SignatureDoesNotMatch")
    head = await wrong.request("HEAD", origin.target(kept.key))
    assert (head.status, head.body, "ETag" in head.headers) == (403, b"", False)
    conditional = await wrong.request("GET", origin.target(kept.key), [("If-None-Match", kept.etag)])
    assert conditional.status == 403
    assert (await origin.get(kept.key)).body == BODY


async def test_an_unknown_access_key(origin: Subject) -> None:
    answer = await RawClient(origin.endpoint, Secret("nobody", "x")).request("GET", origin.target("key"))
    expected = "SignatureDoesNotMatch" if origin.has(Quirk.UNKNOWN_KEY_IS_A_WRONG_SIGNATURE) else "InvalidAccessKeyId"
    assert (answer.status, code(answer)) == (403, expected)


async def test_no_signature(origin: Subject) -> None:
    kept = await origin.put(BODY)
    answer = await origin.client.unsigned("GET", origin.target(kept.key))
    assert BODY not in answer.body
    assert answer.status in ({400, 403, 412} if origin.has(Quirk.ANONYMOUS_IS_A_BAD_REQUEST) else {403})


@pytest.mark.parametrize("skew", [-1200, 1200])
async def test_clock_skew(origin: Subject, skew: int) -> None:
    client = RawClient(origin.endpoint, origin.secret, clock=lambda: time.time() + skew)
    answer = await client.request("GET", origin.target("key"))
    assert (answer.status, code(answer)) == (403, "RequestTimeTooSkewed")


async def test_a_wrong_region(origin: Subject) -> None:
    client = RawClient(origin.endpoint, replace(origin.secret, region="nowhere-1"))
    answer = await client.request("GET", origin.target(f"key-{uuid4().hex}"))
    if origin.has(Quirk.TAKES_ANY_REGION):
        assert (answer.status, code(answer)) == (404, "NoSuchKey")
    else:
        assert (answer.status, code(answer)) == (400, "AuthorizationHeaderMalformed")


@pytest.mark.parametrize("changed", ["method", "path", "query", "header", "added"])
async def test_a_request_changed_on_the_way(origin: Subject, changed: str) -> None:
    request = origin.client.sign("GET", origin.target("key", a="1"), [("x-amz-meta-a", "b")])
    pairs = tuple(
        (name, "other" if name == "x-amz-meta-a" and changed == "header" else value) for name, value in request.pairs
    )
    request = replace(
        request,
        method="DELETE" if changed == "method" else request.method,
        target=request.target.replace("key", "yek")
        if changed == "path"
        else request.target.replace("a=1", "a=2")
        if changed == "query"
        else request.target,
        pairs=(*pairs, ("x-amz-meta-c", "d")) if changed == "added" else pairs,
    )
    answer = await origin.client.send(request)
    assert answer.status == 403, answer
    assert code(answer) in {"SignatureDoesNotMatch", "AccessDenied"}


async def test_an_odd_query_is_signed_as_it_is(origin: Subject) -> None:
    answer = await origin.client.request(
        "GET", f"/{origin.bucket}?" + query_of({"prefix": "a b/ü+&=", "list-type": "2"})
    )
    assert answer.status == 200


async def test_presigned(origin: Subject) -> None:
    kept, client = await origin.put(BODY), origin.client
    answer = await client.unsigned("GET", client.presign("GET", origin.target(kept.key)))
    assert (answer.status, answer.body) == (200, BODY)
    ranged = await client.unsigned("GET", client.presign("GET", origin.target(kept.key)), [("Range", "bytes=0-1")])
    assert (ranged.status, ranged.body) == (206, BODY[:2])
    overridden = client.presign("GET", origin.target(kept.key, response_content_type="image/png"))
    assert (await client.unsigned("GET", overridden)).headers["Content-Type"] == "image/png"


async def test_presigned_put(origin: Subject) -> None:
    client = origin.client
    answer = await client.unsigned("PUT", client.presign("PUT", origin.target("presigned")), (), BODY)
    assert answer.status == 200
    assert (await origin.get("presigned")).body == BODY


@pytest.mark.parametrize(
    ("old", "new"),
    [("X-Amz-Signature=", "X-Amz-Signature=0"), ("X-Amz-Expires=60", "X-Amz-Expires=61"), ("/key", "/yek")],
)
async def test_a_tampered_url(origin: Subject, old: str, new: str) -> None:
    url = origin.client.presign("GET", origin.target("key"), 60)
    assert old in url
    answer = await origin.client.unsigned("GET", url.replace(old, new))
    assert (answer.status, code(answer)) == (403, "SignatureDoesNotMatch")


async def test_a_url_for_another_method(origin: Subject) -> None:
    kept = await origin.put(BODY)
    answer = await origin.client.unsigned("DELETE", origin.client.presign("GET", origin.target(kept.key)))
    assert answer.status == 403
    assert (await origin.get(kept.key)).status == 200


async def test_an_expired_url(origin: Subject) -> None:
    earlier = RawClient(origin.endpoint, origin.secret, clock=lambda: time.time() - 120)
    answer = await earlier.unsigned("GET", earlier.presign("GET", origin.target("key"), 60))
    assert (answer.status, code(answer)) == (403, "AccessDenied")


async def test_a_url_that_lives_too_long(origin: Subject) -> None:
    url = origin.client.presign("GET", origin.target("key"), 604_801)
    answer = await origin.client.unsigned("GET", url)
    assert (answer.status, code(answer)) == (400, "AuthorizationQueryParametersError")
