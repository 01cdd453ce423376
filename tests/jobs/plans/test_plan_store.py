"""The plan store: plans are there whole or not at all, survive a restart, and are read in windows."""

import asyncio
import errno
import os
from array import array
from collections.abc import AsyncIterator
from hashlib import sha256
from pathlib import Path

import pytest

from forebay.core.errors import S3Error, Throttled
from forebay.jobs.plans.plan_entries import KeyTable, PlanEntries, PlanEntry
from forebay.jobs.plans.plan_files import PlanFiles, locked_plans, plan_id
from forebay.jobs.plans.plan_key_lists import key_list_id
from forebay.jobs.plans.plan_store import PlanRecord, PlanStore
from forebay.jobs.plans.plan_window import PlanStart
from forebay.policy.grants import Grant, Principal
from forebay.policy.path_patterns import Pattern
from forebay.protocol.operations import Access
from harness.file_calls import FileCalls
from harness.journal_points import FailOnce

OWNER = Principal("p", (Grant(Pattern("b/open/**"), frozenset({Access.READ})),))
ALL = Principal("p", (Grant(Pattern("**"), frozenset({Access.READ})),))


def names_in(directory: Path) -> list[str]:
    return [each.name for each in directory.iterdir() if not each.name.startswith(".")]


async def pieces(*content: bytes) -> AsyncIterator[bytes]:
    for piece in content:
        yield piece


async def broken(content: bytes) -> AsyncIterator[bytes]:
    yield content
    raise S3Error("IncompleteBody")


def record(name: str = "order", sent_at: float = 1.0) -> PlanRecord:
    return PlanRecord(plan_id("b", "p", name), "b", "p", name, sent_at, 0, 0)


async def receive(store: PlanStore, body: bytes, name: str = "order", principal: Principal = ALL) -> PlanRecord:
    return await store.receive(record(name), principal, pieces(body))


async def entries_of(store: PlanStore, name: str = "order") -> list[PlanEntry]:
    loaded = await store.load(plan_id("b", "p", name))
    assert loaded is not None
    _, entries, _ = loaded
    try:
        return entries.read(0, 10**6)
    finally:
        entries.close()


async def position_of(store: PlanStore, name: str = "order") -> PlanStart:
    loaded = await store.load(plan_id("b", "p", name))
    assert loaded is not None
    _, entries, start = loaded
    entries.close()
    return start


async def test_a_plan_is_kept_for_the_next_process(tmp_path: Path) -> None:
    kept = await receive(PlanStore(tmp_path / "plans"), b"a\nb\t5-9\nc\t7-\n")
    assert (kept.entries, kept.dropped) == (3, 0)
    store = PlanStore(tmp_path / "plans")
    assert await store.plans() == [kept.id]
    assert await entries_of(store) == [PlanEntry("a"), PlanEntry("b", 5, 10), PlanEntry("c", 7)]
    position = PlanStart(1, 3, unread=frozenset({1}))
    await store.record_position(kept, position)
    loaded = await store.load(kept.id)
    assert loaded is not None
    assert loaded[::2] == (kept, position)
    loaded[1].close()
    await store.remove(kept)
    assert (await store.plans(), await store.load(kept.id)) == ([], None)


async def test_the_end_of_a_plan_leaves_the_one_that_has_replaced_it(tmp_path: Path) -> None:
    """Both may be of the same second, and another worker may have received the newer one."""
    store = PlanStore(tmp_path)
    older = await receive(store, b"a\n")
    newer = await receive(PlanStore(tmp_path), b"b\nc\n")
    await store.record_position(older, PlanStart(1, 1))
    await store.remove(older)
    loaded = await store.load(newer.id)
    assert loaded is not None
    assert loaded[::2] == (newer, PlanStart())
    loaded[1].close()


async def test_a_plan_replaces_one_of_its_name(tmp_path: Path) -> None:
    store = PlanStore(tmp_path)
    await receive(store, b"a\n")
    await receive(store, b"b\nc\n")
    assert await entries_of(store) == [PlanEntry("b"), PlanEntry("c")]
    assert len(names_in(tmp_path)) == 1


async def test_a_plan_is_there_while_another_replaces_it(tmp_path: Path) -> None:
    """At every call that changes a file: the process may be killed there, or the call fail."""
    store, points = PlanStore(tmp_path), list[tuple[str, bool]]()
    file = tmp_path / record().id / "plan.json"
    with FileCalls(lambda point: points.append((point, file.exists()))).watched():  # the thread begins in here
        await receive(store, b"a\n")
        points.clear()
        await receive(PlanStore(tmp_path), b"b\nc\n")
    assert {point for point, is_there in points if not is_there} == set()
    assert len(points) > 10
    assert await entries_of(store) == [PlanEntry("b"), PlanEntry("c")]


