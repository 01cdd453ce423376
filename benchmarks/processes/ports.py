"""Ports for servers that are stopped and started again.

Not such as the system hands out by itself: while a server is down its port could go to anybody, and whoever knocks at
it again and again would in the end be connected with himself (TCP's simultaneous open).
"""

import random
import socket
from typing import Final

_LOW: Final = 15_000
_HIGH: Final = 32_000
"""Below the system's own range, which begins at 32768: ip_local_port_range in ip(7)."""


def free_ports(count: int) -> list[int]:
    """Ports of loopback that nobody listens on."""
    free: list[int] = []
    for port in random.sample(range(_LOW, _HIGH), _HIGH - _LOW):
        if len(free) == count:
            break
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        free.append(port)
    return free
