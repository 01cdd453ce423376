"""The oracle of the soak for keys that may be acknowledged before the origin has them: what their clients were told.

Each key has one writer, who waits for the answer to a write before the next one. The state of a key that a reader may
see is the effect of

    the last write that was acknowledged before the read began, or any write that began later, until the read ended

A write without an acknowledgement may have taken effect or not, until a later one is acknowledged; afterwards only if
the origin carried it out late. A write that was acknowledged never comes about again over a later one.

An effect is the start of the first cell of a content (`name|version`), or GONE. A copy has that of its source.
"""

import hashlib
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final, NamedTuple

from harness.fake.store import Bucket, StoredObject
from soak.cell_content import CELL, content
from soak.data_bucket import DATA
from soak.foreign_bucket import FOREIGN
from soak.foreign_history import ForeignHistory
from soak.oracle import ObservedStore, Oracle

GONE: Final = ""
"""The effect of a deletion."""


@dataclass(slots=True, eq=False)
class Write:
    effects: frozenset[str]
    """The possible ones; none: it was refused."""
    is_acknowledged: bool = False


class LateEffect(NamedTuple):
    """Of a write that was never acknowledged: at the origin after a later one was."""

    effect: str
    acknowledged: int


class _Event(NamedTuple):
    at: float
    what: str
    effect: str


@dataclass(slots=True)
class KeyWrites:
    """The writes of one key, in the order in which they began."""

    writes: list[Write] = field(default_factory=lambda: [Write(frozenset({GONE}), is_acknowledged=True)])
    acknowledged: int = 0
    """The index of the last acknowledged one."""
    carried_out: int = 0
    """The highest index of those that the origin has carried out."""
    versions: int = 0
    late: list[LateEffect] = field(default_factory=list)
    trail: deque[_Event] = field(default_factory=partial(deque, maxlen=30))
    """What became of it lately."""


class Since(NamedTuple):
    """What a reader takes along from the moment when its request was made."""

    acknowledged: int
    damages: int


