"""Permissions: what the origin itself has lately allowed a principal that has its own credential there.

A hit is bytes that somebody else's credential may have fetched. Forebay's grants say who may ask; where a principal has
its own origin credential, the origin has its say as well: a hit needs its positive answer to this principal about this
object, at most `authorization_ttl` old. The conditional request that checks freshness gives it; so does the answer that
told the head.

Only what was allowed is remembered. A refusal takes it away, and so does forgetting: what is not known is asked. So
does a write to the object (it may have come with another ACL, or be one), and another credential of the same principal.
"""

from collections import OrderedDict
from typing import Final, NamedTuple

from forebay.core.fences import Fences, Tick
from forebay.core.names import ObjectName
from forebay.origin.origin_identity import OriginIdentity

_CAPACITY: Final = 262_144


class _Permission(NamedTuple):
    """A positive answer: to whom, when it was asked for (seconds since the epoch), and after which fence."""

    identity: OriginIdentity
    requested_at: float
    since: Tick


class Permissions:
    """Which principal was last allowed to read what."""

    def __init__(self, ttl: float, fences: Fences, capacity: int = _CAPACITY) -> None:
        """`ttl`: seconds that a positive answer is good for; 0: each hit asks."""
        self.ttl = ttl
        self._fences = fences
        self._capacity = capacity
        self._permissions: OrderedDict[tuple[str, ObjectName], _Permission] = OrderedDict()

    def __len__(self) -> int:
        return len(self._permissions)

    def allow(self, identity: OriginIdentity, name: ObjectName, requested_at: float, since: Tick) -> None:
        """The origin answered `identity` about `name`, asked at `asked_at` and `since`, with the object or with 304."""
        key = (identity.id, name)
        self._permissions[key] = _Permission(identity, requested_at, since)
        self._permissions.move_to_end(key)
        if len(self._permissions) > self._capacity:
            self._permissions.popitem(last=False)

    def revoke(self, identity: OriginIdentity, name: ObjectName) -> None:
        """The origin answered `identity` about `name` with anything else."""
        self._permissions.pop((identity.id, name), None)

    def is_allowed(self, identity: OriginIdentity, name: ObjectName, now: float) -> bool:
        """Whether a hit may be given. A time to come (the clock was set back) proves nothing."""
        allowed = self._permissions.get((identity.id, name))
        if allowed is None or allowed.identity != identity:
            return False
        return 0.0 <= now - allowed.requested_at < self.ttl and self._fences.allows(name, allowed.since)
