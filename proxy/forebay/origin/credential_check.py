"""The credential check: finds out by signed probes whether the origin accepts Forebay's own credential.

The probe is a signed ListBuckets. Any response but the refusal of a credential (forebay.origin.credential_refusal)
means that the key is accepted: most keys may not list buckets, and need not. A probe is sent

- when `check_if_due` is called (forebay.server.origin_watch): at the start, every minute, and every ten seconds while
  the key is refused or missing;
- when the origin refuses a request that was signed with the key, or a HEAD without a reason: at most every second,
  whatever was accepted meanwhile, since a token expires between two requests.

As with the breaker, refusals of requests raise a suspicion and the probe is the judge: a client could provoke one by a
bucket of another region. A success of any request signed with the key proves that it is accepted.

A refusal of a principal's key concerns its own requests alone: it is logged, and nothing else. Such a key is probed
only if a HEAD was refused without a reason (forebay.origin.key_verdicts).
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from forebay.core.errors import OriginCredentialFault, OriginError
from forebay.core.events import DEFAULT_ORIGIN, CredentialState, origin_suffix
from forebay.core.task_registry import TaskRegistry
from forebay.origin.credential_refusal import CredentialRefusal, refused_credential
from forebay.origin.credentials import Credentials
from forebay.origin.http.transport_errors import ConnectionFault
from forebay.origin.key_verdicts import DOUBT_INTERVAL, KeyVerdicts
from forebay.protocol.signatures.signing_key import SecretKey

_log = logging.getLogger(__name__)

CHECK_INTERVAL: Final = 60.0
"""Seconds between two probes of an accepted key."""
RETRY_INTERVAL: Final = 10.0
"""Seconds between two probes of a key that is refused or missing."""
_LOG_INTERVAL: Final = 300.0
"""Seconds between two lines of the log about the same refusal."""
_MAX_LOGGED: Final = 1000


class CredentialCheck:
    """Owns the signed probes of one origin, and their tasks until `close`."""

    def __init__(
        self,
        credentials: Credentials,
        send: Callable[[SecretKey], Awaitable[CredentialRefusal | None]],
        region: str,
        *,
        clock: Callable[[], float],
        monotonic: Callable[[], float],
        origin: str = DEFAULT_ORIGIN,
    ) -> None:
        """`send`: sends a probe signed with the key; returns its refusal, or raises ConnectionFault or OriginError when
        the response says nothing of the key. `clock`: seconds since the epoch. `origin`: its name."""
        self._of = origin_suffix(origin)
        self.credentials = credentials
        self._send, self._region, self._clock, self._monotonic = send, region, clock, monotonic
        self._tasks = TaskRegistry()
        self._verdicts = KeyVerdicts(send, monotonic, self._tasks)
        self._probe: asyncio.Task[None] | None = None
        self._last_news = self._last_verdict = float("-inf")
        """Times of the latest news, by a probe or a request, and of the latest verdict of a probe alone."""
        self._logged: dict[tuple[str, str], float] = {}
        self.state: CredentialState = "unknown"
        self.fault: OriginCredentialFault | None = None
        """While the state is refused or missing."""
        self._is_faulty = False
        """Whether the log has a fault last, also of the credentials before."""
        self.access_key: str | None = None
        """The key of the latest probe."""

    async def check(self) -> CredentialState:
        """The state after a probe: one under way, or a new one."""
        if self._probe is None or self._probe.done():
            self._probe = self._tasks.spawn(self._send_probe(), "origin credential probe")
        await asyncio.shield(self._probe)
        return self.state

    async def check_if_due(self) -> CredentialState:
        """The state, after a probe if the last news of the key is too old."""
        interval = CHECK_INTERVAL if self.state in {"accepted", "anonymous"} else RETRY_INTERVAL
        if self._monotonic() - self._last_news >= interval:
            await self.check()
        return self.state

    async def check_if_doubtful(self, principal_key: SecretKey | None = None) -> OriginCredentialFault | None:
        """The fault of a principal's key (None: Forebay's own), after a probe if one is due. For a response to a HEAD,
        which doesn't say why it was refused."""
        if principal_key is not None:
            refusal = await self._verdicts.refusal_of(principal_key)
            return self.refused(refusal, principal_key, own=False) if refusal is not None else None
        if self._is_doubt_due():
            await self.check()
        return self.fault

    def succeeded(self, now: float) -> None:
        """A request signed with the key was answered by a success. `now`: on the monotonic clock."""
        self._last_news = now
        if self.state not in {"accepted", "anonymous"}:
            self._accept()

    def refused(self, refusal: CredentialRefusal, key: SecretKey | None, *, own: bool) -> OriginCredentialFault:
        """The fault of a request whose credential was refused. `own`: the key is Forebay's, which is checked then."""
        fault = self._fault(refusal, key, own=own)
        self._log_fault(refusal.code, key, fault)
        if own and self.state != "refused" and self._is_doubt_due():
            self._tasks.spawn(self.check(), "origin credential check")
        return fault

    def use(self, credentials: Credentials) -> None:
        """Checks these credentials from now on."""
        self.credentials = credentials
        self.state, self.fault, self._last_news, self._last_verdict = "unknown", None, float("-inf"), float("-inf")

    async def close(self) -> None:
        """Cancels the probes."""
        await self._tasks.close()

    def _is_doubt_due(self) -> bool:
        """Whether a refusal is to be judged by a probe."""
        interval = DOUBT_INTERVAL if self.fault is None else RETRY_INTERVAL
        return self._monotonic() - self._last_verdict >= interval

    async def _send_probe(self) -> None:
        credentials = self.credentials
        try:
            key = await credentials.current()
            self.access_key = key.access_key if key is not None else None
            refusal = await self._send(key) if key is not None else None
        except OriginCredentialFault as missing:
            if credentials is self.credentials:
                self._last_news = self._last_verdict = self._monotonic()
                if self.state != "missing":
                    _log.warning("%s%s", missing.reason, self._of)
                self.state, self.fault, self._is_faulty = "missing", missing, True
            return
        except (ConnectionFault, OriginError):
            return
        if credentials is not self.credentials:
            return
        self._last_news = self._last_verdict = self._monotonic()
        if key is None:
            self.state, self.fault = "anonymous", None
        elif refusal is None:
            self._accept()
        else:
            self.state, self.fault, self._is_faulty = "refused", self._fault(refusal, key, own=True), True
            self._log_fault(refusal.code, key, self.fault)
            credentials.renew()

    def _accept(self) -> None:
        if self._is_faulty:
            self._is_faulty = False
            _log.info("the origin accepts Forebay's key %s%s", self.access_key or "again", self._of)
            self._logged.clear()
        self.state, self.fault = "accepted", None

    def _fault(self, refusal: CredentialRefusal, key: SecretKey | None, *, own: bool) -> OriginCredentialFault:
        why = refusal.explain(self._region, self._clock())
        return refused_credential(refusal, key.access_key if key is not None else "", why, own=own)

    def _log_fault(self, code: str, key: SecretKey | None, fault: OriginCredentialFault) -> None:
        now, about = self._monotonic(), (key.access_key if key is not None else "", code)
        if now - self._logged.get(about, float("-inf")) < _LOG_INTERVAL:
            return
        if len(self._logged) >= _MAX_LOGGED:
            self._logged.clear()
        self._logged[about] = now
        _log.warning("%s%s", fault.reason, self._of)
