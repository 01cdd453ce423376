"""The listener: takes requests from aiohttp, has the gateway answer them, and keeps the account of each."""

import asyncio
import time

from aiohttp import web

from forebay.shell.listener.adapter import RequestBody, StreamedReply
from forebay.shell.listener.connection import ConnectionLimits, ListenerServer
from forebay.shell.telemetry.accesslog import AccessLog
from forebay.shell.telemetry.metrics import Metrics
from forebay.story.account import Account
from forebay.story.exchange import Request
from forebay.story.gateway import Gateway, new_request_id
from forebay.words.errors import S3Error


class Listener:
    """The full lane. `access_log` None: no access log."""

    def __init__(
        self,
        gateway: Gateway,
        metrics: Metrics,
        access_log: AccessLog | None,
        limits: ConnectionLimits,
        *,
        most_requests: int,
        stall: float,
    ) -> None:
        """`most_requests` under way at once, beyond which clients are told to slow down; `stall`: seconds that a client
        may neither send nor take a byte."""
        self._gateway = gateway
        self._metrics = metrics
        self._access_log = access_log
        self._most_requests = most_requests
        self._stall = stall
        self._idle = asyncio.Event()
        self._idle.set()
        self.in_flight = 0
        self.draining = False
        self.server = ListenerServer(self._handle, limits, metrics.refused)

    @property
    def connections(self) -> int:
        return len(self.server.connections)

    async def drain(self, seconds: float, hurry: asyncio.Event) -> bool:
        """End idle connections and wait for the requests under way; whether all of them ended in time, and before
        `hurry` was set."""
        self.draining = True
        self.server.pre_shutdown()
        async with asyncio.TaskGroup() as group:
            waits = [group.create_task(self._idle.wait()), group.create_task(hurry.wait())]
            await asyncio.wait(waits, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            for wait in waits:
                wait.cancel()
        return self._idle.is_set()

    async def close(self) -> None:
        """Break what is left."""
        await self.server.shutdown(timeout=0)

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        account = Account(request.method, "full", time.monotonic(), new_request_id(), peer=request.remote or "unix")
        reply = StreamedReply(request, self._stall, account, lambda: self.draining)
        self.in_flight += 1
        self._idle.clear()
        try:
            await self._gateway_handle(request, reply, account)
        finally:
            self.in_flight -= 1
            if self.in_flight == 0:
                self._idle.set()
            account.ended = time.monotonic()
            self._metrics.finished(account)
            if self._access_log is not None:
                self._access_log.write(account)
        if reply.aborted:
            raise ConnectionResetError("aborted")
        return reply.response

    async def _gateway_handle(self, request: web.BaseRequest, reply: StreamedReply, account: Account) -> None:
        inbound = Request(
            method=request.method,
            raw_target=request.raw_path,
            host=request.headers.get("Host", ""),
            headers=request.headers,
            body=RequestBody(request, self._stall, account),
            has_body=request.body_exists,
            received_at=time.time(),
            peer=account.peer,
        )
        if self.in_flight > self._most_requests:
            await self._gateway.refuse(S3Error("SlowDown", "Too many requests at once."), inbound, reply, account)
        else:
            await self._gateway.handle(inbound, reply, account)
