"""Pending entries: the entries, in listings, of writes that are in the journal and not yet at the origin.

An entry equals the one that the origin will show, with two exceptions. Its time is that of the acknowledgement. Its
owner is the owner of the origin's other entries if they all have the same one; otherwise it has none.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple, TypeAlias

from forebay.core.heads import Head
from forebay.core.names import ObjectName
from forebay.protocol.body.checksum_headers import listed_elements
from forebay.protocol.dates import format_document_time
from forebay.protocol.listing_query import LAST_CHARACTER
from forebay.protocol.xml.listed_page import owner_mark
from forebay.protocol.xml.xml_tree import escape_text
from forebay.storage.journal.pending_objects import Deleted, PendingObjects

PendingState: TypeAlias = dict[str, Head | None]
"""The head that readers see, by key; None for a deleted object."""


class PendingWindow(NamedTuple):
    """The pending objects that one page may need."""

    state: PendingState
    bound: str | None
    """The last name that the window accounts for. None: it accounts for all names that are left."""


LOOKED_AT: Final = 4096
"""Pending objects after which a window ends at the next name: many of them may be deleted."""
_QUOTE: Final = "&quot;"


class PendingEntries:
    """The entries of one worker. `pending` None: no journal is configured."""

    def __init__(self, pending: PendingObjects | None) -> None:
        self._pending = pending

    def __contains__(self, name: ObjectName) -> bool:
        """Returns whether a write of the object is pending."""
        return self._pending is not None and name in self._pending

    def is_deleted(self, name: ObjectName) -> bool:
        """Returns whether the last pending write of the object deletes it."""
        return self._pending is not None and isinstance(self._pending.head(name), Deleted)

    def state(self, bucket: str, prefix: str) -> PendingState:
        """Returns all pending objects under a prefix."""
        return {} if self._pending is None else dict(self._pending.listed(bucket, prefix))

    def is_any(self, bucket: str, prefix: str) -> bool:
        """Returns whether any object under a prefix is pending."""
        return self._pending is not None and next(self._pending.listed(bucket, prefix), None) is not None

    def window(self, bucket: str, prefix: str, delimiter: str, after: str, limit: int) -> PendingWindow:
        """Returns the pending objects behind a name, up to the `limit`-th name that a listing shows of them, or fewer
        if many are deleted. One object is enough for a common prefix; without one, all its deletions are needed."""
        state: PendingState = {}
        rolled: str | None = None
        shown, is_shown, bound = 0, False, after
        while self._pending is not None:
            for key, head in self._pending.listed(bucket, prefix, bound):
                if rolled is None or not key.startswith(rolled):
                    if shown == limit or len(state) >= LOOKED_AT:
                        return PendingWindow(state, bound)
                    rolled, is_shown = common_prefix(key, prefix, delimiter), False
                state[key], bound = head, key
                if head is not None:
                    shown, is_shown = shown + (not is_shown), True
                    if rolled is not None:
                        bound = max(key, rolled + LAST_CHARACTER)  # a key may begin with that character
                        break  # to what is behind it
            else:
                break
        return PendingWindow(state, None)

    def facts(self, name: ObjectName, owners: Sequence[str]) -> str | None:
        """Returns the entry of a pending object; None: it is deleted. `owners`: those of the namespace."""
        head = self._pending.head(name) if self._pending is not None else None
        return None if head is None or isinstance(head, Deleted) else entry_of(head, owners)


NOTHING_PENDING: Final = PendingEntries(None)


def common_prefix(key: str, prefix: str, delimiter: str) -> str | None:
    """Returns the common prefix that a key is part of; None: it is listed itself."""
    found = key.find(delimiter, len(prefix)) if delimiter else -1
    return key[: found + len(delimiter)] if found >= 0 else None


def entry_of(head: Head, owners: Sequence[str]) -> str:
    """Returns the XML of an entry after its key (protocol.xml.listed_page)."""
    etag = escape_text(head.version.etag).replace('"', _QUOTE)
    checksums = "".join(f"<{name}>{escape_text(value)}</{name}>" for name, value in listed_elements(head.facts.headers))
    return (
        f"<LastModified>{format_document_time(int(head.validated_at))}</LastModified><ETag>{etag}</ETag>{checksums}"
        f"<Size>{head.size}</Size>{owner_mark(0) if len(owners) == 1 else ''}"
        "<StorageClass>STANDARD</StorageClass>"
    )
