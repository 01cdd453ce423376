"""Notifications of systemd about a service of `Type=notify`: it serves, it ends. Without systemd there are none.

A datagram to the socket that $NOTIFY_SOCKET names, `@` for the abstract namespace.
https://www.freedesktop.org/software/systemd/man/latest/sd_notify.html
"""

import logging
import socket
from collections.abc import Mapping
from typing import Final

_log: Final = logging.getLogger(__name__)

READY: Final = "READY=1"
STOPPING: Final = "STOPPING=1"


def notify_service_manager(state: str, environ: Mapping[str, str]) -> None:
    """Sends a state to the service manager, if there is one. A failure is logged, and changes nothing else."""
    address = environ.get("NOTIFY_SOCKET", "")
    if not address.startswith(("/", "@")):
        return
    if address.startswith("@"):
        address = "\0" + address[1:]
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as notifying:
            notifying.connect(address)
            notifying.send(state.encode())
    except OSError as error:
        _log.warning("the service manager can't be notified of %s: %s", state, error)
