"""Permissions: the origin's recent permissions to read an object, for principals with their own credential.

A hit serves bytes that another credential may have fetched. Forebay's grants decide whether a principal may read. Where
a principal has its own origin credential, the origin decides as well: a hit needs its positive response to this
principal about this object, at most `authorization_ttl` old. The conditional request that checks freshness gives it; so
does the response that brought the head.

Only positive responses are kept. A refusal removes one, and so does eviction: then the origin decides again. A write to
the object removes it too (it may have come with another ACL, or be one), as does another credential of the same
principal.
"""

from collections import OrderedDict
from typing import Final, NamedTuple

from forebay.core.fences import Fences, Tick
from forebay.core.names import ObjectName
from forebay.origin.origin_identity import OriginIdentity

_CAPACITY: Final = 262_144


class _Permission(NamedTuple):
    """A positive response: to which identity, the time of its request (seconds since the epoch), and its fence tick."""

    identity: OriginIdentity
    requested_at: float
    since: Tick


class Permissions:
    """The permissions of all principals, the oldest evicted first."""

    def __init__(self, ttl: float, fences: Fences, capacity: int = _CAPACITY) -> None:
        """`ttl`: seconds for which a positive response counts; 0: each hit sends a request."""
        self.ttl = ttl
        self._fences = fences
        self._capacity = capacity
        self._permissions: OrderedDict[tuple[str, ObjectName], _Permission] = OrderedDict()

    def __len__(self) -> int:
        return len(self._permissions)

    def allow(self, identity: OriginIdentity, name: ObjectName, requested_at: float, since: Tick) -> None:
        """Adds a positive response (the object, or 304) to a request that was sent at `requested_at` and `since`."""
        key = (identity.id, name)
        self._permissions[key] = _Permission(identity, requested_at, since)
        self._permissions.move_to_end(key)
        if len(self._permissions) > self._capacity:
            self._permissions.popitem(last=False)

    def revoke(self, identity: OriginIdentity, name: ObjectName) -> None:
        """Removes the permission, after any other response."""
        self._permissions.pop((identity.id, name), None)

    def clear(self) -> None:
        """Removes all permissions."""
        self._permissions.clear()

    def is_allowed(self, identity: OriginIdentity, name: ObjectName, now: float) -> bool:
        """Whether a hit may be served. A time in the future (the clock was set back) proves nothing."""
        permission = self._permissions.get((identity.id, name))
        if permission is None or permission.identity != identity:
            return False
        return 0.0 <= now - permission.requested_at < self.ttl and self._fences.allows(name, permission.since)
