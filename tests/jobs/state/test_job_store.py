"""Records of jobs: what a process writes, the next one reads; what is damaged costs the record alone."""

import errno
import json
import threading
from pathlib import Path

import pytest

from forebay.jobs.state.inventory import PAGE_OBJECTS, Inventory, InventoryEntry
from forebay.jobs.state.job_progress import WarmUpFailure
from forebay.jobs.state.job_store import JobRecord, JobStore
from harness.file_calls import FileCalls
from harness.journal_points import FailOnce

FAILURES = [WarmUpFailure("b", f"k\n{number}", "why") for number in range(5)]


def test_a_record_is_claimed_by_one_process_at_a_time(tmp_path: Path) -> None:
    store, other = JobStore(tmp_path / "jobs"), JobStore(tmp_path / "jobs")
    assert other.claim_all() == []
    record = store.create("a1")
    assert record is not None
    record.save({"id": "a1"})
    assert (other.claim_all(), store.claim_all()) == ([], [])
    store.close()
    [claimed] = other.claim_all()
    assert claimed.load() == {"version": 1, "failures": 0, "id": "a1"}
    other.remove(claimed)
    assert list((tmp_path / "jobs").iterdir()) == []


def test_a_record_that_is_being_made_is_not_claimed(tmp_path: Path) -> None:
    store, other = JobStore(tmp_path), JobStore(tmp_path)
    made: list[JobRecord | None] = []

    def claim() -> None:
        while len(made) < 1000:
            other.claim_all()

    claimer = threading.Thread(target=claim)
    claimer.start()
    for number in range(1000):
        record = store.create(f"{number:04x}")
        if record is not None:
            store.remove(record)
        made.append(record)
    claimer.join()
    other.close()
    assert None not in made


def test_an_inventory_comes_back(tmp_path: Path) -> None:
    inventory = Inventory()
    for number in range(PAGE_OBJECTS + 3):
        inventory.add(InventoryEntry("b", f"k{number}", number, number, None if number % 2 else number + 1))
    record = JobStore(tmp_path).create("a1")
    assert record is not None
    record.save_inventory(inventory)
    found = record.load_inventory()
    assert found is not None
    assert list(found.pages()) == list(inventory.pages())
    assert (found.known_bytes, found.buckets) == (inventory.known_bytes, {"b"})
    file = tmp_path / "a1" / "inventory"
    for damaged in (file.read_bytes()[:-1], b"\0\0\0\5hello", b"\0"):
        file.write_bytes(damaged)
        assert record.load_inventory() is None
    record.drop_inventory()
    assert record.load_inventory() is None


def test_failures_that_the_record_does_not_count_are_dropped(tmp_path: Path) -> None:
    store = JobStore(tmp_path)
    record = store.create("a1")
    assert record is not None
    record.add_failures(FAILURES[:2])
    record.save({})
    record.add_failures(FAILURES[2:])
    assert record.failures(1, 10) == FAILURES[1:]
    store.close()
    [claimed] = JobStore(tmp_path).claim_all()
    claimed.load()
    claimed.drop_later_failures()
    claimed.add_failures(FAILURES[4:])
    assert claimed.failures(0, 10) == [*FAILURES[:2], FAILURES[4]]


def test_a_record_that_is_not_understood_is_none(tmp_path: Path) -> None:
    record = JobStore(tmp_path).create("a1")
    assert record is not None
    file = tmp_path / "a1" / "record.json"
    for text in ("{", "[]", json.dumps({"version": 2, "failures": 0}), json.dumps({"version": 1})):
        file.write_text(text)
        assert record.load() is None


def test_a_record_that_can_not_be_read_is_no_damaged_one(tmp_path: Path) -> None:
    record = JobStore(tmp_path).create("a1")
    assert record is not None
    (tmp_path / "a1" / "record.json").mkdir()
    with pytest.raises(IsADirectoryError):
        record.load()


def test_a_kill_while_an_inventory_is_replaced_leaves_one(tmp_path: Path) -> None:
    record, found = JobStore(tmp_path).create("a1"), list[int | None]()
    assert record is not None
    inventory = Inventory()
    inventory.add(InventoryEntry("b", "k0", 0))
    record.save_inventory(inventory)
    inventory.add(InventoryEntry("b", "k1", 1))

    def look(_: str) -> None:
        kept = record.load_inventory()
        found.append(len(kept) if kept is not None else None)

    with FileCalls(look).watched():
        record.save_inventory(inventory)
    assert set(found) == {1, 2}


@pytest.mark.parametrize("nth", range(20))
def test_any_call_may_fail_while_a_record_is_made(tmp_path: Path, nth: int) -> None:
    """Then there is none, also for others, or all of it."""
    store = JobStore(tmp_path / "jobs")
    with FileCalls(FailOnce(None, nth, errno.EIO)).watched():
        record = store.create("a1")
    store.close()
    assert len(JobStore(tmp_path / "jobs").claim_all()) == (record is not None)


def test_a_directory_that_is_no_directory_costs_the_record_alone(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert JobStore(tmp_path / "file" / "jobs").create("a1") is None
    record = JobStore(tmp_path).create("a1")
    assert record is not None
    (tmp_path / "a1").rename(tmp_path / "gone")
    record.save({})
    record.save_inventory(Inventory())
    record.add_failures(FAILURES)
    assert not record.is_usable
    assert record.failures(0, 1) == []
