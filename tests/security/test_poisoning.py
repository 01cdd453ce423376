"""Where Forebay connects, and what one client's request may do to the next one's answer: nothing.

The origin's host comes from the configuration alone. A second server stands by in these tests, and is named in every
place where a proxy might look for a host: nobody ever connects to it. What is not part of an object's name shapes no
answer but its own; an error is nobody's but its asker's.
"""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from harness.clients import RawRequest
from harness.fake import actions
from harness.fake_origin import FakeOrigin
from harness.inspection import object_response
from harness.rig import READER, TRAINER, Rig
from security.required_grants import REQUIRED_GRANTS, SAMPLES, Sample
from security.signers import Pairs

CONTENT: Final = b"what everybody gets " * 100
CANARY: Final = "canary-of-the-first"
_NAMING: Final = (
    *(
        "X-Forwarded-Host",
        "X-Forwarded-Server",
        "X-Host",
        "X-Original-Host",
        "X-Forwarded-For",
        "X-Real-IP",
        "Forwarded",
        "Via",
    ),
    *(
        "X-HTTP-Host-Override",
        "X-Original-URL",
        "X-Rewrite-URL",
        "X-Proxy-URL",
        "X-Forwarded-Proto",
        "X-Forwarded-Port",
        "Referer",
    ),
    *(
        "Origin",
        "Destination",
        "Location",
        "X-Copy-From",
        "X-Amz-Website-Redirect-Location",
        "Proxy-Host",
        "True-Client-IP",
    ),
)
_UNKEYED: Final[Pairs] = (
    *(
        (name, CANARY)
        for name in (*_NAMING, "User-Agent", "Accept", "Accept-Charset", "Cookie", "From", "Priority", "Pragma")
    ),
    *(
        ("Accept-Language", "xx"),
        ("Accept-Encoding", "gzip, br"),
        ("X-HTTP-Method-Override", "DELETE"),
        ("Save-Data", "on"),
    ),
    *(
        ("X-Method-Override", "DELETE"),
        ("Content-Type", CANARY),
        ("Content-Encoding", "gzip"),
        ("Cache-Control", "no-transform"),
    ),
    *(
        ("Content-Language", "xx"),
        ("Expires", "0"),
        ("DNT", "1"),
        ("Max-Forwards", "0"),
        ("Sec-Fetch-Mode", "cors"),
        ("X-Debug", "1"),
    ),
    *(
        ("x-forebay-cache", CANARY),
        ("x-forebay-lane", CANARY),
        ("x-amz-checksum-mode", "ENABLED"),
        ("x-amz-user-agent", CANARY),
    ),
    *(
        ("Origin", "null"),
        ("Access-Control-Request-Method", "PUT"),
        ("X-Forwarded-Prefix", f"/{CANARY}"),
        ("Accept-Ranges", "none"),
    ),
)


class Scene(NamedTuple):
    rig: Rig
    origin: FakeOrigin
    elsewhere: FakeOrigin


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[Scene]:
    async with (
        FakeOrigin() as origin,
        FakeOrigin(verify=False) as elsewhere,
        Rig(origin.endpoint, origin.secret, tmp_path) as rig,
    ):
        origin.store.put("bucket", "open/key", CONTENT)
        origin.store.put("bucket", "open/source", b"source")
        elsewhere.store.put("bucket", "open/key", b"elsewhere")
        yield Scene(rig, origin, elsewhere)
        assert elsewhere.log.connections == 0, "somebody connected where a client had said"
        assert elsewhere.log.requests == []


def _naming(address: str) -> Pairs:
    return [(name, value) for name in _NAMING for value in (address, f"http://{address}/", f'host="{address}"')]


