"""The oracle of the soak for a bucket that others write to directly at the origin (soak.foreign_bucket).

The origin's store notes each state of a key and when it came about. A read may show a state that

    was current at some time from the beginning of the read, less the freshness of the rule, until its end,
    is not older than the last write through Forebay that was acknowledged before the read began,
    and, with one worker, is not older than what a read has shown that ended before this one began

Of what is acknowledged from the journal it may show the last write that was acknowledged before it began, or one that
began later, and nothing else until the origin has that write, or an operator gives it up (a conflict).

A state is an ETag, or GONE. The same content may come about again: then it is a state of its own.
"""

import time
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from harness.fake.store import md5_etag
from soak.cell_content import content
from soak.foreign_bucket import SAVED, lifetime_of
from soak.oracle import Oracle

GONE: Final = ""
_CLOCKS: Final = 0.02
"""Seconds by which two clocks of one machine may differ."""
_ENDLESS: Final = float("inf")


class State(NamedTuple):
    etag: str
    at: float
    """When it came about (monotonic)."""


@dataclass(slots=True)
class OwnWrite:
    """A write through Forebay."""

    etag: str
    begun: float
    """By the system's clock."""
    current: int
    """The index of the state when it began."""
    is_acknowledged: bool = False
    place: int | None = None
    """The index of the state that it has become."""
    given_up: float = _ENDLESS
    """When an operator began to give it up (monotonic)."""
    ended: float = _ENDLESS
    """When the operator was told that it is given up; until then it may still be shown."""


@dataclass(slots=True)
class KeyStates:
    states: list[State] = field(default_factory=lambda: [State(GONE, -_ENDLESS)])
    own: list[OwnWrite] = field(default_factory=lambda: [OwnWrite(GONE, 0.0, 0, is_acknowledged=True, place=0)])
    """As they began: their writer waits for each."""
    shown: int = 0
    """The index of a state that no later read may fall behind."""
    versions: int = 0


class ForeignSince(NamedTuple):
    """What a reader takes along from the moment when its request was made."""

    at: float
    own: int
    """The index of the last write that was acknowledged."""
    shown: int
    damages: int


