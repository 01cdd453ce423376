"""Pages with pending writes that change while the origin is asked. Else: scenarios/test_write_back_listings."""

import re
from collections.abc import Callable, Iterable
from typing import Any, cast

import pytest

from forebay.core.byte_ranges import Span
from forebay.core.errors import Throttled
from forebay.core.heads import Head, ObjectFacts, head_of
from forebay.core.names import ObjectName, Version
from forebay.namespace.origin_pages import OriginPages, PageRequest
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

    def __init__(self, meanwhile: Callable[[], None] = lambda: None) -> None:
        self.keys: list[str] = []
        self.fetches = 0
        self._meanwhile = meanwhile

    def speaks_oss(self, _bucket: str) -> bool:
        return False

    async def has_members(self, _bucket: str, _prefix: str) -> bool:
        return False

    async def fetch(self, wanted: PageRequest, *_: Any) -> ListedEntries:
        self.fetches += 1
        keys, limit = [key for key in self.keys if key > wanted.after], wanted.limit
        meanwhile, self._meanwhile = self._meanwhile, lambda: None
        meanwhile()
        shown, is_truncated = keys[:limit], len(keys) > limit
        return ListedEntries(shown, [f"<Key of='{key}'/>" for key in shown], is_truncated=is_truncated, max_keys="")


def pending_objects(keys: Iterable[str], head: Head | None = HEAD) -> PendingObjects:
    pending = PendingObjects(_read_body)  # type: ignore[arg-type] # nothing is read
    for number, key in enumerate(keys):
        pending.add(ObjectName("b", key), PendingVersion(RecordId("log", number), number, head))
    return pending


@pytest.mark.parametrize(
    ("start", "names"), [(StartPoint(), [b"z", b"p/"]), (StartPoint("p/", "prefix"), [b"z"])], ids=["all", "behind p/"]
)
async def test_a_key_behind_the_last_character_belongs_to_its_common_prefix(
    start: StartPoint, names: list[bytes]
) -> None:
    origin = ChangingOrigin()
    pages = PendingPages(cast("OriginPages", origin), PendingEntries(pending_objects(["p/\U0010ffffx", "z"])))
    answer = await pages.answer(ListingQuery(2, "b", "", "/", start, 1000), has_members=False)
    assert answer is not None
    assert re.findall(rb"<(?:Key|CommonPrefixes><Prefix)>([^<]+)<", answer.document) == names
    assert origin.fetches == 1


async def test_no_page_shows_what_is_deleted_however_much_that_is() -> None:
    """The origin still has all of it, and a page of a client is worth a bounded number of its pages."""
    keys = [f"k{number:06}" for number in range(66_000)]
    origin = ChangingOrigin()
    origin.keys = keys
    pages = PendingPages(cast("OriginPages", origin), PendingEntries(pending_objects(keys, None)))
    with pytest.raises(Throttled):
        await pages.answer(ListingQuery(2, "b", "", "", StartPoint(), 1000), has_members=False)
    assert origin.fetches == 64


async def test_what_arrives_behind_the_page_of_the_origin_is_not_left_out() -> None:
    """k4 was pending behind what the page needed then, and is at the origin when the page needs it."""
    pending = pending_objects(f"k{number}" for number in range(7))

    def meanwhile() -> None:
        for number in range(3):
            pending.add(ObjectName("b", f"k{number}"), PendingVersion(RecordId("later", number), 10 + number, None))
        pending.remove(ObjectName("b", "k4"), RecordId("log", 4))
        origin.keys.append("k4")

    origin = ChangingOrigin(meanwhile)
    pages = PendingPages(cast("OriginPages", origin), PendingEntries(pending))
    answer = await pages.answer(ListingQuery(2, "b", "", "", StartPoint(), 2), has_members=False)
    assert answer is not None
    assert re.findall(rb"<Key>(\w+)</Key>", answer.document) == [b"k3", b"k4"]
