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

from forebay.peers.ownership_claims import AHEAD, FILE_NAME, HEADER, MAX_WORKERS, SHARE_AHEAD, SLOTS, OwnershipClaims

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


def test_what_a_worker_claims_is_its_own_for_all(workers: list[OwnershipClaims]) -> None:
    one, other = workers
    assert one.claim(7, by_hash=1) == 0
    assert other.claim(7, by_hash=1) == 0, "the second one comes too late"
    assert other.owner(7, by_hash=1) == 0


def test_who_only_asks_gives_it_to_the_owner_by_hash(workers: list[OwnershipClaims]) -> None:
    one, other = workers
    assert one.owner(7, by_hash=1) == 1
    assert one.claim(7, by_hash=1) == 1, "it is recorded: the owner may have begun"
    assert other.owner(7, by_hash=0) == 1


def test_what_shares_a_slot_has_one_owner(workers: list[OwnershipClaims]) -> None:
    assert workers[0].claim(7, by_hash=1) == 0
    assert workers[1].claim(7 + SLOTS, by_hash=1) == 0


def test_a_worker_that_is_asked_alone_leaves_some_to_the_others(workers: list[OwnershipClaims]) -> None:
    owners = Counter(workers[0].claim(each, by_hash=at % 2) for at, each in enumerate(HASHES))
    left = len(HASHES) - AHEAD
    assert owners[1] == pytest.approx(left / 2, abs=AHEAD / 8)


def test_a_worker_may_be_ahead_by_a_share(workers: list[OwnershipClaims]) -> None:
    one, other = workers
    assert {other.claim(each, by_hash=0) for each in HASHES[:200]} == {1}
    owners = [one.claim(each, by_hash=1) for each in HASHES[200:]]
    assert owners.index(1) == 200 + 200 // SHARE_AHEAD + AHEAD + 1


def test_a_claim_is_counted_once(workers: list[OwnershipClaims]) -> None:
    one, _ = workers
    assert {one.claim(7, by_hash=1) for _ in range(3 * AHEAD)} == {0}
    assert one.claim(8, by_hash=1) == 0, "it is one ahead"


def test_a_claim_made_while_another_waited_for_its_turn_holds(tmp_path: Path, workers: list[OwnershipClaims]) -> None:
    first = workers[0]

    class Late(OwnershipClaims):
        def _try_lock(self, slot: int) -> bool:
            assert first.claim(7, by_hash=1) == 0
            return super()._try_lock(slot)

    late = Late.open(tmp_path / FILE_NAME, 1, 2)
    assert late is not None
    with closing(late):
        assert late.claim(7, by_hash=1) == 0
    assert first.owner(7, by_hash=1) == 0


def test_a_successor_has_what_its_number_has_claimed(tmp_path: Path) -> None:
    with closing(opened(tmp_path, 0)) as killed:
        assert killed.claim(7, by_hash=1) == 0
    with closing(opened(tmp_path, 0)) as successor:
        assert successor.owner(7, by_hash=1) == 0


def test_processes_that_claim_at_once_agree(tmp_path: Path) -> None:
    with ProcessPoolExecutor(2, get_context("spawn")) as pool:
        first, second = pool.map(_claim_all, [tmp_path] * 2, (0, 1))
    assert first == second


def _claim_all(directory: Path, number: int) -> list[int]:
    with closing(opened(directory, number)) as claims:
        for each in HASHES:
            claims.claim(each, by_hash=number)  # they differ, which those of a node do not
        return [claims.owner(each, by_hash=number) for each in HASHES]


def test_a_claim_that_another_worker_is_making_is_not_waited_for(
    tmp_path: Path, workers: list[OwnershipClaims]
) -> None:
    held = os.open(tmp_path / FILE_NAME, os.O_RDWR)
    try:
        lock = struct.pack("hhqqixxxx", fcntl.F_WRLCK, os.SEEK_SET, HEADER + 7, 1, 0)
        fcntl.fcntl(held, fcntl.F_OFD_SETLK, lock)
        assert workers[0].claim(7, by_hash=1) == 1, "for once"
    finally:
        os.close(held)
    assert workers[0].claim(7, by_hash=1) == 0, "nothing was recorded"


@pytest.mark.parametrize(("directory", "count"), [("missing", 2), (".", MAX_WORKERS + 1)])
def test_without_a_file_there_are_no_claims(tmp_path: Path, directory: str, count: int) -> None:
    assert OwnershipClaims.open(tmp_path / directory / FILE_NAME, 0, count) is None
