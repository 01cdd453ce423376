"""Reachability: finds out by probes, never by requests of clients, whether the origin can be reached.

A probe is an unsigned HEAD of the endpoint; a response of any status will do. One runs at a time, bounded by the
connect timeout, once for the connection and once for the response. It is sent

- when `check` is called: regularly, for readiness (forebay.server.worker);
- at once when requests raise a suspicion, and then every cooldown until the origin responds (forebay.origin.breaker).
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from forebay.core.task_registry import TaskRegistry
from forebay.origin.breaker import Breaker, BreakerState
from forebay.origin.http.transport_errors import ConnectionFault

_log = logging.getLogger(__name__)

_TASK: Final = "origin probe"


class ReachabilityProbe:
    """Owns the probes of one origin, and their tasks until `close`."""

    def __init__(
        self,
        breaker: Breaker,
        send: Callable[[], Awaitable[None]],
        endpoint: str,
        cooldown: float,
        *,
        monotonic: Callable[[], float],
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        """`send`: sends one probe; raises ConnectionFault. `endpoint`: for the log. `cooldown`: seconds between two
        probes of a suspected origin."""
        self._breaker, self._send, self._endpoint, self._cooldown = breaker, send, endpoint, cooldown
        self._monotonic, self._sleep = monotonic, sleep
        self._tasks = TaskRegistry()
        self._probe: asyncio.Task[None] | None = None
        self._watch: asyncio.Task[None] | None = None
        self._logged: bool | None = None
        self._logged_since = 0.0

    async def check(self) -> bool:
        """Returns whether the origin can be reached, after a probe: one under way, or a new one."""
        if self._probe is None or self._probe.done():
            self._probe = self._tasks.spawn(self._send_probe(), _TASK)
        await asyncio.shield(self._probe)
        return self._breaker.reachable is True

    def watch(self) -> None:
        """Probes until the breaker is closed. Called when a request has failed."""
        if self._breaker.state is not BreakerState.CLOSED and (self._watch is None or self._watch.done()):
            self._watch = self._tasks.spawn(self._check_until_closed(), _TASK)

    async def close(self) -> None:
        """Cancels the probes."""
        await self._tasks.close()

    async def _check_until_closed(self) -> None:
        logged = False
        while True:
            await self.check()
            if self._breaker.state is BreakerState.CLOSED:
                return
            if self._breaker.state is BreakerState.OPEN and not logged:
                logged = True
                _log.warning("the breaker is open: until the origin responds, requests to it fail at once")
            await self._sleep(self._cooldown)

    async def _send_probe(self) -> None:
        answers = self._breaker.answers
        try:
            await self._send()
        except ConnectionFault as fault:
            self._breaker.probe_failed(fault.error.reason, answers, self._monotonic())
        else:
            self._breaker.succeeded()
        self._log_change()

    def _log_change(self) -> None:
        reachable, outage, before = self._breaker.reachable, self._breaker.outage, self._logged
        if reachable is before:
            return
        self._logged = reachable
        if outage is not None:
            self._logged_since = outage.since
            _log.warning("the origin %s can't be reached: %s", self._endpoint, outage.cause)
        elif before is None:
            _log.info("the origin %s answers", self._endpoint)
        else:
            _log.info(
                "the origin %s answers again, after %.0f s", self._endpoint, self._monotonic() - self._logged_since
            )
