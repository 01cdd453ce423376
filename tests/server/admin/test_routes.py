"""Every route of the admin port: its response to a valid request, and its refusals."""

import asyncio
import gc
import json
import logging
from dataclasses import replace
from typing import Any, cast

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient
from pytest_aiohttp.plugin import AiohttpClient

from forebay.core.errors import OriginUnreachable, SettingsError, Throttled
from forebay.server.admin.admin_gate import AdminGate
from forebay.server.admin.admin_server import AdminRunner, admin_application
from forebay.server.admin.readiness import Readiness
from forebay.server.admin.request_reader import MAX_SMALL_BODY
from forebay.server.admin.schema.admin_schema import MAX_CONCURRENCY, Document, WarmFailure
from forebay.server.admin.schema.warm_order import WarmOrder
from harness.admin_control import GIB, MIB, FakeControl, cached_object

Client = TestClient[web.Request, web.Application]
JSON = {"Content-Type": "application/json"}
TOML = {"Content-Type": "application/toml"}


@pytest.fixture
async def control() -> FakeControl:
    return FakeControl()


@pytest.fixture
async def client(aiohttp_client: AiohttpClient, control: FakeControl) -> Client:
    return await aiohttp_client(admin_application(control.verbs, AdminGate()))


async def ask(
    client: Client, method: str, path: str, body: object = b"", headers: dict[str, str] | None = None
) -> tuple[int, Document]:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    async with client.request(method, path, data=raw, headers=JSON if headers is None else headers) as answer:
        return answer.status, cast("Document", await answer.json())


async def test_alive_and_ready(client: Client, control: FakeControl) -> None:
    assert await ask(client, "GET", "/healthz") == (200, {"alive": True})
    assert await ask(client, "GET", "/readyz") == (200, {"ready": True, "reasons": [], "failing": {}, "degraded": {}})
    control.ready = Readiness({"origin": "The origin can't be reached."})
    sentence = "The origin can't be reached."
    document = {"reasons": [sentence], "failing": {"origin": sentence}, "degraded": {}}
    assert await ask(client, "GET", "/readyz") == (503, {"ready": False, **document})
    assert await ask(client, "GET", "/readyz?exclude=workers") == (503, {"ready": False, **document})
    assert await ask(client, "GET", "/readyz?exclude=workers&exclude=origin") == (200, {"ready": True, **document})


async def test_healthz_does_not_call_the_control(client: Client, control: FakeControl) -> None:
    control.fails_with = RuntimeError("broken")
    assert (await ask(client, "GET", "/healthz"))[0] == 200


async def test_metrics_are_prometheus_text(client: Client) -> None:
    async with client.get("/metrics") as answer:
        assert answer.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
        assert await answer.text() == "# TYPE forebay_up gauge\nforebay_up 1\n"


async def test_responses_have_no_store_and_no_versions(client: Client) -> None:
    for path in ("/healthz", "/v1/stats", "/nothing"):
        async with client.get(path) as answer:
            assert answer.headers["Cache-Control"] == "no-store"
            assert answer.headers["X-Content-Type-Options"] == "nosniff"
            assert answer.headers["Server"] == "forebay"


async def test_stats(client: Client) -> None:
    status, stats = await ask(client, "GET", "/v1/stats")
    assert status == 200
    assert stats["requests"] == {
        "total": 1_234_674,
        "by_status": {"200": 1_204_410, "206": 30_100, "304": 120, "404": 41, "503": 3},
    }
    hits = cast("dict[str, float]", stats["hits"])
    assert hits["hit_ratio"] == 0.9375
    assert hits["memory_ratio"] + hits["ssd_ratio"] + hits["joined_ratio"] == hits["hit_ratio"]
    assert hits["amplification"] == 264 / 256
    reads = cast("list[dict[str, object]]", stats["reads"])
    assert [row["rule"] for row in reads] == ["datasets/imagenet/**", "default", "checkpoints/**"]
    assert [row["hit_ratio"] for row in reads] == [0.96, 0.0, None]
    memory = {"name": "memory", "capacity": 4 * GIB, "used": 3480 * MIB, "blocks": 3480, "heads": 911}
    ssd = {"name": "ssd", "capacity": 500 * GIB, "used": 160 * GIB, "blocks": 163840, "heads": 40113}
    assert stats["tiers"] == [{**tier, "state": "serving", "reason": None, "pinned": 0} for tier in (memory, ssd)]
    assert stats["flights"] == {"in_the_air": 3, "waiting": 12}
    assert stats["jobs"] == {"running": 1}


