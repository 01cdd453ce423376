"""The run record: trust only where nobody can have served in between, whatever happens to the record."""

import asyncio
from pathlib import Path

import pytest

from forebay.core.task_registry import TaskRegistry
from forebay.storage.cache_origin import CacheOrigin, origin_fingerprint
from forebay.storage.run_record import NodeRun, begin_run, remove_stale_record

ORIGIN = CacheOrigin.of("https://origin.test")


def begin(directory: Path) -> NodeRun:
    return begin_run(str(directory), ORIGIN)


def record(directory: Path) -> Path:
    [path] = directory.glob("run-*")
    return path


def test_a_run_trusts_what_the_run_before_left(tmp_path: Path) -> None:
    first = begin(tmp_path)
    second = begin(tmp_path)
    assert second.predecessor == first.id
    assert second.doubt_about(first.id) is None
    assert second.doubt_about("another") == "another run of a Forebay was the last to serve"


def test_the_first_run_trusts_nothing(tmp_path: Path) -> None:
    run = begin(tmp_path / "to" / "be" / "made")
    assert run.doubt_about("any") == f"there was no run record ({run.records[0]})"
    assert (tmp_path / "to" / "be" / "made").stat().st_mode & 0o777 == 0o700


def test_a_run_in_between_ends_trust(tmp_path: Path) -> None:
    first = begin(tmp_path)
    begin(tmp_path)
    assert begin(tmp_path).doubt_about(first.id) is not None


def test_a_run_that_begins_later_ends_trust(tmp_path: Path) -> None:
    """It may serve, write and end before the directory is opened."""
    first = begin(tmp_path)
    second = begin(tmp_path)
    begin(tmp_path)
    assert second.doubt_about(first.id) == "another run has begun since"


def test_serving_without_the_directory_ends_trust(tmp_path: Path) -> None:
    first = begin(tmp_path)
    second = begin(tmp_path)
    second.detach()
    assert second.doubt_about(first.id) == "this run has served without it"
    assert begin(tmp_path).doubt_about(second.id) == "the run before has served without it"


def test_a_run_that_was_replaced_detaches_nobody_else(tmp_path: Path) -> None:
    first = begin(tmp_path)
    second = begin(tmp_path)
    first.detach()
    assert second.doubt_about(first.id) is None


def test_runs_of_other_origins_do_not_matter(tmp_path: Path) -> None:
    first = begin(tmp_path)
    begin_run(str(tmp_path), CacheOrigin.of("https://other.test"))
    assert begin(tmp_path).doubt_about(first.id) is None


NAMED = CacheOrigin.of("https://origin.test", "name")


def test_an_origin_with_a_name_is_trusted_from_run_to_run(tmp_path: Path) -> None:
    first = begin_run(str(tmp_path), NAMED)
    second = begin_run(str(tmp_path), NAMED)
    assert second.doubt_about(first.id) is None
    second.detach()
    assert begin_run(str(tmp_path), NAMED).doubt_about(second.id) == "the run before has served without it"


@pytest.mark.parametrize(
    ("first", "between"),
    [
        (ORIGIN, NAMED),
        (NAMED, ORIGIN),
        (NAMED, CacheOrigin.of("https://other.test", "name")),
        (NAMED, CacheOrigin.of("https://origin.test", "other")),
    ],
)
def test_a_run_under_another_name_is_found(tmp_path: Path, first: CacheOrigin, between: CacheOrigin) -> None:
    """It may have written: it shares the endpoint or the cache_id."""
    earlier = begin_run(str(tmp_path), first)
    begin_run(str(tmp_path), first)
    again = begin_run(str(tmp_path), first)
    assert again.predecessor != earlier.id
    begin_run(str(tmp_path), between)
    assert again.doubt_about(again.predecessor) == "another run has begun since"
    assert begin_run(str(tmp_path), first).doubt_about(again.id) is not None


def test_a_record_that_can_not_be_written_leaves_the_other(tmp_path: Path) -> None:
    begin_run(str(tmp_path), NAMED)
    path = tmp_path / f"run-{origin_fingerprint('https://origin.test')}"
    path.unlink()
    (path / "in the way").mkdir(parents=True)
    run = begin_run(str(tmp_path), NAMED)
    assert run.is_stale
    assert (tmp_path / f"run-{origin_fingerprint('name')}").read_text() == run.id
    assert run.doubt_about("any")


def test_without_a_state_directory_nothing_is_trusted() -> None:
    run = begin_run(None, ORIGIN)
    run.detach()
    assert run.doubt_about("any") == "there is no state directory (server.state_dir)"


@pytest.mark.parametrize("directory", ["/proc/forebay", "/dev/null/forebay"])
def test_an_unwritable_state_directory_costs_trust_only(directory: str) -> None:
    run = begin_run(directory, ORIGIN)
    assert run.doubt_about("any")
    assert not run.is_stale, "there is nothing in it"


@pytest.mark.parametrize("content", [b"", b"\xff\xfe", b"garbage", 1000 * b"x"])
def test_a_damaged_record_costs_trust_only(tmp_path: Path, content: bytes) -> None:
    first = begin(tmp_path)
    record(tmp_path).write_bytes(content)
    second = begin(tmp_path)
    assert second.doubt_about(first.id)
    assert begin(tmp_path).doubt_about(second.id) is None


def test_a_removed_record_costs_trust_only(tmp_path: Path) -> None:
    first = begin(tmp_path)
    second = begin(tmp_path)
    record(tmp_path).unlink()
    doubt = second.doubt_about(first.id)
    assert doubt is not None
    assert "can't be read" in doubt
    second.detach()
    assert not list(tmp_path.glob("run-*"))


def test_a_record_that_can_not_be_written_is_removed(tmp_path: Path) -> None:
    """A link in its place is followed by nobody."""
    begin(tmp_path)
    path = record(tmp_path)
    path.unlink()
    path.symlink_to(tmp_path / "elsewhere")
    run = begin(tmp_path)
    assert run.doubt_about("any")
    assert not run.is_stale
    assert not path.is_symlink()
    assert not (tmp_path / "elsewhere").exists()


@pytest.fixture
def immovable(tmp_path: Path) -> Path:
    """A record that can be neither written nor removed: in its place is a directory with something in it."""
    begin(tmp_path)
    path = record(tmp_path)
    path.unlink()
    (path / "in the way").mkdir(parents=True)
    return path


def make_movable(path: Path) -> None:
    (path / "in the way").rmdir()
    path.rmdir()
    path.write_text("of an earlier run")


async def test_a_stale_record_is_removed_while_serving(immovable: Path, caplog: pytest.LogCaptureFixture) -> None:
    run, tasks = begin(immovable.parent), TaskRegistry()
    assert run.is_stale
    assert "nor can an earlier one be removed" in caplog.text
    removing = tasks.spawn(remove_stale_record(run), "remove")
    await asyncio.sleep(0)
    assert not removing.done()
    await tasks.close()
    make_movable(immovable)
    await remove_stale_record(run)
    assert not list(immovable.parent.glob("run-*"))


async def test_nothing_is_removed_that_is_not_stale(tmp_path: Path) -> None:
    run = begin(tmp_path)
    await remove_stale_record(run)
    assert record(tmp_path).read_text() == run.id


def test_a_record_is_overwritten_without_free_space(tmp_path: Path) -> None:
    """In place: its inode stays, and so do its blocks."""
    begin(tmp_path)
    before = record(tmp_path).stat().st_ino
    run = begin(tmp_path)
    run.detach()
    assert record(tmp_path).stat().st_ino == before
