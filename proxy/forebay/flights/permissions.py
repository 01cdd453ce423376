"""Permissions: what the origin itself has lately allowed a principal that has its own credential there.

A hit is bytes that somebody else's credential may have fetched. Forebay's grants say who may ask; where a principal has
its own origin credential, the origin has its say as well: a hit needs its positive answer to this principal about this
object, at most `authorization_ttl` old. The conditional request that checks freshness gives it; so does any answer that
was fetched with the principal's credential.

Only what was allowed is remembered. A refusal takes it away, and so does forgetting: what is not known is asked.
"""

from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

from forebay.protocol.secretkey import SecretKey
from forebay.stores.origin.credentials import Credentials
from forebay.words.names import ObjectName

_REMEMBERED: Final = 262_144


@dataclass(frozen=True, slots=True)
class Asker:
    """A principal that asks the origin in its own name. Everywhere else None stands for Forebay itself."""

    id: str
    credentials: Credentials


async def key_of(asker: Asker | None) -> SecretKey | None:
    """What its requests are signed with; None: Forebay's own. Raises OriginUnreachable when it can't be had."""
    return await asker.credentials.current() if asker is not None else None


class Permissions:
    """Which asker was last allowed to read what, and when it was asked (seconds since the epoch)."""

    def __init__(self, ttl: float, remembered: int = _REMEMBERED) -> None:
        """`ttl`: seconds that a positive answer is good for; 0: each hit asks."""
        self.ttl = ttl
        self._remembered = remembered
        self._allowed: OrderedDict[tuple[str, ObjectName], float] = OrderedDict()

    def __len__(self) -> int:
        return len(self._allowed)

    def allowed(self, asker: str, name: ObjectName, asked_at: float) -> None:
        """The origin answered `asker` about `name`, asked at `asked_at`, with the object or with 304."""
        key = (asker, name)
        self._allowed[key] = max(asked_at, self._allowed.get(key, asked_at))
        self._allowed.move_to_end(key)
        if len(self._allowed) > self._remembered:
            self._allowed.popitem(last=False)

    def refused(self, asker: str, name: ObjectName) -> None:
        """The origin answered `asker` about `name` with anything else."""
        self._allowed.pop((asker, name), None)

    def holds(self, asker: str, name: ObjectName, now: float) -> bool:
        """Whether a hit may be given. A time to come (the clock was set back) proves nothing."""
        asked_at = self._allowed.get((asker, name))
        return asked_at is not None and 0.0 <= now - asked_at < self.ttl
