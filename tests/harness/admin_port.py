"""The real admin application on a real socket, in a thread of its own, for clients that block."""

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager

from aiohttp import web

from forebay.server.admin.admin_gate import AdminGate
from forebay.server.admin.admin_server import admin_application
from harness.admin_control import FakeControl
from harness.scripted_origin import abort_all, close_listener


@contextmanager
def admin_port(control: FakeControl, gate: AdminGate | None = None, port: int = 0) -> Iterator[str]:
    """Serves `control`; gives `host:port`. `port`: 0 for one of the system's choice."""
    address: Future[str] = Future()
    loop = asyncio.new_event_loop()
    stop = asyncio.Event()

    async def serve() -> None:
        runner = web.AppRunner(admin_application(control.verbs, gate or AdminGate()), access_log=None)
        transports: list[asyncio.Transport | None] = []
        try:
            await runner.setup()
            assert runner.server is not None
            listener = await loop.create_server(runner.server, "127.0.0.1", port)
            host, bound = listener.sockets[0].getsockname()
            address.set_result(f"{host}:{bound}")
            await stop.wait()
            await close_listener(listener)
            transports += [connection.transport for connection in runner.server.connections]
        except BaseException as error:
            if not address.done():
                address.set_exception(error)
            raise
        finally:
            await runner.cleanup()
            await abort_all(transports)

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),), daemon=True)
    thread.start()
    try:
        yield address.result(timeout=30)
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(timeout=30)
        loop.close()
