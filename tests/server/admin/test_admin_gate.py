"""The gate, over every route: a route without a row in `MATRIX` fails the first test here.

Each test asks all routes of one server, so that a failure shows which of them differ.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from unittest.mock import Mock

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, make_mocked_request
from pytest_aiohttp.plugin import AiohttpClient

from forebay.server.admin.admin_gate import OPEN_PATHS, AdminGate
from forebay.server.admin.admin_server import admin_application
from harness.admin_control import FakeControl

TOKEN = "correct horse"
Client = TestClient[web.Request, web.Application]


@dataclass(frozen=True)
class Row:
    """One route, with a request that it takes."""

    method: str
    route: str
    status: int = 200
    target: str | None = None
    content_type: str | None = None
    body: str = ""

    def __str__(self) -> str:
        return f"{self.method} {self.route}"


JSON = "application/json"
MATRIX = (
    Row("GET", "/healthz"),
    Row("HEAD", "/healthz"),
    Row("GET", "/readyz"),
    Row("HEAD", "/readyz"),
    Row("GET", "/metrics"),
    Row("HEAD", "/metrics"),
    Row("GET", "/v1/stats"),
    Row("GET", "/v1/config"),
    Row("PUT", "/v1/config", content_type="application/toml", body="[memory]\nsize = '1GiB'\n"),
    Row("POST", "/v1/config/reload", content_type=JSON),
    Row("GET", "/v1/jobs"),
    Row("GET", "/v1/datasets"),
    Row("GET", "/v1/plans"),
    Row("PUT", "/v1/plans", 400, content_type=JSON),
    Row("GET", "/v1/plans/{id}", 404, target="/v1/plans/p9"),
    Row("DELETE", "/v1/plans/{id}", 404, target="/v1/plans/p9", content_type=JSON),
    Row("GET", "/v1/advice"),
    Row("POST", "/v1/jobs", 201, content_type=JSON, body='{"bucket": "b"}'),
    Row("POST", "/v1/packs", 201, content_type=JSON, body='{"bucket": "b"}'),
    Row("GET", "/v1/jobs/{id}", 404, target="/v1/jobs/j9"),
    Row("DELETE", "/v1/jobs/{id}", 404, target="/v1/jobs/j9", content_type=JSON),
    Row("GET", "/v1/jobs/{id}/failures", 404, target="/v1/jobs/j9/failures"),
    Row("POST", "/v1/lists", 201, "/v1/lists?bucket=b", "application/octet-stream", "key\n"),
    Row("GET", "/v1/cache", target="/v1/cache?bucket=b"),
    Row("DELETE", "/v1/cache", target="/v1/cache?bucket=b", content_type=JSON),
    Row("GET", "/v1/explain", target="/v1/explain?bucket=b&key=k"),
    Row("GET", "/v1/writes"),
    Row("POST", "/v1/flush", content_type=JSON, body='{"bucket": "b"}'),
    Row("GET", "/v1/writes/{id}", 404, target="/v1/writes/1-1"),
    Row("GET", "/v1/writes/{id}/content", 404, target="/v1/writes/1-1/content"),
    Row("POST", "/v1/writes/{id}/retry", 404, target="/v1/writes/1-1/retry", content_type=JSON),
    Row("DELETE", "/v1/writes/{id}", 404, target="/v1/writes/1-1?bucket=b&key=k", content_type=JSON),
    Row("GET", "/v1/pins"),
    Row("POST", "/v1/pins", 201, content_type=JSON, body='{"bucket": "b"}'),
    Row("DELETE", "/v1/pins", 404, target="/v1/pins?bucket=b", content_type=JSON),
    Row("GET", "/v1/recordings"),
    Row("GET", "/v1/recordings/{bucket}/{name}", 404, target="/v1/recordings/b/n"),
    Row("PUT", "/v1/recordings/{bucket}/{name}", 200, "/v1/recordings/b/n", JSON, '{"content": ""}'),
    Row("DELETE", "/v1/recordings/{bucket}/{name}", 404, target="/v1/recordings/b/n", content_type=JSON),
    Row("POST", "/v1/recordings/{bucket}/{name}/save", 404, target="/v1/recordings/b/n/save", content_type=JSON),
    Row("POST", "/v1/recordings/{bucket}/{name}/replay", 404, target="/v1/recordings/b/n/replay", content_type=JSON),
    Row("PUT", "/v1/tiers/{tier}", target="/v1/tiers/memory", content_type=JSON, body='{"size": "1GiB"}'),
)
CLOSED = tuple(row for row in MATRIX if row.route not in OPEN_PATHS)
OPEN = tuple(row for row in MATRIX if row.route in OPEN_PATHS)
WITH_EFFECT = tuple(row for row in CLOSED if row.method != "GET")


async def ask(client: Client, row: Row, headers: list[tuple[str, str]]) -> tuple[int, str]:
    """Status and error code of this row's request with exactly these headers beside its Content-Type."""
    sent = list(headers)
    if row.content_type is not None and not any(name == "Content-Type" for name, _ in headers):
        sent.append(("Content-Type", row.content_type))
    skip = {"Content-Type"}
    async with client.request(
        row.method, row.target or row.route, headers=sent, data=row.body.encode(), skip_auto_headers=skip
    ) as answer:
        is_json = answer.content_type == "application/json" and row.method != "HEAD"
        return answer.status, str((await answer.json()).get("error")) if is_json else ""


