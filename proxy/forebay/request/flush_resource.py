"""Flushes as objects: `PUT /<bucket>/.forebay/flush/new`, `.../new/<seconds>`.

    body        a prefix of keys, in UTF-8; empty: the whole bucket
    response    once every write that was pending under it is at the origin, or all that are left wait for a person, at
                the latest after <seconds> or WAIT:
                x-forebay-flush-left      how many of these writes are not there
                x-forebay-flush-held-up   how many of those are stuck, or have to come after a stuck one
                x-forebay-flush-before    the name below .forebay/flush/ by which the next PUT goes on with them

For principals that may read, or may write, every key of the prefix. Writes that are accepted meanwhile are not waited
for. A principal with its own origin credential is answered at once: its writes went to the origin, and those of others
are not shown to it.
"""

from collections.abc import AsyncIterator
from typing import Final

from forebay.core.buffers import Piece
from forebay.core.errors import BucketMissing, S3Error
from forebay.core.heads import HeaderPairs
from forebay.policy.grants import may_see_writes_below
from forebay.request.prefix_body import LARGEST, read_prefix
from forebay.request.resource import ResourceKind, ResourceOwner
from forebay.write.back.node_backlog import NodeBacklog

WAIT: Final = 20.0
"""Seconds of one request: below the read timeouts of SDKs."""
FIRST: Final = "new"
_MOST_DIGITS: Final = 40
"""Digits of a time on the node's clock, at most: a number of 64 bits behind that of the run (Journal.stamp)."""


class FlushResource:
    """Flushes of the node's pending writes."""

    largest_body: int = LARGEST

    def __init__(self, backlog: NodeBacklog) -> None:
        self._backlog = backlog

    @property
    def kind(self) -> ResourceKind:
        """The operations on flushes. They are not stored."""
        return ResourceKind(None, self, "A flush ends by itself.")

    async def write(self, owner: ResourceOwner, name: str, body: AsyncIterator[Piece]) -> HeaderPairs:
        """Waits for the writes."""
        earlier, slash, seconds = name.partition("/")
        if not (earlier == FIRST or _is_number(earlier)) or bool(slash) != _is_number(seconds):
            message = f"A flush is named {FIRST!r}, or by what an earlier one returned; seconds to wait may follow."
            raise S3Error("InvalidArgument", message)
        prefix = await read_prefix(body)
        if not may_see_writes_below(owner.principal, owner.bucket, prefix):
            raise S3Error("AccessDenied", "A flush needs the right to read or write every key of its prefix.")
        if owner.identity is not None:
            return (("x-forebay-flush-left", "0"), ("x-forebay-flush-held-up", "0"))
        wait = min(WAIT, int(seconds)) if seconds else WAIT
        try:
            report = await self._backlog.flush(owner.bucket, prefix, wait, "" if earlier == FIRST else earlier)
        except BucketMissing:
            raise S3Error("NoSuchBucket", BucketName=owner.bucket) from None
        return (
            ("x-forebay-flush-left", str(report.left)),
            ("x-forebay-flush-held-up", str(report.held_up)),
            ("x-forebay-flush-before", report.before),
        )


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= _MOST_DIGITS
