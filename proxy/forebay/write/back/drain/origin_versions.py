"""Origin versions: the known version of an object at the origin, by which a write around Forebay is detected.

    accepted   the record names what readers here saw then: an ETag, that there was no object, or nothing was known
    sent       the origin has that, or a version that this node has made since, or may have made as no answer said
               otherwise: the write is carried out
               it has another one: somebody else wrote it meanwhile, a conflict

`seen` knows what needs no request: the pending write of the object, else a head that is fresh under its rule.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from forebay.core.names import ObjectName
from forebay.metadata.object_heads import ObjectHeads
from forebay.policy.rules import Rules
from forebay.protocol.conditions import same_etag
from forebay.storage.journal.pending_objects import Deleted, PendingObjects
from forebay.storage.tiers import Tiers
from forebay.write.conditional_writes import ABSENT

MOST_OBJECTS: Final = 65_536
MOST_SENT: Final = 8
"""The latest versions of an object that are remembered as sent."""


class OriginVersions:
    """The versions of one worker. It learns what the drainer makes, if it is that, and what goes through anywhere."""

    def __init__(self, pending: PendingObjects, tiers: Tiers, heads: ObjectHeads, rules: Callable[[], Rules]) -> None:
        self._pending = pending
        self._tiers = tiers
        self._heads = heads
        self._rules = rules
        self._made: OrderedDict[ObjectName, str] = OrderedDict()
        self._sent: OrderedDict[ObjectName, tuple[str, ...]] = OrderedDict()
        """The ETags of versions that writes have sent through to the origin, as long as it has not answered."""
        self._newer: set[ObjectName] | None = None
        """The objects that were written while `learning` goes on."""

    def seen(self, name: ObjectName) -> str | None:
        """Returns the ETag that readers see now, or ABSENT; None: it is not known."""
        pending = self._pending.head(name)
        if pending is not None:
            return ABSENT if isinstance(pending, Deleted) else pending.version.etag
        head = self._tiers.head(name)
        if head is None or not self._heads.is_fresh(name, head, self._rules().decide(name), no_cache=False):
            return None
        return head.version.etag or None

    def made(self, name: ObjectName, etag: str) -> None:
        """This node has written the object at the origin. `etag`: what it has there; ABSENT: it was deleted."""
        if self._newer is not None:
            self._newer.add(name)
        self._remember(name, etag)

    def sent(self, name: ObjectName, etag: str) -> None:
        """This node sends a version to the origin, by a write that goes through. `etag`: as for `made`."""
        self._sent[name] = (*self._sent.pop(name, ()), etag)[-MOST_SENT:]
        if len(self._sent) > MOST_OBJECTS:
            self._sent.popitem(last=False)

    def settled(self, name: ObjectName, etag: str) -> None:
        """The origin has answered whether it has made a version that was sent; the same may have been sent twice."""
        sent = list(self._sent.get(name, ()))
        if etag in sent:
            sent.remove(etag)
            self._sent[name] = tuple(sent)

    @contextmanager
    def learning(self) -> Iterator[Callable[[ObjectName, str], None]]:
        """Yields a function that remembers what others have made at the origin: an object, its ETag there. It skips an
        object that this worker has `made` since the block began: that version is newer. One block at a time."""
        newer = self._newer = set()

        def learn(name: ObjectName, etag: str) -> None:
            if name not in newer:
                self._remember(name, etag)

        try:
            yield learn
        finally:
            self._newer = None

    def _remember(self, name: ObjectName, etag: str) -> None:
        self._made[name] = etag
        self._made.move_to_end(name)
        if len(self._made) > MOST_OBJECTS:
            self._made.popitem(last=False)

    def is_ours(self, name: ObjectName, found: str, expected: str) -> bool:
        """Returns whether the version at the origin is the expected one, or one that this node has made since."""
        known = (expected, self._made.get(name), *self._sent.get(name, ()))
        return any(_same(found, each) for each in known if each is not None)

    def overwrites(self, name: ObjectName) -> bool:
        """Returns whether the rules have a version that somebody else wrote replaced."""
        return self._rules().decide(name).conflict == "overwrite"


def _same(first: str, second: str) -> bool:
    return first == second or (ABSENT not in {first, second} and same_etag(first, second))
