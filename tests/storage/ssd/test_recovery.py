import fcntl
import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from forebay.core.errors import SsdUnusable
from forebay.core.events import TierFailed, unobserved
from forebay.core.heads import NEVER_VALIDATED
from forebay.core.names import ObjectName
from forebay.storage.cache_origin import CacheOrigin, CacheOrigins
from forebay.storage.ssd.directory_format import LAYOUT
from forebay.storage.ssd.index.index import Index
from forebay.storage.ssd.index.index_updates import IndexUpdates
from forebay.storage.ssd.recovery import (
    EMPTY,
    ShutdownState,
    close_directory,
    open_directory,
    read_state,
    write_state,
)
from forebay.storage.ssd.segments.addressing import Addressing
from forebay.storage.ssd.segments.block_location import BlockLocation
from forebay.storage.ssd.ssd_tier import SsdTier
from harness.ssd_rig import (
    MIB,
    NOW,
    ORIGIN,
    RUN,
    RecordedEvents,
    block_id,
    commit_blocks,
    content_of,
    drop_page_cache,
    head_for,
    open_tier,
    read_block,
    spawn_program,
    trusting_run,
)


async def filled(path: Path, origin: CacheOrigin = ORIGIN) -> None:
    tier = open_tier(path, origin=origin)
    tier.put_head(*head_for("a"))
    await commit_blocks(tier, (block_id("a"), 5000))
    await tier.close()


async def is_there(tier: SsdTier) -> bool:
    found = [tier.head(ObjectName("bucket", "a")) is not None, await read_block(tier, block_id("a"), 5000) is not None]
    assert found[0] == found[1]
    return found[0]


async def works(tier: SsdTier) -> None:
    await commit_blocks(tier, (block_id("new"), 100))
    assert await read_block(tier, block_id("new"), 100) is not None
    await tier.close()


async def test_blocks_and_heads_survive_a_restart(tmp_path: Path) -> None:
    await filled(tmp_path / "ssd")
    heard = RecordedEvents()
    tier = open_tier(tmp_path / "ssd", heard)
    assert await is_there(tier)
    assert tier.doubt is None
    assert validated_at(tier) == NOW
    assert heard == []
    await works(tier)


def named(cache_id: str | None, endpoint: str = "https://origin.test") -> CacheOrigin:
    return CacheOrigin.of(endpoint, cache_id)


@pytest.mark.parametrize(
    ("left", "origin"),
    [
        (named(None), named(None, "https://other.test")),
        (named(None), named(None, "http://origin.test")),
        (named(None), named("name", "https://other.test")),
        (named("name"), named("other")),
        (named("name"), named(None, "https://other.test")),
    ],
)
async def test_content_of_another_origin_is_discarded(
    tmp_path: Path, left: CacheOrigin, origin: CacheOrigin, caplog: pytest.LogCaptureFixture
) -> None:
    await filled(tmp_path / "ssd", left)
    tier = open_tier(tmp_path / "ssd", origin=origin)
    assert not await is_there(tier)
    [logged] = caplog.messages
    assert re.search(r"KiB\) is discarded: it is of ", logged)
    assert f"of {left}, and this Forebay serves {origin}" in logged
    await works(tier)
    tier = open_tier(tmp_path / "ssd", origin=left)
    assert not await is_there(tier), "it is gone for the first origin as well"
    await works(tier)


async def test_another_spelling_of_the_endpoint_changes_nothing(tmp_path: Path) -> None:
    await filled(tmp_path / "ssd")
    tier = open_tier(tmp_path / "ssd", origin=named(None, "HTTPS://Origin.TEST:443/"))
    assert await is_there(tier)
    assert tier.doubt is None
    await works(tier)


async def test_a_cache_id_is_added_changed_endpoint_and_removed(tmp_path: Path) -> None:
    """At each step the content stays; it is revalidated where only the name says that the store is the same."""
    await filled(tmp_path / "ssd")
    elsewhere = "http://elsewhere.test"
    for origin, doubt in (
        (named("name"), None),
        (named("name", elsewhere), "it was cached from https://origin.test, and only origin.cache_id says"),
        (named("name", elsewhere), None),
        (named(None, elsewhere), None),
    ):
        tier = open_tier(tmp_path / "ssd", origin=origin, now=NOW + 5)
        assert await is_there(tier)
        assert (tier.doubt or "").startswith(doubt or "")
        assert (tier.doubt is None) == (doubt is None)
        await tier.close()
    tier = open_tier(tmp_path / "ssd", origin=named(None, elsewhere))
    assert validated_at(tier) == NEVER_VALIDATED
    await works(tier)


def shorten(path: Path) -> None:
    os.truncate(path, path.stat().st_size - 4096)