class WriteHistory:
    """See the module. `done` counts what was done, for people."""

    def __init__(self, oracle: Oracle) -> None:
        self.keys: dict[str, KeyWrites] = {}
        self.done = oracle.done
        self.violations: list[str] = []
        """What was seen at the origin, where nobody can raise an error."""
        self._oracle = oracle
        self._contents: dict[str, tuple[str, int, int]] = {}
        self._effects: dict[str, str] = {}
        """By ETag."""

    # Writing

    def begin(self, key: str, size: int, parts: Sequence[int] = ()) -> tuple[bytes, Write]:
        """The bytes of a new version. `parts`: sizes of the parts in which it is uploaded."""
        writes = self._writes(key)
        writes.versions += 1
        body = content(key, writes.versions, size)
        effect = effect_of(body)
        self._contents[effect] = (key, writes.versions, size)
        for sizes in {(), tuple(parts)}:  # a copy of an upload in parts has the ETag of one request
            self._effects[_etag_of(body, sizes)] = effect
        return body, self._add(key, frozenset({effect}))

    def begin_deletion(self, key: str) -> Write:
        return self._add(key, frozenset({GONE}))

    def begin_copy(self, key: str, source: str) -> Write:
        """Of a source of the same writer."""
        return self._add(key, self.possible(source, self.since(source)) - {GONE})

    def acknowledge(self, key: str, write: Write, etag: str | None = None, durable: str = "") -> None:
        """`etag`: of a copy, as the answer names it. `durable`: where it is, for people."""
        if etag is not None:
            effect = self._effects.get(etag.lower())
            assert effect in write.effects, f"{key} was copied from {effect}, not one of {write.effects}"
            write.effects = frozenset({effect})
        write.is_acknowledged = True
        writes = self._writes(key)
        self._note(key, f"acknowledged {durable}", write)
        writes.acknowledged = next(number for number, each in enumerate(writes.writes) if each is write)

    def acknowledge_first(self, key: str, write: Write, other: Write) -> None:
        """`write` was answered with success, and `other`, at the same time, with success or not at all: either may have
        come about last."""
        writes = self._writes(key)
        place = min(writes.writes.index(write), writes.writes.index(other))
        writes.writes[place : place + 2] = [write, other]
        writes.acknowledged, writes.carried_out = place, min(writes.carried_out, place)
        self._note(key, "acknowledged beside another", write)

    def settle(self, key: str, first: Write, second: Write, effect: str) -> None:
        """Of two writes that were acknowledged, a read that began afterwards showed one: it stays the last."""
        last, earlier = (first, second) if effect in first.effects else (second, first)
        writes = self._writes(key)
        place = min(writes.writes.index(first), writes.writes.index(second))
        writes.writes[place : place + 2] = [earlier, last]
        first.is_acknowledged = second.is_acknowledged = True
        writes.acknowledged = place + 1
        self._note(key, "seen as the last of two", last)

    def refuse(self, write: Write) -> None:
        """It was answered so that it can have had no effect."""
        write.effects = frozenset()

    def preload(self, key: str, size: int) -> bytes:
        """The bytes of an object that is at the origin before anybody reads."""
        body, write = self.begin(key, size)
        self.acknowledge(key, write)
        return body

    def record_commit(self, key: str, cell: bytes) -> None:
        """The origin has carried a write of a key out: with this first cell, an empty one for a deletion."""
        if (writes := self.keys.get(key)) is None:
            return
        effect = effect_of(cell) if cell else GONE
        writes.trail.append(_Event(time.monotonic(), "at the origin", effect))
        found = [number for number, write in enumerate(writes.writes) if effect in write.effects]
        # Deletions, and copies of one source, can't be told apart: the earliest that it may be.
        later = [number for number in found if number >= writes.carried_out]
        if later:
            writes.carried_out = later[0]
        elif not found:
            self.violations.append(f"{key}: the origin was sent {effect!r}, which nobody wrote: {self.trail(key)}")
        elif writes.writes[found[-1]].is_acknowledged and effect != GONE:
            self.violations.append(f"{key}: {effect!r} came about again over a later write: {self.trail(key)}")
        if found and found[-1] < writes.acknowledged and not writes.writes[found[-1]].is_acknowledged:
            self.done["writes without an answer that came late"] += 1
            writes.late.append(LateEffect(effect, writes.acknowledged))

    # Reading

    def since(self, key: str) -> Since:
        """The state before a read begins."""
        return Since(self._writes(key).acknowledged, self._oracle.damages)

    def possible(self, key: str, since: Since) -> frozenset[str]:
        """The effects that a read may show which began then and has ended now."""
        writes = self._writes(key)
        seen = [effect for write in writes.writes[since.acknowledged :] for effect in write.effects]
        return frozenset(seen + [each.effect for each in writes.late if each.acknowledged >= since.acknowledged])

    def verify_stored(self, key: str, effect: str) -> None:
        """What the origin has once nothing is on its way."""
        self._verify_effect(key, self.since(key), effect, "the origin's state")

    def verify_absent(self, key: str, since: Since, what: str) -> None:
        self._verify_effect(key, since, GONE, what)

    def verify_range_refused(self, key: str, since: Since, start: int, what: str) -> None:
        """The object was said to end before `start`."""
        possible = self.possible(key, since)
        ends = [self._contents[effect][2] for effect in possible if effect != GONE]
        assert any(end <= start for end in ends), f"{what} of {key}: no range from {start}, of {possible}"

    def verify_entry(self, key: str, since: Since, etag: str, size: int, what: str) -> None:
        """A head, or an entry of a listing."""
        effect = self._effects.get(etag.lower())
        assert effect is not None, f"{what} of {key}: {etag} is the ETag of nothing that was written"
        self._verify_effect(key, since, effect, what)
        assert size == self._contents[effect][2], f"{what} of {key}: {size} bytes for {self._contents[effect]}"

    def verify_body(
        self, key: str, since: Since, body: bytes | memoryview, what: str, start: int = 0, end: int | None = None
    ) -> None:
        """Bytes of an object, from `start` to `end`, or where the object ends."""
        body = bytes(body)
        assert body, f"{what} of {key}: no byte"
        effects = [each for each in self.possible(key, since) if each != GONE]
        expected = {each: content(*self._contents[each])[start:end] for each in effects}
        if body not in expected.values():
            assert any(self._is_damaged(since, body, right) for right in expected.values()), (
                f"{what} of {key}, {start} to {end}: {self._difference(body, start, effects)}; "
                f"as the nearest it has {_wrong_bytes(body, [*expected.values()])}: {self.trail(key)}"
            )
            self.done["damaged on their way"] += 1
        self.done[what] += 1

    def _verify_effect(self, key: str, since: Since, effect: str, what: str) -> None:
        possible = self.possible(key, since)
        assert effect in possible, (
            f"{what} of {key}: {effect!r}, but it can only have been one of {set(possible)}: {self.trail(key)}"
        )

    def _is_damaged(self, since: Since, body: bytes, right: bytes) -> bool:
        """Whether the wrong bytes may have been overwritten in the SSD's files while they were sent (soak.oracle)."""
        return len(body) == len(right) and self._oracle.is_damage(since.damages, body, right)

    def _difference(self, body: bytes, start: int, effects: Sequence[str]) -> str:
        """What the cells of a body say that they are: runs of one effect, each with its first offset."""
        runs: list[str] = []
        for at in range(0, len(body), CELL):
            name, version, offset, *_ = [*body[at : at + CELL].split(b"|"), b"", b"", b""]
            told = f"{name.decode('latin-1')}|{version.decode('latin-1')}"
            shift = int(offset) - at - start if offset.isdigit() else None
            if not runs or not runs[-1].endswith(f" {told} {shift}"):
                runs.append(f"at {start + at} {told} {shift}")
        return f"{len(body)} bytes, one of {effects} was expected; they are {runs[:8]}"

    def _add(self, key: str, effects: frozenset[str]) -> Write:
        writes = self._writes(key)
        writes.writes.append(write := Write(effects))
        self._note(key, "begun", write)
        return write

    def _note(self, key: str, what: str, write: Write) -> None:
        self._writes(key).trail.append(_Event(time.monotonic(), what, " or ".join(sorted(write.effects))))

    def trail(self, key: str) -> str:
        """What became of a key, with seconds before now."""
        now = time.monotonic()
        return "".join(f"\n    {now - at:8.3f} s ago {what}: {effect!r}" for at, what, effect in self.keys[key].trail)

    def _writes(self, key: str) -> KeyWrites:
        return self.keys.setdefault(key, KeyWrites())


