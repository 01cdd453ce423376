"""The admin client against the real admin port, and against other servers."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from forebay.server.admin.admin_gate import AdminGate
from forebay_client.cli.admin_address import AdminAddress, parse_admin_address
from forebay_client.cli.admin_client import (
    AdminClient,
    AdminError,
    AdminRefused,
    AdminUnreachable,
    api_path,
)
from harness.admin_control import FakeControl
from harness.admin_port import admin_port


@contextmanager
def answering(raw: bytes | None) -> Iterator[AdminAddress]:
    """A listener that answers one connection with these bytes, or never."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        left = threading.Event()

        def answer() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(65536)
                if raw is None:
                    left.wait(30)
                else:
                    connection.sendall(raw)

        thread = threading.Thread(target=answer)
        thread.start()
        try:
            yield AdminAddress(*listener.getsockname())
        finally:
            left.set()
            thread.join()


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:9001", AdminAddress("127.0.0.1", 9001)),
        ("[::1]:9001", AdminAddress("::1", 9001)),
        ("forebay.internal:1", AdminAddress("forebay.internal", 1)),
    ],
)
def test_addresses(text: str, address: AdminAddress) -> None:
    assert parse_admin_address(text) == address
    assert str(address) == text
    assert parse_admin_address(f"http://{text}") == parse_admin_address(f"http://{text}/") == address


@pytest.mark.parametrize(
    "text",
    [
        "",
        "9001",
        ":9001",
        "h",
        "h:",
        "h:0",
        "h:65536",
        "h:x",
        "h:²",
        "::1:9001",
        "https://h:9001",
        "http://h:9001/v1",
        "h/x:1",
        "h h:1",
    ],
)
def test_malformed_addresses_are_rejected(text: str) -> None:
    with pytest.raises(ValueError, match=r"127\.0\.0\.1:9001"):
        parse_admin_address(text)


def test_names_in_paths_are_percent_encoded() -> None:
    assert api_path("jobs", "a/b?c") == "/v1/jobs/a%2Fb%3Fc"


def test_host_header_is_the_connected_address() -> None:
    with admin_port(FakeControl()) as address:
        port = parse_admin_address(address).port
        # The gate refuses every Host but an address, localhost and the configured names.
        assert AdminClient(AdminAddress("localhost", port), None).get(api_path("jobs"))["jobs"] == []


def test_the_token_is_sent() -> None:
    with admin_port(FakeControl(), AdminGate("hüsh")) as address:
        assert AdminClient(parse_admin_address(address), "hüsh").get(api_path("jobs"))["jobs"] == []
        with pytest.raises(AdminRefused, match="set FOREBAY_ADMIN_TOKEN"):
            AdminClient(parse_admin_address(address), None).get(api_path("jobs"))
        with pytest.raises(AdminRefused, match="does not accept the token"):
            AdminClient(parse_admin_address(address), "wrong").get(api_path("jobs"))


def test_a_refusal_carries_its_code() -> None:
    with admin_port(FakeControl()) as address, pytest.raises(AdminRefused) as refused:
        AdminClient(parse_admin_address(address), None).get(api_path("jobs", "j9"))
    assert (refused.value.status, refused.value.error) == (404, "no_such_job")


@pytest.mark.parametrize(
    "raw",
    [
        b"SSH-2.0-x\r\n",
        b"HTTP/1.1 400 Bad Request\r\nContent-Length: 7\r\n\r\n<Error>",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]",
        b"HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n\xff",
    ],
)
def test_a_foreign_server_is_recognised(raw: bytes) -> None:
    with answering(raw) as address, pytest.raises(AdminUnreachable, match="not the admin port of a Forebay"):
        AdminClient(address, None).get(api_path("stats"))


def test_closed_connections_are_reported() -> None:
    with answering(b"") as address, pytest.raises(AdminUnreachable, match="the connection was closed"):
        AdminClient(address, None).get(api_path("stats"))


def test_timeouts_are_reported() -> None:
    with answering(None) as address, pytest.raises(AdminUnreachable, match="did not answer within"):
        AdminClient(address, None, timeout=0.05).get(api_path("stats"))


def test_refused_connections_are_reported() -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        with pytest.raises(AdminError, match="Nothing listens at"):
            AdminClient(AdminAddress(*bound.getsockname()), None).get(api_path("stats"))


@pytest.mark.parametrize("host", ["no-such-host.invalid", "x" * 64])
def test_unknown_hosts_are_reported(host: str) -> None:
    with pytest.raises(AdminUnreachable, match="is not known"):
        AdminClient(AdminAddress(host, 9001), None).get(api_path("stats"))
