"""Ports that a server finds again: outside of the system's own range, and without a listener."""

import socket
from pathlib import Path

from forebay_demo.free_ports import free_ports


def test_the_system_hands_none_of_the_ports_out() -> None:
    low, high = map(int, Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split())
    ports = free_ports(100)
    assert len(set(ports)) == 100
    assert not set(ports) & set(range(low, high + 1))


def test_a_port_with_a_listener_is_not_free() -> None:
    [port] = free_ports(1)
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", port))
        listening.listen()
        assert free_ports(2, range(port, port + 1)) == []
