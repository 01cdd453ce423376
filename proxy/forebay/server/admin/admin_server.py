"""The admin port, served: by the only worker, or by the supervisor of several."""

import socket
from typing import Final

from aiohttp import web

from forebay.server.admin.admin_gate import AdminGate
from forebay.server.admin.admin_schema import Control
from forebay.server.admin.routes import admin_application
from forebay.settings.model import ServerSettings

ADMIN_GRACE: Final = 2.0
"""Seconds that requests of the admin port may take to end after a stop was asked for: they are small."""


async def serve_admin(server: ServerSettings, control: Control, admin: socket.socket) -> web.AppRunner:
    """The admin port of a node, on the socket `admin`."""
    hosts = frozenset({server.admin.host}) if server.admin is not None else frozenset[str]()
    gate = AdminGate(server.admin_token.reveal() if server.admin_token is not None else None, hosts)
    runner = web.AppRunner(
        admin_application(control, gate), access_log=None, handle_signals=False, shutdown_timeout=ADMIN_GRACE
    )
    await runner.setup()
    await web.SockSite(runner, admin).start()
    return runner
