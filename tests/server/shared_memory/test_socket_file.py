"""The Unix socket's file: its mode, what it replaces, what it leaves alone."""

import os
import socket
import stat
from contextlib import ExitStack, closing, suppress
from dataclasses import replace
from pathlib import Path

import pytest

from forebay.core.errors import AddressUnavailable
from forebay.server.shared_memory.socket_file import MAX_PATH, _bind, listen_on_socket
from forebay.settings.loader import load_settings
from forebay.settings.model import ServerSettings


@pytest.fixture
def server(tmp_path: Path) -> ServerSettings:
    settings = load_settings(
        None, {"FOREBAY_ORIGIN__ENDPOINT": "http://127.0.0.1:1", "FOREBAY_AUTH__MODE": "open"}, {}, str
    ).settings
    return replace(settings.server, socket=str(tmp_path / "forebay.sock"))


def test_the_file_has_the_mode_that_was_set(server: ServerSettings) -> None:
    before = os.umask(0o026)
    try:
        made = listen_on_socket(replace(server, socket_mode="0606"))
    finally:
        after = os.umask(before)
    assert made is not None
    assert after == 0o026, "of the process, as it was"
    with closing(made):
        assert stat.S_IMODE(Path(made.path).stat().st_mode) == 0o606
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(made.path)
    assert not os.path.lexists(made.path)


def test_the_file_has_the_group_that_was_set(server: ServerSettings) -> None:
    made = listen_on_socket(replace(server, socket_group=str(os.getgid())))
    assert made is not None
    with closing(made):
        assert Path(made.path).stat().st_gid == os.getgid()
    with pytest.raises(AddressUnavailable, match="no such group"):
        listen_on_socket(replace(server, socket_group="no-such-group"))
    assert not list(Path(made.path).parent.iterdir())


def test_without_the_setting_there_is_no_socket(server: ServerSettings) -> None:
    assert listen_on_socket(replace(server, socket=None)) is None


def test_a_socket_that_is_served_is_not_replaced(server: ServerSettings) -> None:
    made = listen_on_socket(server)
    assert made is not None
    with closing(made), pytest.raises(AddressUnavailable, match="another program uses it"):
        listen_on_socket(server)


def test_a_socket_whose_queue_is_full_is_not_waited_for(server: ServerSettings) -> None:
    """The program behind it may hang."""
    with ExitStack() as stack:
        served = stack.enter_context(socket.socket(socket.AF_UNIX))
        served.bind(server.socket or "")
        served.listen(0)
        with suppress(BlockingIOError):
            while True:
                waiting = stack.enter_context(socket.socket(socket.AF_UNIX))
                waiting.setblocking(False)
                waiting.connect(server.socket or "")
        with pytest.raises(AddressUnavailable, match="temporarily unavailable"):
            listen_on_socket(server)


def test_what_a_killed_process_has_left_is_replaced(server: ServerSettings) -> None:
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(server.socket or "")
    made = listen_on_socket(server)
    assert made is not None
    made.close()


def test_a_file_that_is_no_socket_is_left_alone(server: ServerSettings) -> None:
    Path(server.socket or "").write_text("precious")
    with pytest.raises(AddressUnavailable, match="no socket"):
        listen_on_socket(server)
    assert Path(server.socket or "").read_text() == "precious"


def test_the_file_of_a_successor_stays(server: ServerSettings) -> None:
    first = listen_on_socket(server)
    assert first is not None
    Path(first.path).unlink()
    second = listen_on_socket(server)
    assert second is not None
    first.close()
    assert Path(second.path).is_socket()
    second.close()


def test_a_path_too_long_for_a_socket_says_so(server: ServerSettings) -> None:
    with pytest.raises(AddressUnavailable, match="has at most 107 bytes"):
        listen_on_socket(replace(server, socket=f"/tmp/{'x' * 110}"))


def test_the_longest_path_is_listened_on(server: ServerSettings, tmp_path: Path) -> None:
    path = str(tmp_path / ("x" * (MAX_PATH - len(str(tmp_path)) - 1)))
    made = listen_on_socket(replace(server, socket=path))
    assert made is not None
    assert len(made.path) == MAX_PATH
    made.close()


def test_nobody_may_connect_before_the_socket_has_its_mode(tmp_path: Path) -> None:
    modes: list[int] = []
    path = str(tmp_path / "forebay.sock")

    class Watched(socket.socket):
        def listen(self, backlog: int = 1, /) -> None:
            modes.append(stat.S_IMODE(Path(path).stat().st_mode))
            super().listen(backlog)

    with Watched(socket.AF_UNIX, socket.SOCK_STREAM) as listening:
        _bind(listening, path, 0o660, None)
        assert (modes, stat.S_IMODE(Path(path).stat().st_mode)) == ([0], 0o660)