class DataStore(ObservedStore):
    """A store that reports the commits in the data bucket to the history, those in the foreign bucket to its own, and
    those in `bucket` to the oracle."""

    def __init__(self, oracle: Oracle, bucket: str, history: WriteHistory, foreign: ForeignHistory) -> None:
        super().__init__(oracle, bucket)
        self._history, self._foreign = history, foreign

    def add(self, bucket: Bucket, version: StoredObject) -> StoredObject:
        if bucket.name == DATA:
            self._history.record_commit(version.key, b"".join(version.content.views(0, CELL)))
        elif bucket.name == FOREIGN:
            self._foreign.record_commit(version.key, version.etag)
        return super().add(bucket, version)

    def delete(self, bucket: str, key: str, version_id: str | None = None) -> StoredObject | None:
        if bucket == DATA:
            self._history.record_commit(key, b"")
        elif bucket == FOREIGN:
            self._foreign.record_commit(key, GONE)
        return super().delete(bucket, key, version_id)


def effect_of(body: bytes) -> str:
    """The effect that the first cell of a content names."""
    return b"|".join(body[:CELL].split(b"|")[:2]).decode()


def _wrong_bytes(body: bytes, expected: Sequence[bytes]) -> str:
    """Of a body of the right length: how many bytes are wrong, and which values these have."""
    found = [[byte for byte, good in zip(body, right, strict=False) if byte != good] for right in expected]
    wrong = min(found, key=len, default=[])
    return f"{len(wrong)} wrong bytes of {sorted({*wrong})[:8]}"


def _etag_of(body: bytes, parts: Sequence[int]) -> str:
    if not parts:
        return f'"{_md5(body).hexdigest()}"'
    ends = [sum(parts[: number + 1]) for number in range(len(parts))]
    digests = [_md5(body[end - size : end]).digest() for size, end in zip(parts, ends, strict=True)]
    return f'"{_md5(b"".join(digests)).hexdigest()}-{len(parts)}"'


def _md5(data: bytes) -> "hashlib._Hash":
    return hashlib.md5(data, usedforsecurity=False)
