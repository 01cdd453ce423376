"""Who owns an object that nobody has asked for: whoever is asked first, and the same worker for all from then on."""

import fcntl
import os
import struct
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, closing
from multiprocessing import get_context
from pathlib import Path

import pytest

from forebay.peers.ownership_claims import (
    AHEAD,
    FILE_NAME,
    HEADER,
    MAX_WORKERS,
    SHARE_AHEAD,
    SLOTS,
    OwnershipClaims,
)

HASHES = [number * 0x9E3779B97F4A7C15 & (1 << 64) - 1 for number in range(1, 3001)]


@pytest.fixture
def workers(tmp_path: Path) -> Iterator[list[OwnershipClaims]]:
    """Two workers of one node."""
    with ExitStack() as stack:
        yield [stack.enter_context(closing(opened(tmp_path, number))) for number in (0, 1)]


def opened(directory: Path, number: int, workers: int = 2) -> OwnershipClaims:
    claims = OwnershipClaims.open(directory / FILE_NAME, number, workers)
    assert claims is not None
    return claims


def claimed(claims: OwnershipClaims, name_hash: int, by_hash: int) -> int:
    """The owner of a hash once a worker has claimed it; `by_hash` if it may not."""
    owner = claims.claim(name_hash)
    return claims.assign(name_hash, by_hash) if owner is None else owner


def test_what_a_worker_claims_is_its_own_for_all(workers: list[OwnershipClaims]) -> None:
    one, other = workers
    assert claimed(one, 7, 1) == 0
    assert claimed(other, 7, 1) == 0, "the second one comes too late"
    assert other.assign(7, 1) == 0
    assert (other.find(7), other.find(8)) == (0, None)


def test_who_only_asks_gives_it_to_the_owner_by_hash(workers: list[OwnershipClaims]) -> None:
    one, other = workers
    assert one.assign(7, 1) == 1
    assert claimed(one, 7, 1) == 1, "it is recorded: the owner may have begun"
    assert other.assign(7, 0) == 1


def test_what_shares_a_slot_has_one_owner(workers: list[OwnershipClaims]) -> None:
    assert claimed(workers[0], 7, 1) == 0
    assert claimed(workers[1], 7 + SLOTS, 1) == 0


def test_a_worker_that_is_asked_alone_leaves_some_to_the_others(workers: list[OwnershipClaims]) -> None:
    owners = Counter(claimed(workers[0], each, at % 2) for at, each in enumerate(HASHES))
    left = len(HASHES) - AHEAD
    assert owners[1] == pytest.approx(left / 2, abs=AHEAD / 8)


def test_a_worker_may_be_ahead_by_a_share(workers: list[OwnershipClaims]) -> None:
    one, other = workers
    assert {claimed(other, each, 0) for each in HASHES[:200]} == {1}
    owners = [claimed(one, each, 1) for each in HASHES[200:]]
    assert owners.index(1) == 200 + 200 // SHARE_AHEAD + AHEAD + 1


def test_a_claim_is_counted_once(workers: list[OwnershipClaims]) -> None:
    one, _ = workers
    assert {claimed(one, 7, 1) for _ in range(3 * AHEAD)} == {0}
    assert claimed(one, 8, 1) == 0, "it is one ahead"


def test_a_claim_made_while_another_waited_for_its_turn_holds(tmp_path: Path, workers: list[OwnershipClaims]) -> None:
    first = workers[0]

    class Late(OwnershipClaims):
        def _try_lock(self, slot: int) -> bool:
            assert claimed(first, 7, 1) == 0
            return super()._try_lock(slot)

    late = Late.open(tmp_path / FILE_NAME, 1, 2)
    assert late is not None
    with closing(late):
        assert claimed(late, 7, 1) == 0
    assert first.assign(7, 1) == 0


def test_a_successor_has_what_its_number_has_claimed(tmp_path: Path) -> None:
    with closing(opened(tmp_path, 0)) as killed:
        assert claimed(killed, 7, 1) == 0
    with closing(opened(tmp_path, 0)) as successor:
        assert successor.assign(7, 1) == 0


def test_processes_that_claim_at_once_agree(tmp_path: Path) -> None:
    """On all that is recorded. Without the lock nothing is, for once."""
    with ProcessPoolExecutor(2, get_context("spawn")) as pool:
        first, second = pool.map(_claim_all, [tmp_path] * 2, (0, 1))
    with closing(opened(tmp_path, 0)) as claims:
        recorded = [claims.find(each) for each in HASHES]
    for found in (first, second):
        agreed = [owner for owner, known in zip(found, recorded, strict=True) if owner == known is not None]
        assert all(owner in {None, known} for owner, known in zip(found, recorded, strict=True))
        assert len(agreed) > len(HASHES) // 2


def _claim_all(directory: Path, number: int) -> list[int | None]:
    """The owners that are recorded behind a claim and a look-up of each hash."""
    with closing(opened(directory, number)) as claims:
        found = []
        for each in HASHES:
            claimed(claims, each, number)  # they differ, which those of a node do not
            claims.assign(each, number)
            found.append(claims.find(each))
        return found


def test_a_claim_that_another_worker_is_making_is_not_waited_for(
    tmp_path: Path, workers: list[OwnershipClaims]
) -> None:
    held = os.open(tmp_path / FILE_NAME, os.O_RDWR)
    try:
        lock = struct.pack("hhqqixxxx", fcntl.F_WRLCK, os.SEEK_SET, HEADER + 7, 1, 0)
        fcntl.fcntl(held, fcntl.F_OFD_SETLK, lock)
        assert claimed(workers[0], 7, 1) == 1, "for once"
    finally:
        os.close(held)
    assert claimed(workers[0], 7, 1) == 0, "nothing was recorded"


@pytest.mark.parametrize(("directory", "count"), [("missing", 2), (".", MAX_WORKERS + 1)])
def test_without_a_file_there_are_no_claims(tmp_path: Path, directory: str, count: int) -> None:
    assert OwnershipClaims.open(tmp_path / directory / FILE_NAME, 0, count) is None


def test_all_slots_are_mapped_before_the_first_claim(tmp_path: Path) -> None:
    with closing(opened(tmp_path, 0)):
        maps = Path("/proc/self/smaps").read_text()
        resident = maps[maps.index(str(tmp_path / FILE_NAME)) :].partition("Rss:")[2].split()[0]
    assert int(resident) * 1024 >= SLOTS
