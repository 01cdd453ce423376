"""Reads of heads from the index, for the event loop.

A head is as of the latest commit of any process. One whose validation this process does not trust counts as never
validated; a damaged one is dropped.
"""

from collections.abc import Callable

from forebay.core.events import CorruptionFound, Observe
from forebay.core.heads import NEVER_VALIDATED, Head
from forebay.core.names import ObjectName
from forebay.storage.ssd.index.head_codec import decode_head
from forebay.storage.ssd.index.index import INDEX_ERRORS
from forebay.storage.ssd.recovery import OpenDirectory
from forebay.storage.ssd.write_queue import DropHead, WriteQueue


class HeadReader:
    """Reads the heads of one directory. For the event loop alone."""

    def __init__(
        self,
        opened: OpenDirectory,
        queue: WriteQueue,
        observe: Observe,
        report_failure: Callable[[str, Exception], None],
    ) -> None:
        """`report_failure`: called with an operation and the error of the index."""
        self._index = opened.index
        self._addressing = opened.addressing
        self._references = opened.references
        self._trusted_from = opened.state.trusted_from
        self._queue = queue
        self._observe = observe
        self._report_failure = report_failure

    def read(self, name: ObjectName) -> Head | None:
        """Returns the head of an object. A few microseconds."""
        address = self._addressing.object_address(name)
        try:
            raw = self._index.head(address)
        except INDEX_ERRORS as error:
            self._report_failure("head", error)
            return None
        if raw is None:
            return None
        named = decode_head(raw)
        if named is None or named.name != name:
            self._observe(CorruptionFound("ssd", "damaged head"))
            self._queue.offer(DropHead(address, raw))
            return None
        self._references.mark(address)
        head = named.head
        return head if head.validated_at > self._trusted_from else head.with_validation(NEVER_VALIDATED)
