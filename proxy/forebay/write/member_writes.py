"""Writes of keys that may be members of packs: a DELETE and another write of the same key come one after the other.

    PUT ∥ DELETE      the DELETE would remove the new object, and show the member until its tombstone is there: so each
                      waits until the other has its answer (write.key_locks)
    DELETE in doubt   its answer was lost, and the origin may still carry it out: a write that the origin acknowledges
                      meanwhile hides the member itself, before its client is answered

Only keys under a rule with `packed` are locked, whether they are members or not: a pack may be published meanwhile.

A node orders its own writes alone. A write around it may come between the check of a DELETE and the DELETE: readers may
see that object before the member is hidden.
"""

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from typing import Final

from forebay.core.names import ObjectName
from forebay.metadata.resolver import Resolver
from forebay.policy.rules import Rules
from forebay.protocol.operations import Effect
from forebay.protocol.xml.s3_documents import ListedKey
from forebay.write.forward_request import WriteContext
from forebay.write.key_locks import KeyLocks
from forebay.write.packed_deletions import PackedDeletion, PackedDeletions

_DELETE: Final = "DeleteObject"
_ACCEPTABLE: Final = frozenset({"PutObject", "CopyObject"})
"""Writes that a journal may take, or the origin."""


class MemberWrites:
    """See the module. Keeps no state."""

    def __init__(
        self, deletions: PackedDeletions, locks: KeyLocks, resolver: Resolver, rules: Callable[[], Rules]
    ) -> None:
        self._deletions = deletions
        self._locks = locks
        self._resolver = resolver
        self._rules = rules

    def _may_be_member(self, name: ObjectName) -> bool:
        rules = self._rules()
        return not rules.packed.is_empty and rules.decide(name).packed is not None

    @asynccontextmanager
    async def deletion(self, context: WriteContext, listed: Sequence[ListedKey]) -> AsyncGenerator[PackedDeletion]:
        """A context in which no other write of the listed keys is under way. Yields the deletion of the members among
        them, which has begun. Raises PackUnavailable, OriginError, S3Error, Throttled."""
        forward = context.forward
        bucket = forward.target.bucket or ""
        names = [name for each in listed if self._may_be_member(name := ObjectName(bucket, each.key))]
        if not names:
            yield await self._deletions.begin(bucket, listed, forward.identity)
            return
        async with self._locks.for_deletion(names):
            if context.verify is not None:
                await context.verify()
            yield await self._deletions.begin(bucket, listed, forward.identity)

    def change(self, context: WriteContext) -> AbstractAsyncContextManager[None]:
        """A context of a write. If `is_change` is true of it, no deletion of its key is under way inside. Raises
        Throttled, S3Error, OriginError, and ConnectionError for a client that has left meanwhile."""
        return self.locked_change(context) if self.is_change(context) else nullcontext()

    @asynccontextmanager
    async def locked_change(self, context: WriteContext) -> AsyncGenerator[None]:
        """`change` for a write of which `is_change` is true."""
        async with self._locks.for_change(context.forward.target.name) as has_waited:
            if has_waited and context.forward.request.has_left():
                raise ConnectionAbortedError("the client has left while a deletion of the key was under way")
            if context.verify is not None:
                await context.verify()
            yield

    def is_change(self, context: WriteContext) -> bool:
        """Whether a write is other than a deletion, and changes a key that may be a member."""
        if self._rules().packed.is_empty:
            return False
        operation = context.forward.operation
        if operation.effect is not Effect.OBJECT or operation.name == _DELETE:
            return False
        return self._may_be_member(context.forward.target.name)

    def needs_origin(self, context: WriteContext) -> bool:
        """Whether the origin, and no journal, must acknowledge a write of which `is_change` is true: a deletion of the
        key may come after it at the origin, and the write can't hide the member before its object is there."""
        return context.forward.operation.name in _ACCEPTABLE and self._resolver.is_in_doubt(context.forward.target.name)

    async def replaced(self, context: WriteContext) -> None:
        """The origin has carried out a write other than a deletion. Hides the member if a deletion of the key may come
        after it. Raises OriginError, S3Error, Throttled."""
        if self.is_change(context) and self._resolver.is_in_doubt(name := context.forward.target.name):
            await self._deletions.hide_replaced(name, context.forward.identity)
