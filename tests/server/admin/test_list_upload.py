"""POST /v1/lists: a list in pieces, and what is refused of it."""

import logging
from collections.abc import AsyncIterator

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, make_mocked_request
from pytest_aiohttp.plugin import AiohttpClient

from forebay.server.admin.admin_gate import LIST, AdminGate
from forebay.server.admin.admin_server import admin_application, error_middleware
from harness.admin_control import FakeControl

Client = TestClient[web.Request, web.Application]


@pytest.fixture
async def control() -> FakeControl:
    return FakeControl()


@pytest.fixture
async def client(aiohttp_client: AiohttpClient, control: FakeControl) -> Client:
    return await aiohttp_client(admin_application(control.verbs, AdminGate()))


async def send(client: Client, query: str, body: object, content_type: str = LIST) -> tuple[int, dict[str, object]]:
    async with client.post(f"/v1/lists{query}", data=body, headers={"Content-Type": content_type}) as answer:
        return answer.status, await answer.json()


async def test_a_long_list_comes_in_pieces(client: Client, control: FakeControl) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        for number in range(50_000):
            yield f"key/{number}\n".encode()

    assert await send(client, "?bucket=b", pieces()) == (201, {"id": "00", "objects": 50_000})
    assert [entry.key for entry in control.lists["00"]] == [f"key/{number}" for number in range(50_000)]


async def test_a_bad_line_is_refused_with_its_number(client: Client) -> None:
    body = b"a\n" * 40_000 + b"\xff\n" + b"a\n" * 400_000
    status, answer = await send(client, "?bucket=b", body)
    assert (status, answer) == (
        400,
        {"error": "bad_list", "message": "Line 40001: it is not UTF-8.", "line": 40_001},
    )
    assert (await send(client, "?bucket=b&format=csv", b'key\n"a'))[1]["line"] == 2
    status, answer = await send(client, "?bucket=b", b"\n")
    assert (status, answer["error"]) == (400, "bad_list")


@pytest.mark.parametrize(
    ("query", "body"),
    [
        ("?bucket=a/b", b"k\n"),
        ("?format=xml", b"k\n"),
        ("?columns=Key", b"k\n"),
        ("?format=s3-inventory&columns=Size", b"k\n"),
        ("?other=1", b"k\n"),
    ],
)
async def test_malformed_uploads_are_refused(client: Client, query: str, body: bytes) -> None:
    status, answer = await send(client, query, body)
    assert (status, answer["error"]) == (400, "bad_request")


async def test_a_client_that_leaves_is_no_failure(caplog: pytest.LogCaptureFixture) -> None:
    async def read_body(_request: web.Request) -> web.StreamResponse:
        raise ConnectionResetError("Connection lost")  # as aiohttp does

    left = make_mocked_request("POST", "/v1/lists")
    left.protocol.transport = None
    assert (await error_middleware(left, read_body)).status == 400
    assert [record for record in caplog.records if record.levelno > logging.INFO] == []
    stays = make_mocked_request("POST", "/v1/lists")
    assert (await error_middleware(stays, read_body)).status == 500, "it is of another connection"


async def test_another_content_type_is_refused(client: Client) -> None:
    assert (await send(client, "?bucket=b", b"k\n", "application/json"))[0] == 415


async def test_a_list_that_was_dropped_is_said(client: Client, control: FakeControl) -> None:
    order = {"lists": ["ff"]}
    async with client.post("/v1/jobs", json=order) as answer:
        assert (answer.status, (await answer.json())["error"]) == (404, "no_such_list")
