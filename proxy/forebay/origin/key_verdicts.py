"""Key verdicts: whether the origin refuses the key of a principal, found out by signed probes.

For responses to HEADs, which do not say whether the request is refused or its key. Forebay's own key has a state and is
probed regularly (forebay.origin.credential_check); keys of principals are judged here, when there is a doubt. Readers
that doubt a key at the same moment share one probe, and its verdict stands for DOUBT_INTERVAL.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple

from forebay.core.errors import OriginError
from forebay.core.task_registry import TaskRegistry
from forebay.origin.credential_refusal import CredentialRefusal
from forebay.origin.http.transport_errors import ConnectionFault
from forebay.protocol.signatures.signing_key import SecretKey

DOUBT_INTERVAL: Final = 1.0
"""Seconds between two probes of one key under suspicion."""
CAPACITY: Final = 1000
"""Keys whose latest verdict is known."""


class _Verdict(NamedTuple):
    began: float
    probe: asyncio.Task[CredentialRefusal | None]


class KeyVerdicts:
    """Owns the probes of principals' keys at one origin, in the tasks of its maker."""

    def __init__(
        self,
        send: Callable[[SecretKey], Awaitable[CredentialRefusal | None]],
        monotonic: Callable[[], float],
        tasks: TaskRegistry,
    ) -> None:
        """`send`: sends a probe, as for forebay.origin.credential_check."""
        self._send, self._monotonic, self._tasks = send, monotonic, tasks
        self._verdicts: OrderedDict[SecretKey, _Verdict] = OrderedDict()

    async def refusal_of(self, key: SecretKey) -> CredentialRefusal | None:
        """The refusal of the key, at most DOUBT_INTERVAL old; None: it is accepted, or nothing can be told."""
        now, verdict = self._monotonic(), self._verdicts.pop(key, None)
        if verdict is None or (verdict.probe.done() and now - verdict.began >= DOUBT_INTERVAL):
            verdict = _Verdict(now, self._tasks.spawn(self._judge(key), "origin key probe"))
        self._verdicts[key] = verdict
        if len(self._verdicts) > CAPACITY:
            self._verdicts.popitem(last=False)
        return await asyncio.shield(verdict.probe)

    async def _judge(self, key: SecretKey) -> CredentialRefusal | None:
        try:
            return await self._send(key)
        except (ConnectionFault, OriginError):
            return None
