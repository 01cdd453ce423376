"""After a power cut at any call, what is kept beside the journal is whole: the state that was acknowledged, or the one
that was about to replace it. Of a plan that is replaced, the one before it may come back.

The journal has its own (tests/storage/journal/test_recovery_scan_power_loss.py). Here are the files of the state
directory: pins, the run record, plans and key lists, jobs, recordings.
"""

import os
import struct
from collections.abc import AsyncIterator
from contextlib import nullcontext, suppress
from hashlib import sha256
from pathlib import Path
from random import Random
from typing import Final, NamedTuple

import pytest

from forebay.jobs.plans.plan_entries import PlanEntry
from forebay.jobs.plans.plan_files import plan_id
from forebay.jobs.plans.plan_store import PlanRecord, PlanStore
from forebay.jobs.plans.plan_window import PlanStart
from forebay.jobs.recordings.recording import Recording
from forebay.jobs.recordings.recording_files import RecordingFiles
from forebay.jobs.state.inventory import Inventory, InventoryEntry
from forebay.jobs.state.job_progress import WarmUpFailure
from forebay.jobs.state.job_store import JobStore
from forebay.policy.grants import Grant, Principal
from forebay.policy.path_patterns import Pattern
from forebay.policy.pins import Pin
from forebay.protocol.operations import Access
from forebay.protocol.recordings.recording_page import RecordingPage
from forebay.storage.cache_origin import CacheOrigin
from forebay.storage.pin_file import PinFile
from forebay.storage.run_record import begin_run
from harness.loader_orders import index_of, sample_keys, whole_reads
from harness.numbered_reads import NumberedReader
from harness.power_cuts import PowerCuts
from harness.recording_content import filtered, keys_in, recording_of