@pytest.mark.parametrize("lane", ["fast", "full"])
async def test_no_header_says_where_to_connect(scene: Scene, lane: str) -> None:
    rig, origin, elsewhere = scene
    if lane == "full":
        rig.worker.listener.reads.fast_lane = None
    address = f"127.0.0.1:{elsewhere.port}"
    client = rig.client()
    for method in ("GET", "HEAD", "PUT"):
        for name, value in _naming(address):
            answer = await client.request(
                method, "/bucket/open/other" if method == "PUT" else "/bucket/open/key", [(name, value)]
            )
            assert answer.status == 200, (name, value)
            assert b"elsewhere" not in answer.body
    # Nor does any of them leave with our signature, for some origin to obey it.
    for seen in origin.log.requests:
        for name in _NAMING:
            assert name not in seen.headers or name.startswith("X-Amz-"), seen


async def test_no_host_and_no_target_says_where_to_connect(scene: Scene) -> None:
    rig, _, elsewhere = scene
    address = f"127.0.0.1:{elsewhere.port}"
    client = rig.client()
    hosts = (
        address,
        f"{address}@x",
        f"x@{address}",
        "localhost",
        f"bucket.{address}",
        f"{address}#",
        f"{address}/",
        "127.1",
    )
    targets = (
        *(
            f"http://{address}/bucket/open/key",
            f"//{address}/bucket/open/key",
            f"/{address}/bucket/open/key",
            f"/@{address}/x",
        ),
        *(
            f"/http://{address}/x",
            f"/http%3A%2F%2F{address}%2Fx",
            f"/bucket@{address}/open/key",
            f"/.{address}/x",
            f"/%40{address}/x",
        ),
        *(
            f"/bucket/open/key?endpoint=http://{address}",
            f"/{address}",
            f"/\\{address}/x",
            f"/bucket%3A80%40{address}/x",
        ),
    )
    for target in ("/bucket/open/key", *targets):
        signed = client.sign("GET", target)
        for host in (*hosts, dict(signed.pairs)["Host"]):
            from_host = RawRequest("GET", target, (("Host", host), *signed.pairs[1:]))
            answer = await client.send(from_host)
            assert answer.status != 500
            assert b"elsewhere" not in answer.body.replace(b"elsewhere.test", b"")


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_is_passed_on_and_never_followed(scene: Scene, status: int) -> None:
    for sample in SAMPLES:
        if REQUIRED_GRANTS[sample.name] not in {"nobody", "form"}:
            await _redirected(scene, sample, status)


async def _redirected(scene: Scene, sample: Sample, status: int) -> None:
    rig, origin, elsewhere = scene
    location = f"http://127.0.0.1:{elsewhere.port}/bucket/open/key"
    origin.faults.add(actions.Redirect(location, status), where=lambda asked: asked.bucket is not None)
    if sample.name == "ListBuckets":
        origin.faults.add(actions.Redirect(location, status))
    answer = await rig.client().request(sample.method, sample.target, sample.pairs, sample.body)
    assert answer.status in {status, 501}, answer
    if answer.status == status:
        assert answer.headers["Location"] == location
    origin.faults.clear()
    # Nor is it remembered.
    if sample.name in {"GetObject", "HeadObject"}:
        origin.store.put("bucket", "key", CONTENT)
        assert (await rig.client().request("GET", "/bucket/key")).body == CONTENT
        assert (await rig.client().request("DELETE", "/bucket/key")).status == 204


async def test_unkeyed_input_changes_no_other_response(scene: Scene) -> None:
    """The first to ask brings every header that a cache might not key by; the second gets what a third key's reader
    gets, to whom nobody came before."""
    rig, origin, _ = scene
    for number, (name, value) in enumerate(_UNKEYED):
        keys = f"open/{number}-a", f"open/{number}-b"
        for key in keys:
            origin.store.put("bucket", key, CONTENT, content_type="text/plain", cache_control="max-age=1")
        first = await rig.client().request("GET", f"/bucket/{keys[0]}", [(name, value)])
        second = await rig.client(READER).request("GET", f"/bucket/{keys[0]}")
        alone = await rig.client(READER).request("GET", f"/bucket/{keys[1]}")
        assert (second.status, second.body) == (200, CONTENT), name
        assert _names(object_response(second).headers) == _names(object_response(alone).headers), name
        assert CANARY not in repr(second.pairs), name
        assert CANARY not in repr(first.pairs), name
        for seen in origin.log.matching(key=keys[0]):
            if "Range" in seen.headers:  # a fetch for the cache: it carries nothing of the one who asked
                assert CANARY not in repr(seen.headers), name
                assert seen.headers.get("Accept-Encoding") == "identity", name


