"""Which socket a client believes."""

import os
import socket
from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import pytest

from forebay.protocol.channel_frames import SWITCHED, UPGRADE
from forebay_client.client_settings import ClientSettings, resolve_settings
from forebay_client.shared_memory.socket_hint import (
    ASKED_AGAIN,
    FoundSocket,
    HintedSocket,
    SocketHint,
    UnusableSocket,
    is_loopback,
    is_of_endpoint,
    listening_users,
)


def settings_of(endpoint: str, path: str | None) -> ClientSettings:
    return resolve_settings(
        endpoint=endpoint,
        access_key="a",
        secret_key="b",
        session_token=None,
        region="r",
        profile=None,
        dialect="s3",
        addressing="path",
        socket=path,
        connections=1,
        timeout=5.0,
        retries=0,
        environ={},
    )


class Endpoint:
    """An endpoint that hints at a path, and counts how often it was asked."""

    def __init__(self, path: str | None) -> None:
        self.path, self.questions = path, 0
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}"
        self._thread = Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            with connection:
                assert connection.recv(4096).startswith(b"OPTIONS /.forebay/channel HTTP/1.1\r\n")
                self.questions += 1
                hint = f"x-forebay-socket: {self.path}\r\n" if self.path is not None else ""
                connection.sendall(f"HTTP/1.1 204 No Content\r\n{hint}\r\n".encode())

    def close(self) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self._thread.join()


@pytest.fixture
def forebay(tmp_path: Path) -> Iterator[str]:
    """The path of a socket whose listener switches to channels."""
    path = str(tmp_path / "forebay.sock")
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(path)
    listening.listen()

    def serve() -> None:
        while True:
            try:
                connection, _ = listening.accept()
            except OSError:
                return
            with connection:
                if connection.recv(len(UPGRADE)) == UPGRADE:
                    connection.sendall(SWITCHED)
                    connection.recv(1)

    thread = Thread(target=serve, daemon=True)
    thread.start()
    yield path
    listening.shutdown(socket.SHUT_RDWR)
    listening.close()
    thread.join()


def test_a_hint_of_the_endpoint_is_followed_and_asked_for_once(forebay: str) -> None:
    endpoint = Endpoint(forebay)
    hint = SocketHint(settings_of(endpoint.url, None))
    found = HintedSocket(forebay, hint._server.port)  # noqa: SLF001 # the endpoint's
    assert [hint(), hint()] == [found, found]
    assert endpoint.questions == 1
    endpoint.close()


@pytest.mark.parametrize(
    ("path", "found"),
    [
        (None, None),
        ("relative", None),
        ("/nonexistent/forebay.sock", UnusableSocket("unreachable")),
        ("/" + "long" * 40, UnusableSocket("unreachable")),
    ],
)
def test_no_hint_or_a_useless_one_is_asked_for_again_later(path: str | None, found: FoundSocket) -> None:
    endpoint, now = Endpoint(path), [0.0]
    hint = SocketHint(settings_of(endpoint.url, None), lambda: now[0])
    assert [hint(), hint()] == [found, found]
    assert endpoint.questions == 1
    now[0] = ASKED_AGAIN
    assert hint() == found
    assert endpoint.questions == 2
    endpoint.close()


def test_a_socket_that_appears_later_is_found(forebay: str, tmp_path: Path) -> None:
    endpoint, now = Endpoint(str(tmp_path / "later")), [0.0]
    hint = SocketHint(settings_of(endpoint.url, None), lambda: now[0])
    assert hint() == UnusableSocket("unreachable")
    endpoint.path, now[0] = forebay, ASKED_AGAIN
    found = HintedSocket(forebay, hint._server.port)  # noqa: SLF001 # the endpoint's
    assert [hint(), hint()] == [found, found]
    endpoint.close()


@pytest.mark.parametrize(
    ("listener", "own", "at_the_port", "expected"),
    [(0, 1000, [], True), (1000, 1000, [], True), (2000, 1000, [3000, 2000], True), (2000, 1000, [3000], False)],
    ids=["root", "this user", "the endpoint's user", "another user"],
)
def test_a_socket_of_another_user_is_not_believed(
    listener: int, own: int, at_the_port: list[int], expected: bool
) -> None:
    assert is_of_endpoint(listener, own, at_the_port) is expected


@pytest.mark.parametrize(
    ("endpoint", "path", "expected"),
    [
        ("http://127.0.0.1:1", "/configured", "/configured"),
        ("http://192.0.2.1:1", "/configured", "/configured"),
        ("http://127.0.0.1:1", "", None),
        ("http://192.0.2.1:9", None, None),
        ("https://127.0.0.1:9", None, None),
        ("http://s3.example.com", None, None),
    ],
)
def test_what_is_configured_counts_and_nobody_remote_is_asked(
    endpoint: str, path: str | None, expected: str | None
) -> None:
    assert SocketHint(settings_of(endpoint, path))() == expected


def test_loopback_is_known_without_a_resolver() -> None:
    assert [is_loopback(host) for host in ("127.0.0.1", "127.8.8.8", "::1", "localhost")] == [True] * 4
    assert [is_loopback(host) for host in ("10.0.0.1", "example.com", "::2", "")] == [False] * 4


def test_the_kernel_says_who_listens_at_a_port() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        assert set(listening_users(port)) == {os.geteuid()}
    assert list(listening_users(port, (Path("/nonexistent"),))) == []