@pytest.mark.parametrize(
    "call", ["open jobs/plans/plan_files", "unlink jobs/plans/plan_store", "fsync jobs/plans/plan_store"]
)
async def test_a_plan_that_can_not_be_removed_is_no_success(tmp_path: Path, call: str) -> None:
    """Its answer says that it may come back."""
    store, fail = PlanStore(tmp_path), FailOnce(f"before {call}", 0, errno.EIO)
    plan = plan_id("b", "p", "order")
    with FileCalls(fail).watched():
        for directory in ("other", plan):
            (tmp_path / directory).mkdir()
            (tmp_path / directory / "plan.json").write_text("{}")
        with pytest.raises(Throttled, match="can't be removed: Input/output error"):  # in a thread that begins in here
            await store.remove_any(plan)
    await store.remove_any(plan)
    await store.remove_any(plan)  # it is gone already
    assert await store.plans() == ["other"]


async def test_a_damaged_plan_is_found_in_another_boot(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    kept = await receive(PlanStore(tmp_path, boot="one"), b"a\nb\n")
    (tmp_path / kept.id / "keys").write_bytes(b"a\n\0\n")
    assert await entries_of(PlanStore(tmp_path, boot="one")) == [PlanEntry("a"), PlanEntry("\0")], "it is not verified"
    after = PlanStore(tmp_path, boot="two")
    assert await after.plans() == [kept.id]
    assert await after.load(kept.id) is None
    assert caplog.messages == ["a plan is damaged, and removed"]
    assert await after.plans() == []


async def test_the_latest_order_of_another_boot_is_not_believed(tmp_path: Path) -> None:
    """A power cut may have brought an older one back."""
    for number in range(3):
        await receive(PlanStore(tmp_path, boot="one"), b"a\n", f"{number}")
    (tmp_path / ".order").write_text("1 one")
    await receive(PlanStore(tmp_path, boot="two"), b"a\n", "latest")
    assert (await PlanStore(tmp_path, boot="two").plans())[-1] == plan_id("b", "p", "latest")


async def test_a_damaged_position_is_the_beginning(tmp_path: Path) -> None:
    store = PlanStore(tmp_path)
    kept = await receive(store, b"a\nb\nc\n")
    await store.record_position(kept, PlanStart(1, 3, unread=frozenset({2})))
    file = tmp_path / kept.id / "position"
    whole = file.read_bytes()
    for damaged in (b"", whole[:-2], bytes(len(whole)), whole[:-1] + b"1"):
        file.write_bytes(damaged)
        assert await position_of(store) == PlanStart()
    file.write_bytes(whole)
    assert await position_of(store) == PlanStart(1, 3, unread=frozenset({2}))


@pytest.mark.parametrize("error", [errno.EINVAL, errno.ENOSYS])
async def test_a_plan_is_replaced_where_names_can_not_be_exchanged(tmp_path: Path, error: int) -> None:
    """By file systems like NFS, or the kernel."""

    def refuse(_first: Path, _second: Path) -> None:
        raise OSError(error, os.strerror(error))

    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "keys").write_bytes(b"before")
    async with PlanFiles(tmp_path, exchange=refuse) as files:
        files.append("keys", b"behind")
        await files.keep("kept")
    assert (tmp_path / "kept" / "keys").read_bytes() == b"behind"
    assert names_in(tmp_path) == ["kept"]


async def test_a_plan_that_can_not_replace_another_leaves_it(tmp_path: Path) -> None:
    def refuse(_first: Path, _second: Path) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "keys").write_bytes(b"before")
    async with PlanFiles(tmp_path, exchange=refuse) as files:
        files.append("keys", b"behind")
        with pytest.raises(S3Error, match="can't be kept"):
            await files.keep("kept")
    assert (tmp_path / "kept" / "keys").read_bytes() == b"before"
    assert names_in(tmp_path) == ["kept"]


async def test_a_body_that_breaks_off_leaves_the_plan_before_it(tmp_path: Path) -> None:
    store = PlanStore(tmp_path)
    await receive(store, b"a\n")
    with pytest.raises(S3Error, match="IncompleteBody"):
        await store.receive(record(), ALL, broken(b"b\n" * 100))
    assert await entries_of(store) == [PlanEntry("a")]
    assert len(names_in(tmp_path)) == 1


