"""Web pages of other sites, where `server.cors` answers them as the bucket's CORS configuration says."""

from base64 import b64encode
from hashlib import md5
from pathlib import Path
from typing import Final

from harness.clients import path_of
from harness.fake_origin import FakeOrigin
from harness.oss_client import OssClient
from harness.oss_origin import OssOrigin
from harness.raw_connection import RawAnswer
from harness.rig import TRAINER, Rig
from harness.worker_node import Node

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


async def test_buckets_of_an_oss_origin_allow_no_site(tmp_path: Path) -> None:
    """Their configuration is in OSS's own form, which is not read."""
    async with OssOrigin() as origin:
        origin.store.put("bucket", "key", BODY)
        origin.store.bucket("bucket").cors = RULES
        rig = Rig(origin.endpoint, origin.secret, tmp_path, dialect="oss", server="cors = true")
        async with rig:
            for client in (rig.client(), OssClient(rig.endpoint, TRAINER)):
                answer = await client.request("GET", TARGET, [SITE])
                assert (answer.body, allowed(answer)) == (BODY, None)
            answer = await rig.client().unsigned("OPTIONS", TARGET, PREFLIGHT)
            assert (answer.status, allowed(answer)) == (403, None)


async def test_oss_clients_get_the_headers_of_the_bucket_too(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, rig_of(origin, tmp_path) as rig:
        origin.store.bucket("bucket").cors = RULES
        for _ in range(2):
            answer = await OssClient(rig.endpoint, TRAINER).request("GET", TARGET, [SITE])
            assert (answer.body, allowed(answer)) == (BODY, SITE[1])


async def test_changed_rules_are_seen_by_all_workers(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Node(origin, tmp_path, server="cors = true") as node:
        origin.store.put("bucket", "key", BODY)
        clients = [node.client(worker) for worker in (0, 1)]
        for client in clients:
            assert allowed(await client.request("GET", TARGET, [SITE])) is None  # which each remembers
        digest = b64encode(md5(RULES, usedforsecurity=False).digest()).decode()
        written = await clients[0].request("PUT", "/bucket?cors", [("Content-MD5", digest)], body=RULES)
        assert written.status == 200, written.body
        for client in clients:
            assert allowed(await client.request("GET", TARGET, [SITE])) == SITE[1]
            assert allowed(await client.unsigned("OPTIONS", TARGET, PREFLIGHT)) == SITE[1]
        assert (await clients[1].request("DELETE", "/bucket?cors")).status == 204
        for client in clients:
            assert allowed(await client.request("GET", TARGET, [SITE])) is None
