"""The real admin application on a real socket, in a thread of its own, for clients that block."""

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager

from aiohttp import web

from forebay.server.admin.admin_gate import AdminGate
from forebay.server.admin.admin_server import admin_application
from forebay.server.admin.control import Control


@contextmanager
def admin_port(control: Control, gate: AdminGate | None = None, port: int = 0) -> Iterator[str]:
    """Serves `control`; gives `host:port`. `port`: 0 for one of the system's choice."""
    address: Future[str] = Future()
    loop = asyncio.new_event_loop()
    stop = asyncio.Event()

    async def serve() -> None:
        runner = web.AppRunner(admin_application(control, gate or AdminGate()), access_log=None)
        try:
            await runner.setup()
            await web.TCPSite(runner, "127.0.0.1", port).start()
            host, bound = runner.addresses[0][:2]
            address.set_result(f"{host}:{bound}")
            await stop.wait()
        except BaseException as error:
            if not address.done():
                address.set_exception(error)
            raise
        finally:
            await runner.cleanup()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),), daemon=True)
    thread.start()
    try:
        yield address.result(timeout=30)
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(timeout=30)
        loop.close()