async def test_shown_config_is_redacted_once_more(client: Client, control: FakeControl) -> None:
    control.effective = {
        "server": {"listen": "127.0.0.1:9000", "admin_token": "hush"},
        "origin": {"access_key": "AK", "secret_key": "hush", "secret_key_env": "NAME", "profile": "p"},
        "auth": {"keys": [{"id": "a", "secret": "hush", "secret_file": "/run/s"}, {"id": "b", "secret": ""}]},
    }
    status, shown = await ask(client, "GET", "/v1/config")
    assert status == 200
    assert shown == {
        "server": {"listen": "127.0.0.1:9000", "admin_token": "(redacted)"},
        "origin": {"access_key": "AK", "secret_key": "(redacted)", "secret_key_env": "NAME", "profile": "p"},
        "auth": {"keys": [{"id": "a", "secret": "(redacted)", "secret_file": "/run/s"}, {"id": "b", "secret": ""}]},
    }


async def test_a_config_is_replaced(client: Client, control: FakeControl) -> None:
    status, answer = await ask(client, "PUT", "/v1/config", b"[memory]\nsize = '8GiB'\n", TOML)
    assert (status, answer) == (
        200,
        {"changed": ["memory.size", "rules"], "needs_restart": ["server.listen"], "warnings": ["it is much"]},
    )
    assert control.calls == [("replace_config", "[memory]\nsize = '8GiB'\n")]


async def test_a_bad_config_is_refused_with_the_reason(client: Client) -> None:
    status, answer = await ask(client, "PUT", "/v1/config", b"bad", TOML)
    assert status == 422
    assert answer == {
        "error": "settings_refused",
        "message": "memory.size: got 'bad', allowed: a size such as 4GiB",
        "where": "memory.size",
        "given": "'bad'",
        "allowed": "a size such as 4GiB",
    }


@pytest.mark.parametrize(
    ("where", "value"),
    [
        ("auth.keys[0].secret", "hush"),
        ("origin.secret_key", "hush"),
        ("auth.keys[0].secret_env", "hush"),
        ("server.admin_token", "hush"),
        ("auth.keys[0]", {"id": "a", "secret": "hush"}),
        ("auth.keys", [{"id": "a", "secret": "hush"}]),
    ],
)
async def test_refusals_do_not_repeat_secrets(client: Client, control: FakeControl, where: str, value: object) -> None:
    control.fails_with = SettingsError(where, value, "something else")
    status, answer = await ask(client, "POST", "/v1/config/reload")
    assert status == 422
    assert "hush" not in json.dumps(answer)


async def test_a_missing_setting_is_said_to_be_missing(client: Client, control: FakeControl) -> None:
    control.fails_with = SettingsError("ssd.size", None, "a size")
    status, answer = await ask(client, "POST", "/v1/config/reload")
    assert (status, answer["message"]) == (422, "ssd.size: must be given: a size")


class _Transport(asyncio.Transport):
    def close(self) -> None:
        """There is no socket."""


async def test_a_client_that_leaves_before_it_is_served_is_no_error() -> None:
    runner = AdminRunner(admin_application(FakeControl().verbs, AdminGate()))
    await runner.setup()
    assert runner.server is not None
    failed: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: failed.append(context))
    connection = runner.server()
    connection.connection_made(_Transport())
    connection.connection_lost(None)
    await asyncio.sleep(0)
    del connection
    gc.collect()
    await runner.cleanup()
    assert failed == []


