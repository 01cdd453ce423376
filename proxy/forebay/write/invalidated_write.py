"""One write at the origin, between its two invalidations.

    sending ──begin()──> begun ──settle()──> settled
       │                   └───lose()──────> in doubt
       └ refused before the origin had all of it: nothing is invalidated

`close` ends each of them. A write that was begun and not settled is invalidated once more, as the origin may have
carried it out.
"""

from collections.abc import Sequence
from typing import Final, assert_never

from forebay.core.names import Generation, ObjectName
from forebay.protocol.operations import Effect
from forebay.write.forward_request import ForwardRequest
from forebay.write.invalidation import AffectedKeys, Invalidator, WholeBucket

_CORS_WRITES: Final = frozenset({"PutBucketCors", "DeleteBucketCors"})


class InvalidatedWrite:
    """A write that is about to be sent. `close` it, however it ended."""

    def __init__(self, invalidator: Invalidator, affected: AffectedKeys, keep: Generation | None) -> None:
        """`affected`: the keys that a success changes; `keep`: the generation of the write's staged blocks."""
        self._invalidator = invalidator
        self._affected = affected
        self._keep = keep
        self._number = invalidator.begin_write()
        self._is_settled = False
        self.has_begun = False
        """Whether the origin may have carried it out."""

    async def begin(self) -> bool:
        """Invalidates, before the bytes are sent that complete the request. Returns False where that is over: the
        answer came before the end of the body."""
        if self._is_settled:
            return False
        self.has_begun = True
        await self._invalidator.invalidate(self._affected, self._keep, write=self._number)
        return True

    async def settle(self, *, is_in_doubt: bool) -> None:
        """Invalidates, before the answer is passed on. `is_in_doubt`: the origin has failed, and may still carry the
        write out."""
        if is_in_doubt:
            self._invalidator.mark_in_doubt(self._affected)
        await self._invalidator.invalidate(self._affected, self._keep)
        self._is_settled = True

    def mark_in_doubt(self) -> None:
        """Notes that the answer was lost, or that nobody waits for it: the origin may still carry the write out."""
        if self.has_begun and not self._is_settled:
            self._invalidator.mark_in_doubt(self._affected)

    async def close(self) -> None:
        """Ends the write."""
        if self.has_begun and not self._is_settled:
            await self._invalidator.invalidate(self._affected)
        self._invalidator.end_write(self._number)


def affected_keys(forward: ForwardRequest, keys: Sequence[str]) -> AffectedKeys:
    """Returns the keys that a success of this operation changes. `keys`: those in its document."""
    match forward.operation.effect:
        case Effect.NOTHING if forward.operation.name in _CORS_WRITES:
            return (ObjectName(forward.target.bucket or "", ""),)  # what forebay.request.bucket_cors keeps
        case Effect.NOTHING:
            return ()
        case Effect.OBJECT:
            return (forward.target.name,)
        case Effect.LISTED_KEYS:
            return tuple(ObjectName(forward.target.bucket or "", key) for key in keys)
        case Effect.BUCKET:
            return WholeBucket(forward.target.bucket or "")
        case _:
            assert_never(forward.operation.effect)
