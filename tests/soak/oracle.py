"""What may be answered, told from what became of every write at the origin.

Each key has one writer, who numbers its writes; a deletion is a write as well. The origin's store tells in which order
they came about: a write whose answer was lost may come about late, or never. An answer is right if

    what it tells of was the origin's current state at some time since the last write that had been acknowledged when
    the request began came about

and every byte of it is that version's, in its place; but for one that was written over in the SSD's file while the
answer was on its way, which no check can see (docs/decisions/0022-send-verified-extents-unread.md).
"""

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from harness.fake.store import Bucket, Store, StoredObject
from harness.raw_connection import RawAnswer
from soak.cell_content import CELL, content, version_in

DAMAGE: Final = 0xFF
"""What is written over a byte. No version has one."""
NOTHING: Final = 0
"""The state of a key that was never written to, or was deleted, as a version."""


@dataclass
class Key:
    """What became of one key at the origin."""

    states: list[int] = field(default_factory=lambda: [NOTHING])
    """The versions in the order in which they came about."""
    begun: int = 0
    acknowledged: int = 0
    """The place in `states` of the last write that was acknowledged."""
    etags: list[str] = field(default_factory=list)
    """Of the versions that came about, in that order."""


class Snapshot(NamedTuple):
    """When a request was made up."""

    acknowledged: int
    """Of the last write that had been acknowledged, among the states of its key."""
    damages: int
    """How often files had been damaged."""


class ObservedStore(Store):
    """A store that tells of what comes about in a bucket."""

    def __init__(self, oracle: "Oracle", bucket: str) -> None:
        super().__init__()
        self._oracle = oracle
        self._bucket = bucket

    def add(self, bucket: Bucket, version: StoredObject) -> StoredObject:
        stored = super().add(bucket, version)
        if bucket.name == self._bucket:
            self._oracle.record_commit(version.key, stored.etag, b"".join(version.content.views(0, CELL)))
        return stored

    def delete(self, bucket: str, key: str, version_id: str | None = None) -> StoredObject | None:
        if bucket == self._bucket:
            self._oracle.record_commit(key, "", b"")
        return super().delete(bucket, key, version_id)


class Oracle:
    """See the module. `done` counts what was done, for people."""

    def __init__(self) -> None:
        self.keys: defaultdict[str, Key] = defaultdict(Key)
        self.sizes: dict[tuple[str, int], int] = {}
        self.etags: dict[tuple[str, str], int] = {}
        self.done: Counter[str] = Counter()
        self.damages = 0
        """How often a byte was written over in each of the SSD's files."""

    # Writing

    def begin(self, name: str, size: int) -> bytes:
        """What to write as the next version of a key."""
        key = self.keys[name]
        key.begun += 1
        self.sizes[name, key.begun] = size
        return content(name, key.begun, size)

    def record_commit(self, name: str, etag: str, cell: bytes) -> None:
        version = version_in(cell) if cell else NOTHING
        self.keys[name].states.append(version)
        if version:
            self.etags[name, etag] = version
            self.keys[name].etags.append(etag)

    def acknowledge(self, name: str, version: int) -> None:
        """A write of this version (NOTHING: a deletion) was answered with success."""
        key = self.keys[name]
        places = [directory for directory, state in enumerate(key.states) if state == version]
        assert places, f"{name}: version {version} was acknowledged, and the origin has never had it"
        key.acknowledged = max(key.acknowledged, places[-1])

    # Reading

    def snapshot(self, name: str) -> Snapshot:
        """To be noted before a request begins, and given to what judges its answer."""
        return Snapshot(self.keys[name].acknowledged, self.damages)

    def verify_version(self, name: str, since: Snapshot, version: int) -> None:
        possible = self.keys[name].states[since.acknowledged :]
        assert version in possible, f"{name}: answered with {version}, but it can only have been one of {possible}"

    def verify_not_version(self, name: str, since: Snapshot, version: int) -> None:
        """It was answered that there is an object, and that it is not this version."""
        possible = self.keys[name].states[since.acknowledged :]
        assert {*possible} - {version, NOTHING}, f"{name}: no other than {version} was told of, of {possible}"

    def verify_head(self, name: str, since: Snapshot, answer: RawAnswer) -> None:
        version = self._verified_version(name, since, answer)
        assert int(answer.headers["Content-Length"]) == self.sizes[name, version], f"{name}: another size"

    def verify_body(self, name: str, since: Snapshot, answer: RawAnswer, first: int) -> None:
        """`first`: where a body that is a range begins."""
        version = self._verified_version(name, since, answer)
        start = first if answer.status == 206 else 0
        expected = content(name, version, self.sizes[name, version])[start:]
        if answer.status == 206:
            expected = expected[: len(answer.body)]
        self.verify_bytes(f"{name}, version {version}", since, answer, expected)

    def _verified_version(self, name: str, since: Snapshot, answer: RawAnswer) -> int:
        """The version that its ETag names, which is a right one."""
        version = self.etags.get((name, etag_of(answer)))
        assert version is not None, f"{name}: an ETag that no version has had"
        self.verify_version(name, since, version)
        return version

    def verify_bytes(self, what: str, since: Snapshot, answer: RawAnswer, expected: bytes) -> None:
        """Whether it has the very bytes."""
        if answer.body != expected:
            assert self._may_be_damaged(since, answer, expected), f"{what}: {_difference(answer, expected)}"
            self.done["damaged on their way"] += 1

    def _may_be_damaged(self, since: Snapshot, answer: RawAnswer, expected: bytes) -> bool:
        """Whether it may be that of an answer from the SSD one byte was written over since it was asked for."""
        if answer.headers["x-forebay-cache"] != "hit-ssd" or self.damages == since.damages:
            return False
        pairs = zip(answer.body, expected, strict=True) if len(answer.body) == len(expected) else ()
        return [byte for byte, right in pairs if byte != right] == [DAMAGE]

    def current_version(self, name: str) -> int:
        """The origin's current state."""
        return self.keys[name].states[-1]


def etag_of(answer: RawAnswer) -> str:
    """As S3 writes it: OSS takes capitals."""
    return answer.headers["ETag"].lower()


def _difference(answer: RawAnswer, expected: bytes) -> str:
    """What an answer has that it should not have: where it came from, how many cells are wrong, and the first few."""
    cells = [(answer.body[at : at + CELL], expected[at : at + CELL]) for at in range(0, len(expected), CELL)]
    wrong = [(number, cell) for number, (cell, right) in enumerate(cells) if cell != right]
    told = f"{answer.status}, {answer.headers['x-forebay-cache']}, {len(answer.body)} bytes for {len(expected)}"
    return f"{told}; {len(wrong)} of {len(cells)} cells are wrong: {wrong[:4]}"