def make_a_file(path: Path) -> None:
    shutil.rmtree(path)
    path.write_text("")


STATE = b'{"closed_by": "x", "unclean_starts": %s, "trusted_from": %s}'


UNUSABLE: dict[str, Callable[[Path], object]] = {
    "garbage in FORMAT": lambda path: (path / "FORMAT").write_bytes(b"\xffgarbage"),
    "no FORMAT": lambda path: (path / "FORMAT").rename(path / "gone"),
    "nested FORMAT": lambda path: (path / "FORMAT").write_bytes(b"[" * 100_000),
    "endless layout": lambda path: (path / "FORMAT").write_text('{"layout": Infinity}'),
    "no segments": lambda path: (path / "segments").rename(path / "gone"),
    "disowned": lambda path: (path / "touched").write_bytes(b"\1"),
}


@pytest.mark.parametrize("damage", UNUSABLE)
async def test_unusable_content_is_an_event_and_an_empty_tier(tmp_path: Path, damage: str) -> None:
    await filled(tmp_path / "ssd")
    UNUSABLE[damage](tmp_path / "ssd")
    heard = RecordedEvents()
    tier = open_tier(tmp_path / "ssd", heard)
    assert heard.of(TierFailed)
    assert not await is_there(tier)
    await works(tier)


