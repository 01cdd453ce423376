"""An origin's bucket with its history, and what a listing or a read through Forebay may show of it.

    an answer that began at A and ended at B, by a rule of `window` seconds, shows of each key a state that was current

        at B or before, and not before A - window, and not before the last own write of the key that was acknowledged
        before A (its floor)

Moments are numbers of changes; the window alone is in seconds. Each body is written once, so an ETag is one change.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from harness.fake.payload import Payload
from harness.fake.responses import Answer
from harness.fake.s3_request import S3Request
from harness.fake_origin import FakeOrigin
from harness.reference_model import Page, Query

_LISTINGS = {"ListObjects", "ListObjectsV2"}
_BEHIND = 600.0


class State(NamedTuple):
    """What a key was from change `number` on, at `seconds`. `etag` None: there was no object."""

    number: int
    seconds: float
    etag: str | None


class Moment(NamedTuple):
    """When an answer began."""

    number: int
    seconds: float
    floors: Mapping[str, int]


@dataclass
class History:
    """The states of each key. `now`: the clock of Forebay, in seconds."""

    keys: tuple[str, ...]
    states: dict[str, list[State]] = field(default_factory=dict)
    floors: dict[str, int] = field(default_factory=dict)
    number: int = 0

    def note(self, key: str, etag: str | None, seconds: float) -> None:
        """Adds what a key is now, if that is something else."""
        states = self.states.setdefault(key, [State(0, -float("inf"), None)])
        if states[-1].etag != etag:
            self.number += 1
            states.append(State(self.number, seconds, etag))

    def moment(self, seconds: float) -> Moment:
        """This moment."""
        return Moment(self.number, seconds, dict(self.floors))

    def acknowledge(self, key: str, etag: str | None, began: Moment) -> None:
        """An own write has been acknowledged: it made the key this, at some moment since it began."""
        made = [state.number for state in self._within(key, began.number, -float("inf")) if state.etag == etag]
        assert made, f"the origin never had {key} as {etag} since the write began"
        self.floors[key] = max(self.floors.get(key, 0), made[0])

    def forget(self, number: int) -> None:
        """From now on nothing older than that change may be shown."""
        self.floors = {key: max(number, self.floors.get(key, 0)) for key in self.keys}

    def allowed(self, key: str, began: Moment, window: float) -> set[str | None]:
        """The ETags that may be shown now, by an answer that began then."""
        floor = max(began.floors.get(key, 0), 0 if window else began.number)
        return {state.etag for state in self._within(key, floor, began.seconds - window)}

    def _within(self, key: str, number: int, seconds: float) -> Iterator[State]:
        states = self.states.get(key, [State(0, -float("inf"), None)])
        for state, later in zip(states, [*states[1:], None], strict=True):
            if later is None or (later.number > number and later.seconds >= seconds):
                yield state

    def check_page(self, query: Query, page: Page, began: Moment, window: float) -> None:
        """Raises AssertionError: a page may not be answered."""
        names = page.names
        for listed in ([each.key for each in page.objects], page.prefixes):
            assert list(listed) == sorted(listed), listed
        assert len(set(names)) == len(names) <= query.max_keys, names
        assert all(name.startswith(query.prefix) for name in names), (query, names)
        assert names or not page.is_truncated, (query, page)
        shown = {each.key: each.etag for each in page.objects}
        assert shown.keys() <= set(self.keys), shown
        rolled: dict[str, list[set[str | None]]] = {}
        for key in self.keys:
            end = key.find(query.delimiter, len(query.prefix)) if query.delimiter else -1
            name = key if end < 0 else key[: end + len(query.delimiter)]
            is_accounted = key > query.after != name and (not page.is_truncated or name <= names[-1])
            if not key.startswith(query.prefix) or not is_accounted:
                continue
            allowed = self.allowed(key, began, window)
            if name == key:
                assert shown.get(key) in allowed, (key, shown.get(key), allowed, self.states.get(key), began, window)
            else:
                rolled.setdefault(name, []).append(allowed)
        for name, states in rolled.items():
            if name in page.prefixes:
                assert any(each != {None} for each in states), (name, "has no key")
            else:
                assert all(None in each for each in states), (name, "has a key")
        assert set(page.prefixes) <= rolled.keys(), (page.prefixes, rolled.keys())
        assert all(key > query.after for key in shown), (query, shown)


class PagedOrigin(FakeOrigin):
    """An origin of small pages, that notes each change of a bucket's keys."""

    def __init__(self, history: History, bucket: str, page: int) -> None:
        """Its clock is behind, so that Forebay may trust the times of its objects."""
        super().__init__(verify=False, clock=lambda: time.time() - _BEHIND)
        self.history, self.bucket, self.page = history, bucket, page
        self.now: Callable[[], float] = time.time
        """Forebay's clock."""
        self.store.create_bucket(bucket)

    def note_changes(self) -> None:
        """Notes what has changed. Of each write, the foreign ones too."""
        for key in self.history.keys:
            current = self.store.current(self.bucket, key)
            self.history.note(key, current.etag if current is not None else None, self.now())

    def _perform(self, s3_request: S3Request, payload: Payload) -> Answer:
        if s3_request.operation in _LISTINGS:
            limit = min(self.page, int(s3_request.query.get("max-keys", "1000")))
            s3_request = replace(s3_request, query={**s3_request.query, "max-keys": str(limit)})
        answer = super()._perform(s3_request, payload)
        self.note_changes()
        return answer
