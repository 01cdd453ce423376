"""The admin client against the real admin port, and against what is none."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from forebay.server.admin.admin_gate import Gate
from forebay_client.admin import Address, Admin, AdminError, Refused, Unreachable, parse_address, path
from harness.admin_control import FakeControl
from harness.admin_port import admin_port


@contextmanager
def answering(raw: bytes | None) -> Iterator[Address]:
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
            yield Address(*listener.getsockname())
        finally:
            left.set()
            thread.join()


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:9001", Address("127.0.0.1", 9001)),
        ("[::1]:9001", Address("::1", 9001)),
        ("forebay.internal:1", Address("forebay.internal", 1)),
    ],
)
def test_addresses(text: str, address: Address) -> None:
    assert parse_address(text) == address
    assert str(address) == text


@pytest.mark.parametrize(
    "text",
    ["", "9001", ":9001", "h", "h:", "h:0", "h:65536", "h:x", "h:²", "::1:9001", "http://h:9001", "h/x:1", "h h:1"],
)
def test_what_is_no_address(text: str) -> None:
    with pytest.raises(ValueError, match=r"127\.0\.0\.1:9001"):
        parse_address(text)


def test_names_in_paths_are_encoded() -> None:
    assert path("jobs", "a/b?c") == "/v1/jobs/a%2Fb%3Fc"


def test_a_name_of_the_host_is_not_what_forebay_is_told() -> None:
    with admin_port(FakeControl()) as address:
        port = parse_address(address).port
        # The gate would refuse any Host but an address, localhost and what it was configured with.
        assert Admin(Address("localhost", port), None).get(path("jobs"))["jobs"] == []


def test_the_token_is_sent() -> None:
    with admin_port(FakeControl(), Gate("hüsh")) as address:
        assert Admin(parse_address(address), "hüsh").get(path("jobs"))["jobs"] == []
        with pytest.raises(Refused, match="set FOREBAY_ADMIN_TOKEN"):
            Admin(parse_address(address), None).get(path("jobs"))
        with pytest.raises(Refused, match="does not accept the token"):
            Admin(parse_address(address), "wrong").get(path("jobs"))


def test_a_refusal_carries_its_code() -> None:
    with admin_port(FakeControl()) as address, pytest.raises(Refused) as refused:
        Admin(parse_address(address), None).get(path("jobs", "j9"))
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
def test_what_is_not_forebay(raw: bytes) -> None:
    with answering(raw) as address, pytest.raises(Unreachable, match="not the admin port of a Forebay"):
        Admin(address, None).get(path("stats"))


def test_a_connection_that_is_closed() -> None:
    with answering(b"") as address, pytest.raises(Unreachable, match="the connection was closed"):
        Admin(address, None).get(path("stats"))


def test_nobody_answers_in_time() -> None:
    with answering(None) as address, pytest.raises(Unreachable, match="did not answer within"):
        Admin(address, None, timeout=0.05).get(path("stats"))


def test_nobody_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = Address(*listener.getsockname())
    with pytest.raises(AdminError, match="Nothing listens at"):
        Admin(address, None).get(path("stats"))


@pytest.mark.parametrize("host", ["no-such-host.invalid", "x" * 64])
def test_a_host_that_is_not_known(host: str) -> None:
    with pytest.raises(Unreachable, match="is not known"):
        Admin(Address(host, 9001), None).get(path("stats"))