@pytest.mark.parametrize("name", ["offsets", "keys", "plan.json"])
async def test_a_damaged_plan_is_none_and_removed(tmp_path: Path, name: str) -> None:
    store = PlanStore(tmp_path)
    kept = await receive(store, b"a\nb\n")
    file = tmp_path / kept.id / name
    file.write_bytes(file.read_bytes()[:-1])
    assert await store.load(kept.id) is None
    assert names_in(tmp_path) == []
    await receive(store, b"a\nb\n")
    assert (await entries_of(store)) == [PlanEntry("a"), PlanEntry("b")]


async def test_indices_share_one_list_of_keys(tmp_path: Path) -> None:
    store, listed = PlanStore(tmp_path), b"open/a\nsecret/b\nopen/c\n"
    digest = sha256(listed).hexdigest()
    received = await store.receive_keys("b", "p", digest, pieces(listed[:9], listed[9:]))
    assert received.keys == 3
    assert await store.key_lists.find("b", "p", digest) == received
    assert await store.key_lists.find("b", "q", digest) is None

    def compact(*indices: int) -> bytes:
        return b"FBPLAN1\n" + bytes.fromhex(digest) + bytes(4) + array("I", [len(indices), *indices]).tobytes()

    kept = await receive(store, compact(2, 0, 1, 2))
    assert [entry.key for entry in await entries_of(store)] == ["open/c", "open/a", "secret/b", "open/c"]
    assert kept.keys == key_list_id("b", "p", digest)
    partly = await receive(store, compact(2, 0, 1, 2), "partly", OWNER)
    assert (partly.entries, partly.dropped) == (3, 1)
    assert [entry.key for entry in await entries_of(store, "partly")] == ["open/c", "open/a", "open/c"]
    loaded = await store.load(kept.id)
    assert loaded is not None
    entries = loaded[1]
    assert [entries.find(key) for key in ("open/c", "secret/b", "open/d")] == [0, 2, None]
    assert entries.find("open/c", 1) == 3
    entries.close()


async def test_rights_are_asked_for_all_of_a_long_list(tmp_path: Path) -> None:
    """Some thousand keys are looked at together; those of the first may all be readable."""
    listed = b"".join(b"open/%05d\n" % number for number in range(5000)) + b"secret/b\n" + b"open/z\n" * 5000
    store, digest = PlanStore(tmp_path), sha256(listed).hexdigest()
    await store.receive_keys("b", "p", digest, pieces(listed))
    header = b"FBPLAN1\n" + bytes.fromhex(digest) + bytes(4) + b"\4\0\0\0"
    kept = await receive(store, header + array("I", [0, 5000, 5001, 10_000]).tobytes(), principal=OWNER)
    assert (kept.entries, kept.dropped) == (3, 1)
    assert [entry.key for entry in await entries_of(store)] == ["open/00000", "open/z", "open/z"]


async def test_a_plan_that_lost_indices_is_none(tmp_path: Path) -> None:
    store, digest = PlanStore(tmp_path), sha256(b"a\n").hexdigest()
    await store.receive_keys("b", "p", digest, pieces(b"a\n"))
    kept = await receive(store, b"FBPLAN1\n" + bytes.fromhex(digest) + bytes(4) + b"\2\0\0\0" + bytes(8))
    (tmp_path / kept.id / "indices").write_bytes(bytes(4))
    assert await store.load(kept.id) is None
    assert await store.plans() == []


async def test_a_plan_without_its_indices_is_not_the_list(tmp_path: Path) -> None:
    """As long as the list, so that nothing but the file itself tells."""
    store, digest = PlanStore(tmp_path), sha256(b"a\nb\n").hexdigest()
    await store.receive_keys("b", "p", digest, pieces(b"a\nb\n"))
    kept = await receive(store, b"FBPLAN1\n" + bytes.fromhex(digest) + bytes(4) + array("I", [2, 1, 0]).tobytes())
    assert [entry.key for entry in await entries_of(store)] == ["b", "a"]
    (tmp_path / kept.id / "indices").unlink()
    assert await store.load(kept.id) is None


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.mark.parametrize(("name", "content"), [("keys", b"a"), ("offsets", b""), ("ranges", bytes(16))])
async def test_nothing_stays_open_of_a_damaged_plan(tmp_path: Path, name: str, content: bytes) -> None:
    kept = await receive(PlanStore(tmp_path), b"a\t0-1\nb\n")
    (tmp_path / kept.id / name).write_bytes(content)
    before = descriptors()
    with pytest.raises(ValueError, match="damaged"):
        PlanEntries(tmp_path / kept.id)
    assert descriptors() == before