async def test_another_layout_is_discarded_and_no_failure(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    await filled(tmp_path / "ssd")
    (tmp_path / "ssd" / "FORMAT").write_text('{"layout": 99}')
    heard = RecordedEvents()
    tier = open_tier(tmp_path / "ssd", heard)
    assert heard.of(TierFailed) == []
    (message,) = caplog.messages
    assert message.endswith(f"is discarded: its layout has version 99, and this Forebay's has {LAYOUT}")
    assert not await is_there(tier)
    await works(tier)


DAMAGES: dict[str, Callable[[Path], object]] = {
    "index is garbage": lambda path: (path / "index" / "data.mdb").write_bytes(b"garbage" * 5000),
    "index is short": lambda path: shorten(path / "index" / "data.mdb"),
    "index is a file": lambda path: make_a_file(path / "index"),
    "no index": lambda path: (path / "index").rename(path / "gone"),
    "found while serving": lambda path: (path / "touched").write_bytes(b"\2"),
}


@pytest.mark.parametrize("damage", DAMAGES)
async def test_a_damaged_index_is_rebuilt_with_all_blocks(tmp_path: Path, damage: str) -> None:
    await filled(tmp_path / "ssd")
    DAMAGES[damage](tmp_path / "ssd")
    heard = RecordedEvents()
    tier = open_tier(tmp_path / "ssd", heard, now=NOW + 5)
    assert [event.reason for event in heard.of(TierFailed) if "rebuilt" in event.reason]
    assert "rebuilt" in (tier.doubt or ""), "a removal may be missing in what was found"
    for _ in range(5):
        await tier.flush()  # each waits for a step of the rescan
    assert await read_block(tier, block_id("a"), 5000) == content_of(block_id("a"), 5000)
    await works(tier)
    heard.clear()
    await works(open_tier(tmp_path / "ssd", heard))
    assert heard.of(TierFailed) == [], "the next start finds it sound"


async def test_every_page_of_the_index_turned_to_garbage_is_survived(tmp_path: Path) -> None:
    await filled(tmp_path / "whole")
    data = (tmp_path / "whole" / "index" / "data.mdb").read_bytes()
    for page in range(len(data) // 4096):
        path = tmp_path / f"damaged-{page}"
        shutil.copytree(tmp_path / "whole", path)
        (path / "index" / "data.mdb").write_bytes(data[: page * 4096] + bytes(4096) + data[(page + 1) * 4096 :])
        tier = open_tier(path)
        found = await read_block(tier, block_id("a"), 5000)
        assert found is None or len(found) == 5000
        tier.head(ObjectName("bucket", "a"))
        await tier.forget(ObjectName("bucket", "a"))
        assert tier.head(ObjectName("bucket", "a")) is None
        found = await read_block(tier, block_id("a"), 5000)
        # The rescan may have found the block again by now; without a head nobody asks for it.
        assert found is None or found == content_of(block_id("a"), 5000)
        await tier.close()


def validated_at(tier: SsdTier) -> float:
    head = tier.head(ObjectName("bucket", "a"))
    assert head is not None
    return head.validated_at


def left_behind(path: Path, **fields: object) -> None:
    """Writes how the directory was left."""
    state = json.loads((path / "STATE").read_text())
    (path / "STATE").write_text(json.dumps(state | fields))


async def test_garbage_in_state_costs_trust_only(tmp_path: Path) -> None:
    await filled(tmp_path / "ssd")
    (tmp_path / "ssd" / "STATE").write_bytes(b"garbage")
    tier = open_tier(tmp_path / "ssd", now=NOW + 5)
    assert await is_there(tier)
    assert validated_at(tier) == NEVER_VALIDATED
    await works(tier)


async def test_an_unclean_close_costs_trust_only(tmp_path: Path) -> None:
    """The process was killed, the machine went down, or the file system turned read-only: with or without a reboot."""
    await filled(tmp_path / "ssd")
    left_behind(tmp_path / "ssd", closed_by="")
    tier = open_tier(tmp_path / "ssd", now=NOW + 5)
    assert tier.doubt == "it was not closed in order"
    assert await is_there(tier)
    assert validated_at(tier) == NEVER_VALIDATED
    await tier.close()
    tier = open_tier(tmp_path / "ssd", now=NOW + 50)
    assert tier.doubt is None
    assert validated_at(tier) == NEVER_VALIDATED, "a clean end does not vouch for what was not revalidated"
    tier.put_head(*head_for("a", now=NOW + 51))
    await tier.close()
    tier = open_tier(tmp_path / "ssd", now=NOW + 60)
    assert validated_at(tier) == NOW + 51
    await works(tier)


async def test_a_head_validated_just_before_is_written_again(tmp_path: Path) -> None:
    """Else it would be revalidated once more after the next start."""
    await filled(tmp_path / "ssd")
    left_behind(tmp_path / "ssd", closed_by="")
    tier = open_tier(tmp_path / "ssd", now=NOW + 0.25)
    tier.put_head(*head_for("a", now=NOW + 0.5))
    await tier.flush()
    assert validated_at(tier) == NOW + 0.5
    await works(tier)


async def test_heads_are_not_trusted_after_another_run(tmp_path: Path) -> None:
    await filled(tmp_path / "ssd")
    left_behind(tmp_path / "ssd", closed_by=32 * "f")
    tier = open_tier(tmp_path / "ssd", now=NOW + 5)
    assert tier.doubt == "another run of a Forebay was the last to serve"
    assert await is_there(tier)
    assert validated_at(tier) == NEVER_VALIDATED
    await works(tier)


async def test_time_counts_from_when_the_directory_was_had(tmp_path: Path) -> None:
    """The one before may validate heads for as long as it has the directory."""
    path = tmp_path / "ssd"
    await filled(path)
    seen: list[bool] = []

    def clock() -> float:
        seen.append((path / "forebay.lock").exists() and is_locked(path))
        return NOW

    tier = SsdTier.open(path, 64 * MIB, CacheOrigins.single(ORIGIN), trusting_run(path), clock=clock)
    assert seen[0]
    await tier.close()


def is_locked(path: Path) -> bool:
    with (path / "forebay.lock").open() as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


async def test_kills_in_a_row_discard_nothing(tmp_path: Path) -> None:
    await filled(tmp_path / "ssd")
    for _ in range(4):
        process = spawn_program("open-and-wait", tmp_path / "ssd")
        assert process.stdout is not None
        assert process.stdout.readline() == "open\n"
        process.kill()
        process.communicate()
    tier = open_tier(tmp_path / "ssd")
    assert await is_there(tier)
    await works(tier)


async def test_the_third_unclean_end_in_a_row_rebuilds_the_index(tmp_path: Path) -> None:
    await filled(tmp_path / "ssd")
    for unclean, is_rebuilt in ((2, False), (3, True), (2, False)):
        left_behind(tmp_path / "ssd", closed_by="", unclean_starts=unclean)
        heard = RecordedEvents()
        tier = open_tier(tmp_path / "ssd", heard)
        assert bool(heard.of(TierFailed)) == is_rebuilt
        assert await is_there(tier)
        await tier.close()


async def test_a_second_owner_is_refused_and_does_no_harm(tmp_path: Path) -> None:
    tier = open_tier(tmp_path / "ssd")
    with pytest.raises(SsdUnusable):
        open_tier(tmp_path / "ssd")
    with pytest.raises(SsdUnusable):
        open_tier(tmp_path / "ssd", origin=CacheOrigin.of("http://other.test"), family="others")
    await works(tier)


async def test_a_path_that_can_not_be_created_is_unusable(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file", Path("/proc/forebay"), Path("/dev/null/x")):
        with pytest.raises(SsdUnusable):
            open_tier(path)


async def test_files_that_a_crash_left_behind_are_deleted(tmp_path: Path) -> None:
    await filled(tmp_path / "ssd")
    orphan = tmp_path / "ssd" / "segments" / "0000009999.seg"
    orphan.write_bytes(b"x")
    tier = open_tier(tmp_path / "ssd")
    await tier.flush()
    await tier.flush()
    assert not orphan.exists()
    assert await is_there(tier)
    await tier.close()


def resident_pages(path: Path) -> int:
    size = subprocess.run(
        ["fincore", "--bytes", "--noheadings", "--output", "PAGES", str(path)],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    return int(size or 0)


@pytest.mark.skipif(shutil.which("fincore") is None, reason="needs util-linux")
def test_opening_after_a_clean_end_reads_few_of_the_rows(tmp_path: Path) -> None:
    path = tmp_path / "ssd"
    opened = open_directory(
        path, 64 * MIB, CacheOrigins.single(ORIGIN), lambda: NOW, unobserved, trusting_run(path), family=None
    )
    addressing: Addressing = opened.addressing
    with opened.index.write_transaction() as txn:
        changes = IndexUpdates(txn, opened.index.tables)
        for number in range(100_000):
            changes.put_block(addressing.block_address(block_id(f"key-{number}")), BlockLocation(1, 0, 100))
    close_directory(opened)
    data = path / "index" / "data.mdb"
    drop_page_cache(data)
    if resident_pages(data) > 10:
        pytest.skip("this file system lives in memory")
    opened = open_directory(
        path, 64 * MIB, CacheOrigins.single(ORIGIN), lambda: NOW, unobserved, trusting_run(path), family=None
    )
    assert opened.index.count() == (100_000, 0)
    pages = data.stat().st_size // 4096
    assert pages > 1000
    assert resident_pages(data) < pages / 3, "the kernel reads ahead around each page: some 30 of them"
    close_directory(opened)


class UnsyncedIndex:
    """An index that the disk does not take."""

    def __init__(self, index: Index) -> None:
        self._index = index

    def sync(self) -> None:
        raise OSError("the disk takes nothing")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._index, name)


@pytest.mark.parametrize("failure", ["sync", "disowned"])
def test_what_may_be_lost_is_not_closed_in_order(tmp_path: Path, failure: str) -> None:
    """After a power cut its removals may be missing: its heads are not to be trusted."""
    path, expected = tmp_path / "ssd", OSError if failure == "sync" else None
    for closes_in_order in (True, False):
        run, origins = trusting_run(path), CacheOrigins.single(ORIGIN)
        opened = open_directory(path, 64 * MIB, origins, lambda: NOW, unobserved, run, family=None)
        if closes_in_order:
            close_directory(opened)
        elif expected is not None:
            opened.index = cast("Index", UnsyncedIndex(opened.index))
            with pytest.raises(expected):
                close_directory(opened)
        else:
            opened.references.disown()
            close_directory(opened)
        assert bool(read_state(opened.directory.state, NOW).closed_by) is closes_in_order


def test_a_written_state_is_read_back(tmp_path: Path) -> None:
    state = ShutdownState("a run", unclean_starts=2, trusted_from=12.5)
    write_state(tmp_path / "STATE", state)
    assert read_state(tmp_path / "STATE", 99.0) == state


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"null",
        b"[]",
        b"{}",
        b"\xff",
        b'{"closed_by": "x"}',
        b'{"unclean_starts": "x"}',
        b"[" * 100_000,
        STATE % (b"1e999", b"0"),
        STATE % (b"0", b"NaN"),
    ],
)
def test_a_damaged_state_trusts_no_older_head(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "STATE").write_bytes(content)
    assert read_state(tmp_path / "STATE", 99.0).trusted_from == 99.0


def test_trust_depends_on_the_run_and_on_a_clean_close(tmp_path: Path) -> None:
    run = trusting_run(tmp_path)
    assert EMPTY.closed(RUN).doubt(run) is None
    assert EMPTY.closed(32 * "f").doubt(run) is not None
    assert EMPTY.doubt(run) is not None


def test_distrust_stays_after_clean_closes() -> None:
    state = EMPTY.while_open(20, trusted=False)
    assert state.closed("a").while_open(30, trusted=True).closed("b").while_open(40, trusted=True).trusted_from == 20


def test_three_unclean_ends_in_a_row_are_suspect() -> None:
    state = EMPTY.closed("a")
    seen = []
    for _ in range(4):
        seen.append(state.is_suspect)
        state = state.while_open(10, trusted=True)
    assert seen == [False, False, False, True]


def test_ends_before_a_rebuild_or_a_clean_end_do_not_count() -> None:
    state = EMPTY
    for _ in range(3):
        state = state.while_open(10, trusted=True)
    assert not state.rebuilt(20).while_open(20, trusted=True).is_suspect
    assert not state.closed("a").while_open(20, trusted=True).is_suspect


def test_a_rebuild_costs_the_trust_in_all_heads() -> None:
    assert EMPTY.while_open(10, trusted=True).rebuilt(20).trusted_from == 20