class ForeignHistory:
    """See the module. `is_monotonic`: whether reads may never fall behind each other."""

    def __init__(self, oracle: Oracle, *, is_monotonic: bool) -> None:
        self.keys: defaultdict[str, KeyStates] = defaultdict(KeyStates)
        self.done = oracle.done
        self.is_foreign = False
        """Whether what is committed now is a write around Forebay."""
        self._oracle, self._is_monotonic = oracle, is_monotonic
        self._contents: dict[str, tuple[str, int, int]] = {}
        """By ETag."""

    def new_content(self, key: str, size: int) -> bytes:
        """A content that no version has had yet, but for the one of no bytes."""
        states = self.keys[key]
        states.versions += 1
        body = content(key, states.versions, size)
        self._contents[md5_etag(body)] = (key, states.versions, size)
        return body

    def old_content(self, key: str, back: int) -> bytes | None:
        """The content of an earlier state; None: there was no object."""
        states = self.keys[key].states
        etag = states[-min(back, len(states))].etag
        return None if etag == GONE else content(*self._contents[etag])

    def record_commit(self, key: str, etag: str) -> None:
        states = self.keys[key]
        states.states.append(State(etag, time.monotonic()))
        if not self.is_foreign:
            own = next((each for each in reversed(states.own) if each.etag == etag and each.place is None), None)
            if own is not None:
                own.place = len(states.states) - 1

    def place(self, key: str) -> int:
        """The index of the current state."""
        return len(self.keys[key].states) - 1

    def begin(self, key: str, etag: str) -> OwnWrite:
        """A write through Forebay."""
        self.keys[key].own.append(own := OwnWrite(etag, time.time(), self.place(key)))
        return own

    def acknowledge(self, key: str, own: OwnWrite, *, is_local: bool) -> None:
        """`is_local`: from the journal."""
        assert is_local or own.place is not None, f"{key}: {own} is not at the origin: {self._trail(key)}"
        own.is_acknowledged = True

    def begin_to_give_up(self, key: str, accepted_at: float) -> OwnWrite:
        """An operator gives up the write that was accepted at this time, by the system's clock."""
        own = next(each for each in reversed(self.keys[key].own) if each.begun <= accepted_at + _CLOCKS)
        own.given_up = min(own.given_up, time.monotonic())
        return own

    # Reading

    def since(self, key: str) -> ForeignSince:
        """The state before a read begins."""
        states = self.keys[key]
        known = [number for number, own in enumerate(states.own) if own.is_acknowledged and own.ended == _ENDLESS]
        shown = states.shown if self._is_monotonic and not key.startswith(SAVED) else 0
        return ForeignSince(time.monotonic(), known[-1], shown, self._oracle.damages)

    def possible(self, key: str, since: ForeignSince, lifetime: float | None = None) -> list[tuple[str, int]]:
        """The ETags that a read may show which began then and has ended now, each with the index of its state, 0 if it
        has none yet. `lifetime`: seconds, None for those of the rule."""
        states = self.keys[key]
        last = states.own[since.own]
        found: list[tuple[str, int]] = []
        if key.startswith(SAVED):
            # Of one that is at the origin Forebay may not know it yet.
            found = [(own.etag, 0) for own in states.own[since.own :] if own.ended > since.at]
            if last.place is None and last.given_up == _ENDLESS and not self._is_superfluous(key, last):
                return found
        oldest = max(own.place or 0 for own in states.own[: since.own + 1])
        earliest = since.at - (lifetime_of(key) if lifetime is None else lifetime) - _CLOCKS
        ends = [*(state.at for state in states.states[1:]), _ENDLESS]
        numbers = range(max(oldest, since.shown), len(ends))
        return found + [(states.states[number].etag, number) for number in numbers if ends[number] >= earliest]

    def verify_state(
        self, key: str, since: ForeignSince, etag: str, what: str, lifetime: float | None = None, *, counts: bool = True
    ) -> tuple[str, int, int]:
        """The content that an answer names, which is a right one. `counts`: whether later reads may not fall behind."""
        possible = self.possible(key, since, lifetime)
        found = [number for each, number in possible if each == etag]
        assert found, (
            f"{what} of {key}: {etag!r}, but it can only have been one of {possible}, {since}: {self._trail(key)}"
        )
        self.done[what] += 1
        if counts:
            self.keys[key].shown = max(self.keys[key].shown, found[0])
        return self._contents.get(etag, (key, 0, 0))

    def verify_other(self, key: str, since: ForeignSince, etag: str, what: str) -> None:
        """An answer said that the object exists in another version than this."""
        others = {each for each, _ in self.possible(key, since)} - {etag}
        assert others, f"{what} of {key}: nothing but {etag!r} was possible: {self._trail(key)}"

    def verify_refused(self, key: str, since: ForeignSince, start: int, what: str) -> None:
        """The object was said to end before `start`."""
        etags = {each for each, _ in self.possible(key, since)} - {GONE}
        assert any(self._contents[etag][2] <= start for etag in etags), f"{what} of {key}: {self._trail(key)}"

    def verify_bytes(self, since: ForeignSince, body: bytes, expected: bytes, what: str) -> None:
        if body != expected:
            may_be = len(body) == len(expected) and self._oracle.is_damage(since.damages, body, expected)
            assert may_be, f"{what}: {len(body)} bytes for {len(expected)}, {body[:64]!r} for {expected[:64]!r}"
            self.done["damaged on their way"] += 1

    def verify_arrived(self) -> None:
        """At the end, nothing that was acknowledged is missing at the origin."""
        for key, states in self.keys.items():
            last = [own for own in states.own if own.is_acknowledged][-1]
            is_there = last.place is not None or last.given_up < _ENDLESS or self._is_superfluous(key, last)
            assert is_there, f"{key}: {last} is not at the origin: {self._trail(key)}"

    def _is_superfluous(self, key: str, own: OwnWrite) -> bool:
        """Whether the origin had the content already, when it was looked at before the write was sent."""
        return any(state.etag == own.etag for state in self.keys[key].states[own.current :])

    def _trail(self, key: str) -> str:
        """What became of a key lately, with seconds before now."""
        states, now = self.keys[key], time.monotonic()
        lines = [f"\n    {number}: {now - at:.3f} s ago {etag!r}" for number, (etag, at) in enumerate(states.states)]
        own = [f"\n    {number}: {each}" for number, each in enumerate(states.own)]
        return f"shown {states.shown}{''.join(lines[-12:])}{''.join(own[-6:])}"
