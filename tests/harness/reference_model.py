"""The reference model: S3 as a dictionary with its history, and what Forebay may answer at a moment.

    read                rule        what it may answer
    an object           always      the version that is current when it is asked
                        60s         a version that was current within the last 60 s
                        immutable   a version that was current since the last write through Forebay
    a listing           60s         each key as it was at some moment of the last 60 s, or is; of `immutable/` alone as
                                    it was at some moment since the last write of it through Forebay
                        passed on   each key as it is

and nothing older than the last write through Forebay, under every rule. A listing that shows some keys as they were and
others as they are is one that was taken in between.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, combinations, pairwise
from typing import Final, NamedTuple

from harness.fake.store import md5_etag

WINDOWS: Final = {"always": 0.0, "minute": 60.0, "immutable": float("inf"), "warmed": 60.0}
"""Seconds that a read of an object may be behind, by the first part of its key."""
LISTING_WINDOW: Final = 60.0

Version = bytes | None
"""The bytes of an object; None: there was none."""


class Query(NamedTuple):
    """A page of a listing, behind a key or a common prefix."""

    prefix: str
    delimiter: str
    max_keys: int
    after: str = ""


class ListedObject(NamedTuple):
    """An entry of a page."""

    key: str
    size: int
    etag: str


class Page(NamedTuple):
    """A page as it was answered."""

    objects: Sequence[ListedObject]
    prefixes: Sequence[str]
    is_truncated: bool

    @property
    def names(self) -> list[str]:
        """Keys and common prefixes, in order."""
        return sorted([*(each.key for each in self.objects), *self.prefixes])


@dataclass
class Model:
    """What was current, and since when."""

    history: dict[str, list[tuple[float, Version]]] = field(default_factory=dict)
    written: dict[str, int] = field(default_factory=dict)
    """Which entry of the history the last write through Forebay made."""

    def change(self, name: str, body: Version, now: float, *, through: bool) -> None:
        """An object has another version. `through`: it was written through Forebay."""
        entries = self.history.setdefault(name, [])
        entries.append((now, body))
        if through:
            self.written[name] = len(entries) - 1

    def current(self, name: str) -> Version:
        """The version that is current."""
        entries = self.history.get(name)
        return entries[-1][1] if entries else None

    def states(self, name: str, since: float) -> list[Version]:
        """What the object was at moments from `since` on, and since it was last written through Forebay; the current
        version last."""
        entries = [(-float("inf"), None), *self.history.get(name, ()), (float("inf"), None)]
        first = self.written[name] + 1 if name in self.written else 0
        return [body for (_, body), (ended, _) in list(pairwise(entries))[first:] if ended >= since]

    def allowed(self, name: str, now: float) -> list[Version]:
        """Every version that a read may answer. That nothing is there is told only while nothing is."""
        *earlier, current = self.states(name, now - WINDOWS[name.partition("/")[0]])
        return [current, *(each for each in earlier if each is not None)]

    def may_list(self, query: Query, page: Page, now: float, *, is_passed_on: bool) -> bool:
        """Whether a page may be answered."""
        window = float("inf") if query.prefix.startswith("immutable/") else LISTING_WINDOW
        since = float("inf") if is_passed_on else now - window
        states = {name: self.states(name, since) for name in self.history}
        for key, size, etag in page.objects:
            if (size, etag) not in [(len(body), md5_etag(body)) for body in states.get(key, ()) if body is not None]:
                return False
        certain = [name for name, found in states.items() if None not in found]
        perhaps = [name for name, found in states.items() if None in found and any(each is not None for each in found)]
        shown = page.names, page.is_truncated
        return any(names_of({*certain, *chosen}, query) == shown for chosen in _subsets(perhaps))


def names_of(keys: Iterable[str], query: Query) -> tuple[list[str], bool]:
    """The names that a page shows of these keys, and whether more follow."""
    prefix, delimiter, most, after = query
    names: list[str] = []
    for key in sorted(keys):
        end = key.find(delimiter, len(prefix)) if delimiter else -1
        name = key if end < 0 else key[: end + len(delimiter)]
        if key.startswith(prefix) and key > after and name not in {after, *names[-1:]}:
            names.append(name)
    return names[:most], len(names) > most


def _subsets(names: Sequence[str]) -> Iterator[tuple[str, ...]]:
    return chain.from_iterable(combinations(names, count) for count in range(len(names) + 1))