async def test_reload(client: Client, control: FakeControl) -> None:
    assert await ask(client, "POST", "/v1/config/reload") == (
        200,
        {"changed": [], "needs_restart": [], "warnings": []},
    )
    control.has_file = False
    status, answer = await ask(client, "POST", "/v1/config/reload")
    assert (status, answer["error"]) == (409, "no_config_file")


async def test_job_runs_from_start_to_end(client: Client, control: FakeControl) -> None:
    status, job = await ask(client, "POST", "/v1/jobs", {"bucket": "b", "prefix": "p/", "concurrency": 8})
    assert (status, job["id"], job["state"]) == (201, "j1", "running")
    assert job["note"] == "A job that was cut off goes on after a restart, where it `survives`."
    assert control.calls == [("start_job", WarmOrder("b", "p/", concurrency=8))]
    states = [(await ask(client, "GET", "/v1/jobs/j1"))[1] for _ in range(4)]
    assert [(state["state"], state["done"]) for state in states] == [
        ("running", 1),
        ("running", 2),
        ("done", 3),
        ("done", 3),
    ]
    status, jobs = await ask(client, "GET", "/v1/jobs")
    assert status == 200
    assert [listed["id"] for listed in cast("list[dict[str, object]]", jobs["jobs"])] == ["j1"]


async def test_new_job_has_a_location(client: Client) -> None:
    async with client.post("/v1/jobs", json={"bucket": "b"}) as answer:
        assert answer.headers["Location"] == "/v1/jobs/j1"


async def test_job_is_cancelled(client: Client) -> None:
    await ask(client, "POST", "/v1/jobs", {"bucket": "b"})
    status, job = await ask(client, "DELETE", "/v1/jobs/j1")
    assert (status, job["state"]) == (200, "cancelled")


async def test_a_job_shows_its_failures(client: Client, control: FakeControl) -> None:
    control.steps, control.failing = 1, (WarmFailure("k", "The origin answered 403."),)
    await ask(client, "POST", "/v1/jobs", {"bucket": "b"})
    _, job = await ask(client, "GET", "/v1/jobs/j1")
    assert job["failures"] == [{"key": "k", "reason": "The origin answered 403.", "bucket": ""}]


@pytest.mark.parametrize("method", ["GET", "DELETE"])
async def test_unknown_job_is_404(client: Client, method: str) -> None:
    status, answer = await ask(client, method, "/v1/jobs/j7")
    assert (status, answer["error"]) == (404, "no_such_job")


async def test_job_accepts_keys(client: Client, control: FakeControl) -> None:
    assert (await ask(client, "POST", "/v1/jobs", {"bucket": "b", "keys": ["x", "y ü"]}))[0] == 201
    assert control.calls == [("start_job", WarmOrder("b", None, ("x", "y ü")))]


async def test_job_accepts_a_check(client: Client, control: FakeControl) -> None:
    assert (await ask(client, "POST", "/v1/jobs", {"bucket": "b", "check": True, "if_fits": False}))[0] == 201
    assert control.calls == [("start_job", WarmOrder("b", "", check=True))]


