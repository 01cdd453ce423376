"""Pages with pending writes that change while the origin is asked. Else: scenarios/test_write_back_listings."""

import re
from collections.abc import Callable
from typing import Any, cast

from forebay.core.byte_ranges import Span
from forebay.core.heads import ObjectFacts, head_of
from forebay.core.names import ObjectName, Version
from forebay.namespace.origin_pages import OriginPages
from forebay.namespace.pending_entries import PendingEntries
from forebay.namespace.pending_pages import PendingPages
from forebay.protocol.listing_query import ListingQuery, StartPoint
from forebay.protocol.xml.listed_page import ListedEntries
from forebay.storage.journal.body_file import BodyRef
from forebay.storage.journal.log_writer import RecordId
from forebay.storage.journal.pending_objects import PendingObjects, PendingVersion

HEAD = head_of(ObjectFacts(Version('"etag"'), 1, "", ()), 65536, 0.0)


async def _read_body(_ref: BodyRef, _span: Span) -> bytes:
    raise OSError


class ChangingOrigin:
    """The pages of an origin. `meanwhile` is called while the first is on its way."""

    def __init__(self, meanwhile: Callable[[], None]) -> None:
        self.keys: list[str] = []
        self._meanwhile = meanwhile

    def speaks_oss(self, _bucket: str) -> bool:
        return False

    async def has_members(self, _bucket: str, _prefix: str) -> bool:
        return False

    async def fetch(self, _bucket: str, _prefix: str, after: str, *_: Any, limit: int, **__: Any) -> ListedEntries:
        keys = [key for key in self.keys if key > after][:limit]
        meanwhile, self._meanwhile = self._meanwhile, lambda: None
        meanwhile()
        return ListedEntries(keys, [f"<Key of='{key}'/>" for key in keys], is_truncated=False, max_keys="")


async def test_what_arrives_behind_the_page_of_the_origin_is_not_left_out() -> None:
    """k4 was pending behind what the page needed then, and is at the origin when the page needs it."""
    pending = PendingObjects(_read_body)  # type: ignore[arg-type] # nothing is read
    for number in range(1, 7):
        pending.add(ObjectName("b", f"k{number}"), PendingVersion(RecordId("log", number), number, HEAD))

    def meanwhile() -> None:
        for number in (1, 2):
            pending.add(ObjectName("b", f"k{number}"), PendingVersion(RecordId("later", number), 10 + number, None))
        pending.remove(ObjectName("b", "k4"), RecordId("log", 4))
        origin.keys.append("k4")

    origin = ChangingOrigin(meanwhile)
    pages = PendingPages(cast("OriginPages", origin), PendingEntries(pending))
    answer = await pages.answer(ListingQuery(2, "b", "", "", StartPoint(), 2))
    assert answer is not None
    assert re.findall(rb"<Key>(\w+)</Key>", answer.document) == [b"k3", b"k4"]
