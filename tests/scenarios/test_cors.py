"""Web pages of other sites, where `server.cors` answers them as the bucket's CORS configuration says."""

from pathlib import Path
from typing import Final

from harness.clients import path_of
from harness.fake_origin import FakeOrigin
from harness.raw_connection import RawAnswer
from harness.rig import Rig

TARGET: Final = path_of("bucket", "key")
BODY: Final = b"content" * 1000
SITE: Final = ("Origin", "https://app.example")
PREFLIGHT: Final = (SITE, ("Access-Control-Request-Method", "GET"), ("Access-Control-Request-Headers", "X-Amz-Date"))
RULES: Final = (
    b"<CORSConfiguration><CORSRule><AllowedOrigin>https://*.example</AllowedOrigin><AllowedMethod>GET</AllowedMethod>"
    b"<AllowedHeader>*</AllowedHeader><ExposeHeader>ETag</ExposeHeader></CORSRule></CORSConfiguration>"
)


def rig_of(origin: FakeOrigin, directory: Path, server: str = "cors = true") -> Rig:
    origin.store.put("bucket", "key", BODY)
    return Rig(origin.endpoint, origin.secret, directory, server=server)


def allowed(answer: RawAnswer) -> str | None:
    return answer.headers.get("Access-Control-Allow-Origin")


def asked_for_rules(origin: FakeOrigin) -> int:
    return origin.log.count("GET", "GetBucketCors")


async def test_miss_and_hits_have_the_headers_of_the_bucket(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, rig_of(origin, tmp_path) as rig:
        origin.store.bucket("bucket").cors = RULES
        client = rig.client()
        for cache in ("miss", "hit-memory", "hit-memory"):
            answer = await client.request("GET", TARGET, [SITE])
            assert (answer.body, answer.headers["x-forebay-cache"]) == (BODY, cache)
            assert allowed(answer) == SITE[1]
            assert answer.headers["Access-Control-Expose-Headers"] == "ETag"
            assert answer.headers["Vary"].startswith("Origin")
        plain = await client.request("GET", TARGET)
        assert not {"vary", "access-control-allow-origin"} & {name.lower() for name, _ in plain.pairs}
        assert allowed(await client.request("GET", TARGET, [("Origin", "https://evil.test")])) is None
        refused = await client.unsigned("GET", TARGET, [SITE])
        assert (refused.status, allowed(refused)) == (403, SITE[1])  # a page may read why
        assert asked_for_rules(origin) == 1


async def test_preflight_is_answered_by_the_rules(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, rig_of(origin, tmp_path) as rig:
        origin.store.bucket("bucket").cors = RULES
        client = rig.client()
        answer = await client.unsigned("OPTIONS", TARGET, PREFLIGHT)
        assert (answer.status, allowed(answer), answer.body) == (200, SITE[1], b"")
        assert answer.headers["Access-Control-Allow-Headers"] == "x-amz-date"
        for target, pairs, status in (
            (TARGET, (("Origin", "https://evil.test"), *PREFLIGHT[1:]), 403),
            (TARGET, (SITE, ("Access-Control-Request-Method", "PUT")), 403),
            ("/none/key", PREFLIGHT, 403),
            ("/", PREFLIGHT, 403),
            (TARGET, (SITE,), 400),
        ):
            refused = await client.unsigned("OPTIONS", target, pairs)
            assert (refused.status, allowed(refused)) == (status, None), (target, pairs)
        assert asked_for_rules(origin) == 2  # of the bucket, and of the one that is not there


async def test_rules_changed_through_forebay_count_at_once(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, rig_of(origin, tmp_path) as rig:
        client = rig.client()
        assert (await client.unsigned("OPTIONS", TARGET, PREFLIGHT)).status == 403
        assert (await client.request("PUT", "/bucket?cors", body=RULES)).status == 200
        assert (await client.unsigned("OPTIONS", TARGET, PREFLIGHT)).status == 200
        assert (await client.request("DELETE", "/bucket?cors")).status == 204
        assert (await client.unsigned("OPTIONS", TARGET, PREFLIGHT)).status == 403


async def test_without_the_setting_nobody_is_asked(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, rig_of(origin, tmp_path, server="") as rig:
        origin.store.bucket("bucket").cors = RULES
        client = rig.client()
        for _ in range(2):
            assert allowed(await client.request("GET", TARGET, [SITE])) is None
        assert (await client.unsigned("OPTIONS", TARGET, PREFLIGHT)).status == 403
        assert asked_for_rules(origin) == 0