async def test_job_accepts_a_long_list_of_keys(client: Client) -> None:
    keys = [f"{number:0200}" for number in range(5000)]
    assert (await ask(client, "POST", "/v1/jobs", {"bucket": "b", "keys": keys}))[0] == 201


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"not json",
        b"[]",
        b"[" * 100_000,
        b'{"bucket": "b", "bucket": "c"}',
        b'{"bucket": "b", "prefix": "\\ud800"}',
        {"prefix": "p"},
        {"bucket": ""},
        {"bucket": "a/b"},
        {"bucket": 7},
        {"bucket": "b\n"},
        {"bucket": "b", "concurency": 4},
        {"bucket": "b", "concurrency": 0},
        {"bucket": "b", "concurrency": MAX_CONCURRENCY + 1},
        {"bucket": "b", "concurrency": True},
        {"bucket": "b", "concurrency": "4"},
        {"bucket": "b", "prefix": None},
        {"bucket": "b", "prefix": "x" * 1025},
        {"bucket": "b", "prefix": "p", "keys": ["k"]},
        {"bucket": "b", "keys": []},
        {"bucket": "b", "keys": "k"},
        {"bucket": "b", "keys": ["k", ""]},
        {"bucket": "b", "keys": ["k", 7]},
        {"bucket": "b", "keys": ["ü" * 513]},
        {"bucket": "b", "check": 1},
        {"bucket": "b", "if_fits": "yes"},
        {"bucket": "b", "keys": ["k"], "if_fits": True},
    ],
    ids=lambda body: repr(body)[:40],
)
async def test_malformed_job_orders_are_refused(client: Client, control: FakeControl, body: object) -> None:
    status, answer = await ask(client, "POST", "/v1/jobs", body)
    assert (status, answer["error"]) == (400, "bad_request")
    assert control.calls == []


async def test_cache_is_listed_in_pages(client: Client, control: FakeControl) -> None:
    control.objects = [cached_object(f"p/{number}") for number in range(3)]
    status, first = await ask(client, "GET", "/v1/cache?bucket=b&prefix=p/&limit=2")
    assert status == 200
    assert first["next"] == "p/1"
    assert cast("list[object]", first["objects"])[0] == {
        "bucket": "b",
        "key": "p/0",
        "size": 10 * MIB,
        "etag": '"abc"',
        "memory": 0,
        "ssd": 10 * MIB,
        "cached": 10 * MIB,
        "validated_at": 1_750_000_000.0,
    }
    _, second = await ask(client, "GET", "/v1/cache?bucket=b&prefix=p/&limit=2&after=p/1")
    assert second["next"] is None
    assert control.calls[-1] == ("cached", "b", "p/", "p/1", 2)


async def test_a_prefix_is_decoded_once(client: Client, control: FakeControl) -> None:
    await ask(client, "GET", "/v1/cache?bucket=b&prefix=a%252Fb%20c%2Bd")
    assert control.calls == [("cached", "b", "a%2Fb c+d", "", 1000)]


@pytest.mark.parametrize(
    "query",
    [
        "",
        "bucket=",
        "bucket=b&bucket=c",
        "bucket=b&prefx=p",
        "bucket=b&limit=0",
        "bucket=b&limit=1001",
        "bucket=b&limit=-1",
        "bucket=b&limit=x",
        "bucket=b&limit=%C2%B2",
        "bucket=b&limit=" + 5000 * "9",
    ],
)
async def test_malformed_cache_queries_are_refused(client: Client, control: FakeControl, query: str) -> None:
    status, answer = await ask(client, "GET", f"/v1/cache?{query}")
    assert (status, answer["error"]) == (400, "bad_request")
    assert control.calls == []