async def ask_each(client: Client, rows: Iterable[Row], headers: list[tuple[str, str]]) -> dict[str, tuple[int, str]]:
    """What each of these rows is answered, by its name."""
    return {str(row): await ask(client, row, headers) for row in rows}


async def statuses(client: Client, rows: Iterable[Row], headers: list[tuple[str, str]]) -> dict[str, int]:
    """DELETEs come first: what the others add would be there for them."""
    answers = await ask_each(client, sorted(rows, key=lambda row: row.method), headers)
    return {name: status for name, (status, _) in answers.items()}


def each(rows: Iterable[Row], refusal: tuple[int, str]) -> dict[str, tuple[int, str]]:
    return {str(row): refusal for row in rows}


def passing(rows: Iterable[Row]) -> dict[str, int]:
    return {str(row): row.status for row in rows}


@pytest.fixture
async def control() -> FakeControl:
    return FakeControl()


@pytest.fixture
async def guarded(aiohttp_client: AiohttpClient, control: FakeControl) -> Client:
    gate = AdminGate(TOKEN, frozenset({"forebay.internal"}))
    return await aiohttp_client(admin_application(control.verbs, gate))


@pytest.fixture
async def tokenless(aiohttp_client: AiohttpClient, control: FakeControl) -> Client:
    return await aiohttp_client(admin_application(control.verbs, AdminGate()))


BEARER = ("Authorization", f"Bearer {TOKEN}")


def test_every_route_has_a_row() -> None:
    application = admin_application(FakeControl().verbs, AdminGate())
    routes = {(route.method, route.resource.canonical) for route in application.router.routes() if route.resource}
    assert {(row.method, row.route) for row in MATRIX} == routes


async def test_valid_requests_with_the_token_pass_the_gate(guarded: Client) -> None:
    assert await statuses(guarded, MATRIX, [BEARER]) == passing(MATRIX)


async def test_valid_requests_pass_a_gate_without_a_token(tokenless: Client) -> None:
    assert await statuses(tokenless, MATRIX, []) == passing(MATRIX)


async def test_probes_are_open(guarded: Client) -> None:
    headers = [("Host", "10-0-0-7.pods.cluster.local"), ("Origin", "http://grafana")]
    assert await statuses(guarded, OPEN, headers) == passing(OPEN)


@pytest.mark.parametrize(
    "headers",
    [
        [],
        [("Authorization", "Bearer wrong")],
        [("Authorization", "Bearer ")],
        [("Authorization", TOKEN)],
        [("Authorization", f"Basic {TOKEN}")],
        [("Authorization", f"Bearer {TOKEN}x")],
        [("Authorization", "Bearer wr\u00f6ng")],
        [BEARER, ("Authorization", "Bearer wrong")],
        [BEARER, BEARER],
    ],
    ids=str,
)
async def test_requests_without_the_token_are_refused(
    guarded: Client, control: FakeControl, headers: list[tuple[str, str]]
) -> None:
    assert await ask_each(guarded, CLOSED, headers) == each(CLOSED, (401, "token"))
    assert control.calls == []


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://127.0.0.1:9001", ""])
async def test_requests_with_an_origin_are_refused(
    guarded: Client, tokenless: Client, control: FakeControl, origin: str
) -> None:
    assert await ask_each(guarded, CLOSED, [BEARER, ("Origin", origin)]) == each(CLOSED, (403, "browser"))
    assert await ask_each(tokenless, CLOSED, [("Origin", origin)]) == each(CLOSED, (403, "browser"))
    assert control.calls == []


@pytest.mark.parametrize("site", ["cross-site", "same-site", "same-origin", "Cross-Site", "what", ""])
async def test_requests_with_sec_fetch_site_are_refused(tokenless: Client, control: FakeControl, site: str) -> None:
    assert await ask_each(tokenless, CLOSED, [("Sec-Fetch-Site", site)]) == each(CLOSED, (403, "browser"))
    assert control.calls == []