def _names(headers: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in headers.items() if name not in {"etag", "last-modified"}}


async def test_an_error_is_its_askers_own(scene: Scene) -> None:
    """Whatever the origin answered one of them, and with whatever headers: the next asks anew."""
    rig, origin, _ = scene
    poison = (
        ("Cache-Control", "max-age=9999"),
        ("x-amz-meta-poison", CANARY),
        ("Set-Cookie", CANARY),
        ("ETag", '"poison"'),
    )
    for number, (status, code) in enumerate(
        [
            (400, "BadRequest"),
            (403, "AccessDenied"),
            (404, "NoSuchKey"),
            (405, "MethodNotAllowed"),
            (409, "Conflict"),
            (410, "Gone"),
            (412, "PreconditionFailed"),
            (416, "InvalidRange"),
            (429, "SlowDown"),
            (500, "InternalError"),
            (503, "SlowDown"),
        ]
    ):
        key = f"open/error-{number}"
        origin.store.put("bucket", key, CONTENT)
        rule = origin.faults.add(actions.Respond(status, code, code, poison), key=key)
        for method in ("GET", "HEAD"):
            answer = await rig.client().request(method, f"/bucket/{key}")
            assert answer.status >= 400
            assert "Set-Cookie" not in answer.headers
        origin.faults.remove(rule)
        rig.parts.origins.of(None).breaker.succeeded()
        for secret in (READER, TRAINER):
            answer = await rig.client(secret).request("GET", f"/bucket/{key}")
            assert (answer.status, answer.body) == (200, CONTENT), status
            assert CANARY not in repr(answer.pairs)


async def test_no_answer_of_the_origin_splits_ours(scene: Scene) -> None:
    """What the origin says in a header is one header of ours."""
    rig, origin, _ = scene
    for number, value in enumerate(("a\tb", "x" * 4000, "é", 'a; b="c"', "0")):
        key = f"open/split-{number}"
        origin.store.put("bucket", key, b"ok", content_type="text/plain", x_amz_meta_odd=value)
        answers = [await rig.client().request("GET", f"/bucket/{key}") for _ in range(2)]
        for answer in answers:
            assert (answer.status, answer.body) == (200, b"ok")
            assert len([name for name, _ in answer.pairs if name.lower() == "x-amz-meta-odd"]) == 1


async def test_vendor_headers_are_accepted_only_if_signed(tmp_path: Path) -> None:
    """Swift removes the object when X-Delete-After says so. Whoever passes a request on, or has a presigned URL, could
    have written that beside what was signed."""
    added = ("X-Delete-After", "60")
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path) as rig:
        origin.store.create_bucket("bucket")
        client = rig.client(TRAINER)
        assert (await client.request("PUT", "/bucket/signed", (added,), b"body")).status == 200
        slipped_in = client.sign("PUT", "/bucket/slipped", (), b"body")
        for answer in (
            await client.send(RawRequest(slipped_in.method, slipped_in.target, (*slipped_in.pairs, added), b"body")),
            await client.unsigned("PUT", client.presign("PUT", "/bucket/presigned"), (added,), b"body"),
        ):
            assert (answer.status, b"AccessDenied" in answer.body, b"x-delete-after" in answer.body) == (
                403,
                True,
                True,
            )
        puts = {seen.key: seen.headers.get("X-Delete-After") for seen in origin.log.matching("PUT", "PutObject")}
        assert puts == {"signed": "60"}