SCALE: Final = int(os.environ.get("FOREBAY_CRASH_SCALE", "0"))
SEEDS: Final = range(max(1, SCALE // 2))
STATES: Final = 2000 if SCALE else 200
"""Of each program and seed."""
PINS: Final = tuple(Pin("bucket", f"{'train' * 20}/{number}", float(number)) for number in range(20))


@pytest.fixture(params=SEEDS)
def random(request: pytest.FixtureRequest) -> Random:
    return Random(request.param)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """What the machine has; the state directory in it is made by the program."""
    found = tmp_path / "machine"
    found.mkdir()
    return found


def test_pins_are_those_before_or_those_that_were_set(tmp_path: Path, directory: Path, random: Random) -> None:
    possible: frozenset[tuple[Pin, ...]] = frozenset({()})
    cuts = PowerCuts(directory, lambda: possible)
    with cuts.recorded():
        file = PinFile(directory / "lib" / "state" / "pins.json")
        for pins in (PINS[:1], PINS, PINS[5:], ()):
            possible |= {pins}
            file.save(pins)
            possible = frozenset({pins})
    assert cuts.moments > 20
    for left, promised in cuts.states(tmp_path / "left", random, STATES):
        assert PinFile(left / "lib" / "state" / "pins.json").load() in promised


def test_a_run_that_has_begun_is_never_forgotten(tmp_path: Path, directory: Path, random: Random) -> None:
    """Else the next run would trust what an earlier one has left in the SSD tier's directory."""
    origins = [CacheOrigin.of("https://one.test", "shared"), CacheOrigin.of("https://two.test")]
    over: frozenset[str] = frozenset()
    cuts = PowerCuts(directory, lambda: over)
    state = directory / "state"
    with cuts.recorded():
        runs = [begin_run(str(state), *origins)]
        for _ in range(2):
            runs.append(begin_run(str(state), *origins))
            over |= {runs[-2].id}
        runs[-1].detach()
        over |= {runs[-1].id}
    assert cuts.moments > 20
    for left, ended in cuts.states(tmp_path / "left", random, STATES):
        assert begin_run(str(left / "state"), *origins).predecessor not in ended


BEFORE: Final = "boot-1"
NOW: Final = "boot-2"
ALL: Final = Principal("p", (Grant(Pattern("**"), frozenset({Access.READ})),))
KEYS: Final = "".join(f"set/{number:05}\n" for number in range(300)).encode()
PLAN: Final = plan_id("bucket", "p", "order")


async def pieces(content: bytes) -> AsyncIterator[bytes]:
    yield content


def compact(count: int) -> bytes:
    return b"FBPLAN1\n" + sha256(KEYS).digest() + struct.pack(f"<II{count}I", 0, count, *range(count))


async def entries_of(store: PlanStore) -> tuple[PlanEntry, ...] | None:
    loaded = await store.load(PLAN)
    if loaded is None:
        return None
    _, entries, start = loaded
    assert 0 <= start.position <= entries.count
    try:
        return tuple(entries.read(0, entries.count))
    finally:
        entries.close()


async def test_a_plan_is_whole_or_gone(tmp_path: Path, directory: Path, random: Random) -> None:
    """None is synced: the sender of a plan that a power cut has cost sends another one."""
    plans = {
        b"a\nb\n": [PlanEntry("a"), PlanEntry("b")],
        b"".join(b"%05d\t5-9\n" % number for number in range(200)): [PlanEntry(f"{n:05}", 5, 10) for n in range(200)],
        compact(40): [PlanEntry(f"set/{number:05}") for number in range(40)],
        b"c\n": [PlanEntry("c")],
        compact(250): [PlanEntry(f"set/{number:05}") for number in range(250)],
    }
    sent = {None, *(tuple(entries) for entries in plans.values())}
    possible = sent
    cuts = PowerCuts(directory, lambda: possible)
    store, facts = (
        PlanStore(directory / "state" / "plans", boot=BEFORE),
        PlanRecord(PLAN, "bucket", "p", "order", 1.0, 0, 0),
    )
    with cuts.recorded():  # the threads of the store begin in here
        await store.receive_keys("bucket", "p", sha256(KEYS).hexdigest(), pieces(KEYS))
        for body in plans:
            record = await store.receive(facts, ALL, pieces(body))
            await store.record_position(record, PlanStart(1, 2, unread=frozenset()))
        await store.remove_any(PLAN)
        possible = {None}
    states, there = 0, 0
    for left, promised in cuts.states(tmp_path / "left", random, STATES):
        after = PlanStore(left / "state" / "plans", boot=NOW)
        found = await entries_of(after)
        assert found in promised
        states, there = states + 1, there + (found is not None)
        assert found is not None or PLAN not in await after.plans(), "what is damaged is removed"
    assert states > 100
    assert there > 10, states


class _Job(NamedTuple):
    """What a job's directory says."""

    done: int
    listed: int | None
    """Entries of the inventory; None: it has none."""
    failures: tuple[WarmUpFailure, ...]


def job_in(directory: Path) -> _Job | None:
    store = JobStore(directory)
    records = store.claim_all()
    documents = [(record, record.load()) for record in records]
    found = [(record, document) for record, document in documents if document is not None]
    assert len(found) < 2
    try:
        for record, document in found:
            record.drop_later_failures()
            inventory, failures = record.load_inventory(), record.failures(0, 100)
            listed = len(inventory) if inventory is not None else None
            return _Job(int(document["done"]), listed, tuple(failures))
    finally:
        store.close()
    return None


def test_a_job_goes_on_where_its_record_says(tmp_path: Path, directory: Path, random: Random) -> None:
    jobs, inventory, failures = directory / "state" / "jobs", Inventory(), list[WarmUpFailure]()
    possible: set[_Job | None] = {None}
    cuts = PowerCuts(directory, lambda: frozenset(possible))
    with cuts.recorded():
        record = JobStore(jobs).create("a1")
        assert record is not None
        for done in range(3):
            for number in range(300):
                inventory.add(InventoryEntry("bucket", f"{random.getrandbits(64):x}/{number}", number))
            failures += [WarmUpFailure("bucket", f"{done}/{number}", "why" * 60) for number in range(4)]
            possible |= {each._replace(listed=len(inventory)) for each in possible if each is not None}
            record.save_inventory(inventory)
            possible = {each._replace(listed=len(inventory)) for each in possible if each is not None} or {None}
            possible |= {_Job(done, len(inventory), tuple(failures))}
            record.add_failures(failures[-4:])
            record.save({"done": done})
            assert record.is_usable
            possible = {_Job(done, len(inventory), tuple(failures))}
        possible |= {each._replace(listed=None) for each in possible if each is not None}
        record.drop_inventory()
    states, there = 0, 0
    for left, promised in cuts.states(tmp_path / "left", random, STATES):
        found = job_in(left / "state" / "jobs")
        assert found in promised
        states, there = states + 1, there + (found is not None)
    assert (states > 50, there > 20) == (True, True), (states, there)


READ: Final = sample_keys(120)
SENT: Final = recording_of(READ)


class _Recordings(NamedTuple):
    """What is promised of recordings, by id."""

    kept: frozenset[str]
    """There, whole."""
    gone: frozenset[str]


def new_recording(recording_id: str) -> Recording:
    return Recording(recording_id, "bucket", recording_id, "user", "set", "recording", 100.0, "run", 1)


def uploaded(files: RecordingFiles, recording_id: str) -> None:
    recording = new_recording(recording_id)
    recording.state, recording.index = "saved", filtered(SENT).index
    files.create(recording, SENT)


def recorded(files: RecordingFiles, recording_id: str) -> Recording:
    recording, reader = new_recording(recording_id), NumberedReader()
    for start in range(0, 100, 20):
        files.append(recording, reader.page(READ[start : start + 20]))
        files.flush()
    files.write_tail(recording, 100, [RecordingPage.of(whole_reads(READ[100:110]))])
    files.append(recording, RecordingPage.of(whole_reads(READ[100:])))
    recording.state, recording.ended, recording.index = "automatic", 200.0, index_of(READ)
    files.end(recording)
    return recording


def test_recordings_are_whole_cut_or_said_to_be_damaged(tmp_path: Path, directory: Path, random: Random) -> None:
    promise = _Recordings(frozenset(), frozenset())
    cuts = PowerCuts(directory, lambda: promise)
    sent, other, made, named = (f"{number:016x}" for number in range(4))
    with cuts.recorded():
        files = RecordingFiles(directory / "state" / "recordings")
        uploaded(files, sent)
        promise = promise._replace(kept=frozenset({sent}))
        recorded(files, made)
        uploaded(files, other)
        promise = promise._replace(kept=frozenset({sent, other}))
        recording = recorded(files, named)
        recording.state = "saved"
        files.save(recording)
        promise = promise._replace(kept=frozenset({other, named}))
        files.delete(sent)
        promise = promise._replace(gone=frozenset({sent}))
        files.close()
    whole = cut = 0
    for left, promised in cuts.states(tmp_path / "left", random, STATES):
        files = RecordingFiles(left / "state" / "recordings")
        found = {each.id for each in files.load()}
        assert promised.kept <= found
        assert not promised.gone & found
        for each in found:
            with suppress(FileNotFoundError) if each not in promised.kept else nullcontext():
                keys = keys_in(files.read(each))
                assert keys == READ[: len(keys)]
                whole, cut = whole + (keys == READ), cut + (keys != READ)
                assert keys == READ or each in {made, named} - promised.kept
        files.close()
    assert (whole > 50, cut > 0) == (True, True), (whole, cut)
