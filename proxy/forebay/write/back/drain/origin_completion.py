"""Completions at the origin: a CompleteMultipartUpload of an upload in the journal that its client wants decided there.

If-Match, If-None-Match, x-forebay-durability: origin, a checksum or the size of the whole object
  ──> what was acknowledged before is at the origin ──> create, parts, complete with the conditions
        ├─> done: the object is at the origin, and the upload in the journal has ended
        └─> refused: the origin's answer; the upload stays, to be completed otherwise, or aborted
"""

from collections.abc import Awaitable, Callable
from typing import Final

from multidict import CIMultiDict

from forebay.core.errors import S3Error
from forebay.core.heads import DURABILITY, HeaderPairs
from forebay.core.s3_codes import S3_CODES
from forebay.protocol.body.checksums import PREFIX, is_checksum
from forebay.protocol.header_map import Headers
from forebay.write.back.drain.persister import Persister
from forebay.write.back.pending.accepted_write import AcceptedWrite
from forebay.write.forward_request import WriteContext
from forebay.write.interim_responses import interims_of
from forebay.write.invalidation import AffectedKeys

_SIZE: Final = "x-amz-mp-object-size"
_CONDITIONS: Final = frozenset({"if-match", "if-none-match"})

Wait = Callable[[WriteContext, AffectedKeys], Awaitable[bool]]
"""Waits until a write that goes through may, and returns whether it had to. Raises Throttled."""
Learn = Callable[[WriteContext, int, Headers, str], Awaitable[None]]
"""Notes how the origin has answered."""


def is_for_origin(headers: Headers) -> bool:
    """Returns whether a request demands that the origin has its write when it is acknowledged."""
    return headers.get(DURABILITY, "local").lower() != "local"


def conditions_of(headers: Headers) -> HeaderPairs | None:
    """Returns the conditions of a completion that the origin decides, what it says of the whole object (checksums,
    size), and the demand for durability, as the origin may be a Forebay, too; None: it needs no origin. Raises
    S3Error."""
    found = tuple((name, value) for name, value in headers.items() if name.lower().startswith("if-"))
    if any(name.lower() not in _CONDITIONS for name, _ in found):
        raise S3Error("NotImplemented", "A completion has If-Match or If-None-Match as its condition.")
    if any(is_checksum(name) or name.lower() == _SIZE for name in headers):
        found += tuple(
            (name, value) for name, value in headers.items() if name.lower().startswith(PREFIX) or name.lower() == _SIZE
        )
    if is_for_origin(headers):
        return (*found, (DURABILITY, headers[DURABILITY]))
    return found or None


class CompletionAtOrigin:
    """Completes uploads of the journal at the origin, in any worker."""

    def __init__(self, persister: Persister, wait: Wait, learn: Learn) -> None:
        self._persister = persister
        self._wait = wait
        self._learn = learn

    async def complete(
        self, context: WriteContext, write: AcceptedWrite, conditions: HeaderPairs
    ) -> tuple[str, HeaderPairs]:
        """Returns the object's ETag at the origin, and its checksums as headers, where the origin names them. Raises
        S3Error as the origin, Throttled."""
        has_waited = await self._wait(context, (write.name,))
        interims = interims_of(context.forward.request, has_waited=has_waited)
        interims.begin()  # its parts are sent first
        try:
            outcome = await self._persister.complete(write, conditions)
        finally:
            interims.end()
        if outcome.result == "done":
            await self._learn(context, 200, CIMultiDict(), outcome.etag)
            return outcome.etag, outcome.checksums
        if outcome.code in S3_CODES:
            raise S3Error(outcome.code)
        if outcome.status == 412:
            raise S3Error("PreconditionFailed")
        raise S3Error("ServiceUnavailable", f"The upload can't be completed: {outcome.reason}.")
