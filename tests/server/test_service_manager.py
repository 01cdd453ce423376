"""Notifications of systemd, received by a socket of the test's."""

import socket
from pathlib import Path

import pytest

from forebay.server.service_manager import READY, STOPPING, notify_service_manager


def test_a_state_is_sent_to_the_socket_that_is_named(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        notify_service_manager(READY, {"NOTIFY_SOCKET": str(tmp_path / "notify")})
        assert manager.recv(100) == b"READY=1"


def test_the_abstract_namespace_is_written_with_an_at_sign(tmp_path: Path) -> None:
    name = f"forebay-test-{tmp_path.name}-{id(tmp_path)}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(f"\0{name}")
        notify_service_manager(STOPPING, {"NOTIFY_SOCKET": f"@{name}"})
        assert manager.recv(100) == b"STOPPING=1"


def test_nothing_is_sent_without_a_service_manager(caplog: pytest.LogCaptureFixture) -> None:
    notify_service_manager(READY, {})
    notify_service_manager(READY, {"NOTIFY_SOCKET": "relative"})
    assert caplog.messages == []


def test_a_manager_that_is_gone_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    notify_service_manager(READY, {"NOTIFY_SOCKET": str(tmp_path / "gone")})
    assert "can't be notified of READY=1" in caplog.text
