"""Ports of loopback for servers that are stopped and started again.

They lie below the range from which the system hands ports out (ip_local_port_range in ip(7)): from that range, any
listener or connection could get the port of a server while it is down. A client that knocks at such a port again and
again would in the end be connected with itself (TCP's simultaneous open).
"""

import random
import socket
from itertools import islice
from typing import Final

PORTS: Final = range(15_000, 32_000)
"""The system's range begins at 32768, where nobody has changed it."""

_RANDOM: Final = random.SystemRandom()
"""A seed that others set would have processes beside each other choose the same ports."""


def free_ports(count: int, among: range = PORTS) -> list[int]:
    """Ports that nobody listens on. Another process may still bind one before its use."""
    first = _RANDOM.randrange(len(among))
    return list(islice(filter(_is_free, (*among[first:], *among[:first])), count))


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
