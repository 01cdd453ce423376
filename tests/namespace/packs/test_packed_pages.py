"""Pages with members of packs in them: followed to their end they are the listing of one namespace, of any size."""

from types import SimpleNamespace
from typing import Any, cast

from hypothesis import given
from hypothesis import strategies as st

from forebay.namespace.origin_pages import OriginPages, PageRequest
from forebay.namespace.packs.pack_view import PackView
from forebay.namespace.packs.packed_pages import PackedPages
from forebay.protocol.listing_query import LAST_CHARACTER
from forebay.protocol.packs.packed_member import PackedMember
from forebay.protocol.xml.listed_page import ListedEntries, ListingForm
from harness.pack_views import member, pack, view_of

KEYS = st.sets(st.text("ab/z", min_size=1, max_size=4), max_size=12)
FIRST, SECOND = "packed/1/**", "packed/2/**"


def packed_of(key: str) -> str | None:
    """The packs that a rule names for a key."""
    return None if key.startswith("z") else FIRST if key < "b" else SECOND


class Listed(OriginPages):
    """Lists these keys as an origin does, which may send less than it is asked for."""

    def __init__(self, keys: set[str], most: int) -> None:
        self._keys, self._most = sorted(keys), most

    def speaks_oss(self, _bucket: str) -> bool:
        return False

    async def fetch(self, wanted: PageRequest, form: ListingForm, *, is_awaited: bool = True) -> ListedEntries:
        del form, is_awaited
        _, prefix, after, limit, delimiter = wanted
        names = rolled([key for key in self._keys if key > after and key.startswith(prefix)], prefix, delimiter)
        shown = dict(sorted(names.items())[: min(self._most, limit)])
        keys = [name for name, is_key in shown.items() if is_key]
        prefixes = [name for name, is_key in shown.items() if not is_key]
        return ListedEntries(keys, ["real"] * len(keys), len(names) > len(shown), "1000", prefixes)


def rolled(keys: list[str], prefix: str, delimiter: str) -> dict[str, bool]:
    """The names of a listing, in order, and whether each is a key: else it is a common prefix."""
    names = {}
    for key in keys:
        end = key.find(delimiter, len(prefix)) if delimiter else -1
        names[key if end < 0 else key[: end + 1]] = end < 0
    return names


def pages_of(listed: Listed, first: PackView, second: PackView) -> PackedPages:
    async def view(_bucket: str, packed: str, _freshness: object) -> PackView:
        return {FIRST: first, SECOND: second}[packed]

    scopes = [SimpleNamespace(packed=packed, freshness=None) for packed in (FIRST, SECOND)]
    rules = SimpleNamespace(
        packed=SimpleNamespace(scopes=lambda _bucket, _prefix: scopes),
        decide=lambda name: SimpleNamespace(packed=packed_of(name.key)),
    )
    return PackedPages(listed, cast("Any", SimpleNamespace(view=view)), lambda: cast("Any", rules))


def members(keys: set[str], of: str) -> list[PackedMember]:
    return [member(key)._replace(etag=f'"{of}"') for key in sorted(keys)]


@given(
    KEYS, KEYS, KEYS, st.sampled_from(["", "a", "b/", "z"]), st.sampled_from(["", "/"]), st.integers(1, 5), st.data()
)
async def test_pages_are_the_listing_of_one_namespace(
    real: set[str], of_first: set[str], of_second: set[str], prefix: str, delimiter: str, limit: int, data: Any
) -> None:
    after = data.draw(st.sampled_from(["", *sorted(real | of_first)]))
    pages = pages_of(
        Listed(real, data.draw(st.integers(1, 5))),
        view_of(pack(1.0, members(of_first, "one"))),
        view_of(pack(1.0, members(of_second, "two"))),
    )
    shown = {key: "one" for key in of_first if packed_of(key) == FIRST}
    shown |= {key: "two" for key in of_second if packed_of(key) == SECOND} | dict.fromkeys(real, "real")
    expected = rolled([key for key in sorted(shown) if key > after and key.startswith(prefix)], prefix, delimiter)
    found: dict[str, bool] = {}
    while True:
        page = await pages.fetch(PageRequest("bucket", prefix, after, limit, delimiter), ListingForm())
        names = dict.fromkeys(page.keys, True) | dict.fromkeys(page.prefixes, False)
        assert len(names) == len(page.keys) + len(page.prefixes) <= limit
        assert list(page.keys) == sorted(page.keys)
        assert not found.keys() & names.keys(), "a name is on two pages"
        assert all(shown[key] in facts for key, facts in zip(page.keys, page.facts, strict=True))
        found |= names
        if not page.is_truncated:
            break
        assert names, "no page would ever end"
        last = max(names)
        after = last if names[last] else last + LAST_CHARACTER
    assert found == expected
