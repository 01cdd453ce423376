"""The oracle of the soak: verifies each response against the writes that the origin committed.

Each key has one writer, who numbers its writes; a deletion counts as a write. The origin's store reports the order of
the commits: a write whose response was lost may be committed late, or never. A response is right if

    its version was the origin's current state at some time after the commit of the last write that had been
    acknowledged when the request began

and every byte is that version's, at its offset. The exception is a byte that was overwritten in the SSD's file while
the response was being sent, which no check can detect (docs/decisions/0022-send-verified-extents-unread.md).
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
    """The state of one key at the origin."""

    states: list[int] = field(default_factory=lambda: [NOTHING])
    """The versions in commit order."""
    begun: int = 0
    acknowledged: int = 0
    """The index in `states` of the last acknowledged write."""
    etags: list[str] = field(default_factory=list)
    """Of the committed versions, in that order."""


class Snapshot(NamedTuple):
    """The state when a request was created."""

    acknowledged: int
    """Of the last write that had been acknowledged, among the states of its key."""
    damages: int
    """How often files had been damaged."""


class ObservedStore(Store):
    """A store that reports the commits in one bucket to the oracle."""

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
        """Bytes that were overwritten in segments."""

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
        """The state before a request begins; passed to the check of its response."""
        return Snapshot(self.keys[name].acknowledged, self.damages)

    def verify_version(self, name: str, since: Snapshot, version: int) -> None:
        possible = self.keys[name].states[since.acknowledged :]
        assert version in possible, f"{name}: answered with {version}, but it can only have been one of {possible}"

    def verify_not_version(self, name: str, since: Snapshot, version: int) -> None:
        """Verifies a response that says the object exists in another version than this."""
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
        """Verifies the bytes of a body."""
        if answer.body != expected:
            assert self._may_be_damaged(since, answer, expected), f"{what}: {_difference(answer, expected)}"
            self.done["damaged on their way"] += 1

    def _may_be_damaged(self, since: Snapshot, answer: RawAnswer, expected: bytes) -> bool:
        """Whether the wrong bytes of an SSD hit may have been overwritten since its request."""
        is_comparable = answer.headers["x-forebay-cache"] == "hit-ssd" and len(answer.body) == len(expected)
        return is_comparable and self.is_damage(since.damages, answer.body, expected)

    def is_damage(self, since: int, body: bytes, expected: bytes) -> bool:
        """Whether the soak may have made all wrong bytes of `body`, since it had damaged so many. The blocks of an
        object may lie in several segments, each of which has a byte overwritten."""
        wrong = [byte for byte, right in zip(body, expected, strict=True) if byte != right]
        return set(wrong) == {DAMAGE} and len(wrong) <= self.damages - since

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