async def test_typed_addresses_pass_the_gate(tokenless: Client) -> None:
    assert await statuses(tokenless, CLOSED, [("Sec-Fetch-Site", "none")]) == passing(CLOSED)


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:9001",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "forebay.internal.evil.example",
        "forebay.internal@evil.example",
        "127.0.0.1, evil.example",
        "localhost.",
        "127.1",
        "0x7f.0.0.1",
        "2130706433",
        "::1",
        "[::1",
        "[::1].evil.example",
        "localhost:9001.evil.example",
        "[evil]",
        "",
    ],
)
async def test_unknown_host_names_are_refused(
    guarded: Client, tokenless: Client, control: FakeControl, host: str
) -> None:
    assert await ask_each(guarded, CLOSED, [BEARER, ("Host", host)]) == each(CLOSED, (403, "host"))
    assert await ask_each(tokenless, CLOSED, [("Host", host)]) == each(CLOSED, (403, "host"))
    assert control.calls == []


@pytest.mark.parametrize(
    "host",
    ["localhost", "LOCALHOST:9001", "127.0.0.1", "10.1.2.3:9001", "[::1]:9001", "[fd00::7]", "Forebay.Internal:1"],
)
async def test_known_hosts_pass_the_gate(guarded: Client, host: str) -> None:
    assert await statuses(guarded, CLOSED, [BEARER, ("Host", host)]) == passing(CLOSED)


@pytest.mark.parametrize(
    "content_type",
    ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "application/jsonx", ""],
)
async def test_form_content_types_are_refused(tokenless: Client, control: FakeControl, content_type: str) -> None:
    assert await ask_each(tokenless, WITH_EFFECT, [("Content-Type", content_type)]) == each(
        WITH_EFFECT, (415, "content_type")
    )
    assert control.calls == []


async def test_missing_content_type_is_refused(tokenless: Client, control: FakeControl) -> None:
    bare = [replace(row, content_type=None) for row in WITH_EFFECT]
    assert await ask_each(tokenless, bare, []) == each(WITH_EFFECT, (415, "content_type"))
    assert control.calls == []


async def test_wrong_content_type_is_refused(tokenless: Client) -> None:
    toml = [row for row in WITH_EFFECT if row.content_type == "application/toml"]
    others = [row for row in WITH_EFFECT if row not in toml]
    assert await ask_each(tokenless, toml, [("Content-Type", JSON)]) == each(toml, (415, "content_type"))
    assert await ask_each(tokenless, others, [("Content-Type", "application/toml")]) == each(
        others, (415, "content_type")
    )


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"])
@pytest.mark.parametrize(
    "path", ["/", "/v1", "/v1/stats/", "/%2Fhealthz", "/healthz/", "/v1/secret", "/healthz/../v1/x"]
)
async def test_paths_without_a_route_are_closed(guarded: Client, method: str, path: str) -> None:
    assert await ask(guarded, Row(method, path), []) == (401, "token")


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
async def test_gate_checks_content_type_of_any_path(tokenless: Client, method: str) -> None:
    """So a new route is guarded without a check of its own."""
    form = Row(method, "/v1/new", content_type="text/plain")
    assert await ask(tokenless, form, []) == (415, "content_type")


@pytest.mark.parametrize("path", sorted(OPEN_PATHS))
async def test_open_paths_are_closed_to_writes(guarded: Client, path: str) -> None:
    assert await ask(guarded, Row("POST", path), []) == (401, "token")


@pytest.mark.parametrize(
    ("peer", "local"),
    [
        (("127.0.0.1", 5), True),
        (("127.8.8.8", 5), True),
        (("::1", 5, 0, 0), True),
        (("::ffff:127.0.0.1", 5, 0, 0), True),
        ("", True),
        (("10.0.0.8", 5), False),
        (("::ffff:10.0.0.8", 5, 0, 0), False),
        (("fe80::1%eth0", 5, 0, 2), False),
        (None, False),
    ],
)
def test_tokenless_port_is_local_only(peer: object, local: bool) -> None:
    transport = Mock()
    transport.get_extra_info.side_effect = {"peername": peer}.get
    request = make_mocked_request("GET", "/v1/stats", headers={"Host": "localhost"}, transport=transport)
    refusal = AdminGate().check(request)
    assert (refusal is None) == local
    assert refusal is None or refusal.error == "not_local"


def test_token_opens_the_port_to_other_machines() -> None:
    transport = Mock()
    transport.get_extra_info.side_effect = {"peername": ("10.0.0.8", 5)}.get
    headers = {"Host": "10.0.0.7:9001", "Authorization": f"bearer {TOKEN}"}
    assert AdminGate(TOKEN).check(make_mocked_request("GET", "/v1/stats", headers=headers, transport=transport)) is None


@pytest.mark.parametrize("token", ["", "  "])
def test_empty_token_is_rejected(token: str) -> None:
    with pytest.raises(ValueError, match="empty"):
        AdminGate(token)


def test_the_token_is_not_in_the_repr() -> None:
    assert TOKEN not in repr(AdminGate(TOKEN))
