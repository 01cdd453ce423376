"""Conditional writes: the condition under which a write replaces only the version that was seen before it was sent.

    the origin has a version   If-Match: its ETag         PutObject, CompleteMultipartUpload, DeleteObject
    it has no object           If-None-Match: *           PutObject, CompleteMultipartUpload

So nothing that somebody else writes between the look and the request is overwritten. Not every origin compares: OSS
has If-None-Match alone (x-oss-forbid-overwrite), Swift no If-Match with a PUT, which it answers with 501. What an
origin refuses is remembered, for each operation, until the process ends, and not sent again. One that ignores a
condition can't be told from one that obeys.

Swift compares the DELETE of what was uploaded in parts with another ETag than it shows, so the answer is always 412. A
deletion that gets this twice in a row, while the origin shows the version that was demanded, is sent without; after the
first one of what was uploaded in parts, so are all others of such objects.

https://docs.aws.amazon.com/AmazonS3/latest/userguide/conditional-writes.html
"""

import logging
import re
from collections.abc import Callable
from typing import Final

from forebay.core.heads import HeaderPairs
from forebay.core.names import ObjectName

ABSENT: Final = ""
"""The value that stands for the ETag of an object that does not exist."""
NOT_COMPARED: Final = frozenset({400, 405, 501})
"""Statuses of an origin that knows no such condition."""

_OF_PARTS: Final = re.compile('"?[0-9a-f]+-[0-9]+"?', re.IGNORECASE)
"""An ETag of what was uploaded in parts."""
_MOST_CONTRADICTED: Final = 1000
"""Writes that wait for their second attempt."""

_log = logging.getLogger(__name__)


def condition_of(operation: str, etag: str) -> HeaderPairs:
    """Returns the condition of a write over a version. `etag`: of the version that the origin has, or ABSENT."""
    if etag == ABSENT:
        return () if operation == "DeleteObject" else (("If-None-Match", "*"),)
    return () if etag.startswith("W/") else (("If-Match", etag),)


class ConditionalWrites:
    """The conditions that origins were seen to refuse. `origin_of`: the name of the origin that has a bucket."""

    def __init__(self, origin_of: Callable[[str], str]) -> None:
        self._origin_of = origin_of
        self._refused: set[tuple[str, str, str]] = set()
        self._contradicted: set[tuple[ObjectName, HeaderPairs]] = set()
        self._contradicting: set[str] = set()
        """Origins that contradict the deletion of what was uploaded in parts."""

    def usable(self, name: ObjectName, operation: str, conditions: HeaderPairs) -> HeaderPairs:
        """Returns those of the conditions that the origin is not known to refuse."""
        if not conditions:
            return ()
        origin = self._origin_of(name.bucket)
        if operation == "DeleteObject" and origin in self._contradicting:
            conditions = tuple(pair for pair in conditions if not _OF_PARTS.fullmatch(pair[1]))
        return tuple(pair for pair in conditions if (origin, operation, pair[0]) not in self._refused)

    def contradicts(self, name: ObjectName, operation: str, conditions: HeaderPairs) -> bool:
        """The origin has answered 412, and shows the version that was demanded. Returns whether that is the second
        time in a row for a deletion: once it may be news that a look does not show yet. Others keep their condition."""
        if operation != "DeleteObject":
            return False
        found = (name, conditions)
        if found in self._contradicted:
            self._contradicted.discard(found)
            return True
        if len(self._contradicted) >= _MOST_CONTRADICTED:
            self._contradicted.clear()
        self._contradicted.add(found)
        return False

    def settle_contradiction(self, name: ObjectName, conditions: HeaderPairs) -> None:
        """The origin has contradicted a deletion twice in a row, and carried it out without its conditions."""
        if any(_OF_PARTS.fullmatch(value) for _, value in conditions):
            self._contradicting.add(self._origin_of(name.bucket))

    def forget_contradiction(self, name: ObjectName, conditions: HeaderPairs) -> None:
        """The latest attempt was not contradicted."""
        self._contradicted.discard((name, conditions))

    def refused(self, name: ObjectName, operation: str, conditions: HeaderPairs) -> None:
        """The origin has refused the conditions, and carried the write out without them."""
        origin = self._origin_of(name.bucket)
        for condition, _ in conditions:
            self._refused.add((origin, operation, condition))
            _log.warning(
                "the origin %s has no %s with %s: what somebody else writes between a look and a write is overwritten",
                origin,
                condition,
                operation,
            )