@pytest.mark.parametrize("name", ["offsets", "ranges"])
async def test_nothing_stays_open_of_a_plan_that_cannot_be_opened(tmp_path: Path, name: str) -> None:
    kept = await receive(PlanStore(tmp_path), b"a\t0-1\nb\n")
    file = tmp_path / kept.id / name
    file.unlink()
    file.symlink_to(name)  # a loop: as EMFILE, no FileNotFoundError
    before = descriptors()
    with pytest.raises(OSError, match="symbolic links"):
        PlanEntries(tmp_path / kept.id)
    assert descriptors() == before


async def test_a_plan_that_is_closed_twice_closes_no_number_of_another(tmp_path: Path) -> None:
    kept = await receive(PlanStore(tmp_path), b"a\t0-1\nb\n")
    before, entries = descriptors(), PlanEntries(tmp_path / kept.id)
    entries.close()
    assert descriptors() == before
    other = PlanEntries(tmp_path / kept.id)
    entries.close()
    assert other.read(0, 2) == [PlanEntry("a", 0, 2), PlanEntry("b")]
    other.close()


async def test_plans_are_in_the_order_in_which_they_were_sent(tmp_path: Path) -> None:
    """Whatever the clock said, in whichever worker, and if the latest number was lost."""
    sent = [record(f"order-{number}", float(-number)) for number in range(6)]
    for each in sent[:4]:
        await PlanStore(tmp_path).receive(each, ALL, pieces(b"a\n"))
    (tmp_path / ".order").write_bytes(b"")
    for each in sent[4:]:
        await PlanStore(tmp_path).receive(each, ALL, pieces(b"a\n"))
    assert await PlanStore(tmp_path).plans() == [each.id for each in sent]
    await PlanStore(tmp_path).receive(sent[0], ALL, pieces(b"a\n"))
    assert (await PlanStore(tmp_path).plans())[-1] == sent[0].id


async def test_what_is_abandoned_half_way_is_removed_and_no_other(tmp_path: Path) -> None:
    """However old its directory is: a writer that is there has it locked."""
    store, fed = PlanStore(tmp_path), asyncio.Event()

    async def slow() -> AsyncIterator[bytes]:
        yield b"a\n" * 100
        yield b"a\n" * (1 << 19)
        [written] = [tmp_path / name for name in names_in(tmp_path)]
        (tmp_path / "new-abandoned").mkdir()
        os.utime(written, (1.0, 1.0))
        assert await PlanStore(tmp_path).plans() == []
        assert names_in(tmp_path) == [written.name]
        fed.set()

    kept = await store.receive(record(), ALL, slow())
    assert fed.is_set()
    assert await store.plans() == [kept.id]


async def test_plans_are_found_while_one_is_exchanged(tmp_path: Path) -> None:
    store = PlanStore(tmp_path)
    kept = await store.receive(record(), ALL, pieces(b"a\n"))
    with locked_plans(tmp_path):
        async with asyncio.timeout(10):
            assert await store.plans() == [kept.id]


async def test_a_list_is_named_by_its_digest(tmp_path: Path) -> None:
    store = PlanStore(tmp_path)
    with pytest.raises(S3Error, match="SHA-256"):
        await store.receive_keys("b", "p", "0" * 64, pieces(b"a\n"))
    assert names_in(tmp_path) == []


async def test_a_key_is_found_wherever_it_is(tmp_path: Path) -> None:
    store = PlanStore(tmp_path)
    names = [f"k{number:06}" for number in range(300_000)]
    kept = await receive(store, "\n".join(names).encode())
    entries = PlanEntries(tmp_path / kept.id)
    assert [entries.find(names[number]) for number in (0, 149_796, 299_999)] == [0, 149_796, 299_999]
    assert (entries.find("k00000"), entries.find("000000")) == (None, None)
    assert [entry.key for entry in entries.read(149_796, 149_799)] == names[149_796:149_799]
    entries.close()
    table = KeyTable(tmp_path / kept.id)
    assert table.pick([5, 299_999]) == [names[5], names[299_999]]
    table.close()


@pytest.mark.parametrize("length", [1, 500])
async def test_keys_of_short_and_long_tables_are_picked(tmp_path: Path, length: int) -> None:
    names = [f"{number:04}{'ä' * length}" for number in range(1200)]
    body = "".join(f"{name}\n" for name in names).encode()
    kept = await receive(PlanStore(tmp_path), body)
    table = KeyTable(tmp_path / kept.id)
    assert (len(body) > 1 << 20) is (length > 1)
    wanted = [1199, 0, 1, 500, 500]
    assert table.pick(wanted) == [names[number] for number in wanted]
    table.close()


async def test_without_a_directory_nothing_is_received() -> None:
    store = PlanStore(None)
    with pytest.raises(S3Error, match=r"set server\.state_dir") as refused:
        await receive(store, b"a\n")
    assert refused.value.code == "NotImplemented"
    assert await store.plans() == []