async def test_purge(client: Client, control: FakeControl, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    control.objects = [cached_object("p/1"), cached_object("q/1")]
    answer = await ask(client, "DELETE", "/v1/cache?bucket=b&prefix=p/")
    assert answer == (200, {"objects": 1, "size": 10 * MIB})
    assert [cached.name.key for cached in control.objects] == ["q/1"]
    assert "admin port: 1 object was purged from the cache, 10MiB" in caplog.messages


@pytest.mark.parametrize(
    ("method", "path"),
    [("DELETE", "/v1/cache?prefix=p"), ("DELETE", "/v1/cache?bucket=b&limit=3"), ("GET", "/v1/stats?x=1")],
)
async def test_unknown_query_parameters_are_refused(
    client: Client, control: FakeControl, method: str, path: str
) -> None:
    assert (await ask(client, method, path))[0] == 400
    assert control.calls == []


async def test_unexpected_bodies_are_refused(client: Client, control: FakeControl) -> None:
    assert (await ask(client, "DELETE", "/v1/cache?bucket=b", {"prefix": "p"}))[0] == 400
    assert control.calls == []


async def test_a_tier_is_resized(client: Client, control: FakeControl) -> None:
    answer = await ask(client, "PUT", "/v1/tiers/memory", {"size": "8GiB"})
    assert answer == (200, {"tier": "memory", "before": 4 * GIB, "after": 8 * GIB, "warning": None})
    assert control.tiers == {"memory": 8 * GIB}


@pytest.mark.parametrize(
    ("tier", "body", "status", "error"),
    [
        ("memory", {"size": "many"}, 422, "settings_refused"),
        ("memory", {"size": 7}, 400, "bad_request"),
        ("memory", {}, 400, "bad_request"),
        ("memory", {"size": "1GiB", "now": True}, 400, "bad_request"),
        ("ssd", {"size": "1GiB"}, 409, "tier_off"),
        ("tape", {"size": "1GiB"}, 404, "no_such_tier"),
    ],
)
async def test_impossible_resizes_are_refused(client: Client, tier: str, body: object, status: int, error: str) -> None:
    found, answer = await ask(client, "PUT", f"/v1/tiers/{tier}", body)
    assert (found, answer["error"]) == (status, error)


@pytest.mark.parametrize("announced", [True, False])
async def test_bodies_are_bounded(client: Client, control: FakeControl, announced: bool) -> None:
    body = b'{"size": "' + b"x" * MAX_SMALL_BODY + b'"}'

    async def pieces() -> object:
        for start in range(0, len(body), 4096):
            yield body[start : start + 4096]

    async with client.put("/v1/tiers/memory", data=body if announced else pieces(), headers=JSON) as answer:
        assert answer.status == 413
        assert (await answer.json())["error"] == "too_large"
    assert control.calls == []


async def test_compressed_bodies_are_refused(client: Client, control: FakeControl) -> None:
    async with client.post("/v1/jobs", data=b'{"bucket": "b"}', headers=JSON, compress="gzip") as answer:
        assert answer.status == 415
    assert control.calls == []


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (Throttled("Eight jobs are running."), 503, "throttled"),
        (OriginUnreachable("10.0.0.1: refused"), 502, "origin"),
        (RuntimeError("hush"), 500, "internal"),
    ],
)
async def test_exceptions_become_statuses(
    client: Client, control: FakeControl, error: Exception, status: int, code: str
) -> None:
    control.fails_with = error
    found, answer = await ask(client, "GET", "/v1/jobs")
    assert (found, answer["error"]) == (status, code)
    assert "hush" not in json.dumps(answer)
    assert "10.0.0.1" not in json.dumps(answer)


@pytest.mark.parametrize(
    ("reason", "message"),
    [
        ("no worker runs", "No worker runs. Please try again."),
        ("Eight jobs are running.", "Eight jobs are running."),
    ],
)
async def test_a_reason_becomes_a_sentence(client: Client, control: FakeControl, reason: str, message: str) -> None:
    control.fails_with = Throttled(reason)
    assert (await ask(client, "GET", "/v1/jobs"))[1]["message"] == message


async def test_no_such_path_and_no_such_method(client: Client) -> None:
    assert (await ask(client, "GET", "/v2/stats"))[1]["error"] == "no_such_path"
    status, answer = await ask(client, "PUT", "/v1/jobs")
    assert (status, answer["error"]) == (405, "method_not_allowed")
    assert answer["message"] == "PUT is not for this path; it takes GET, POST."


async def test_a_document_without_reads_has_no_ratios(client: Client, control: FakeControl) -> None:
    control.current_stats = replace(control.current_stats, reads=())
    _, stats = await ask(client, "GET", "/v1/stats")
    assert set(cast("dict[str, object]", stats["hits"]).values()) == {None}
