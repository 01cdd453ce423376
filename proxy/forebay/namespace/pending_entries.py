"""Pending entries: what listings show of writes that the journal has and the origin has not.

An entry has what the origin's own will have, but for its owner, which is the only one that the origin's entries show,
if there is one only, and its time, which is that of the acknowledgement.
"""

from collections.abc import Sequence
from typing import Final, TypeAlias

from forebay.core.heads import Head
from forebay.core.names import ObjectName
from forebay.protocol.dates import format_iso8601
from forebay.protocol.xml.listed_page import owner_mark
from forebay.protocol.xml.xml_tree import escape_text
from forebay.storage.journal.pending_objects import Deleted, PendingObjects

PendingState: TypeAlias = dict[str, Head | None]
"""By key: the head that readers see; None: the object is deleted."""

_QUOTE: Final = "&quot;"


class PendingEntries:
    """The entries of one worker. `pending` None: no journal is configured."""

    def __init__(self, pending: PendingObjects | None) -> None:
        self._pending = pending

    def __contains__(self, name: ObjectName) -> bool:
        """Returns whether a write of the object is pending."""
        return self._pending is not None and name in self._pending

    def state(self, bucket: str, prefix: str) -> PendingState:
        """Returns the pending objects under a prefix."""
        if self._pending is None or not len(self._pending):
            return {}
        return {name.key: head for name, head in self._pending.names(bucket, prefix)}

    def facts(self, name: ObjectName, owners: Sequence[str]) -> str | None:
        """Returns the entry of a pending object; None: it is deleted. `owners`: those of the namespace."""
        head = self._pending.head(name) if self._pending is not None else None
        return None if head is None or isinstance(head, Deleted) else entry_of(head, owners)


NOTHING_PENDING: Final = PendingEntries(None)


def entry_of(head: Head, owners: Sequence[str], storage_class: str = "STANDARD") -> str:
    """Returns the XML of an entry after its key (protocol.xml.listed_page)."""
    etag = escape_text(head.version.etag).replace('"', _QUOTE)
    return (
        f"<LastModified>{format_iso8601(int(head.validated_at))}</LastModified><ETag>{etag}</ETag>"
        f"<Size>{head.size}</Size>{owner_mark(0) if len(owners) == 1 else ''}"
        f"<StorageClass>{storage_class}</StorageClass>"
    )
