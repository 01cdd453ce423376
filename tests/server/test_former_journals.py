"""A journal that the configuration names no more: a warning at each start, as long as it holds writes."""

from pathlib import Path

from forebay.server.former_journals import former_journal_warnings
from forebay.settings import load_settings
from forebay.storage.journal.journal import Journal


def warnings(directory: Path, journal: str | None, state: str = "state") -> list[str]:
    """Those of a start with this journal below `directory`, or none."""
    table = f'[journal]\npath = "{directory / journal}"\nsize = "16MiB"\n' if journal is not None else ""
    text = (
        f'[server]\nstate_dir = "{directory / state}"\n[origin]\nendpoint = "http://127.0.0.1:1"\n'
        f'[auth]\nmode = "open"\n{table}'
    )
    return list(former_journal_warnings(load_settings(text, {}, {}, lambda path: path).settings))


def opened(path: Path) -> Journal:
    """A new journal."""
    path.mkdir(mode=0o700)
    return Journal.open(path, "family")


async def fill(path: Path) -> None:
    """A journal with one pending record."""
    journal = opened(path)
    await journal.append({"kind": "put"})
    await journal.close()


async def test_writes_in_a_journal_without_a_name_are_warned_of(tmp_path: Path) -> None:
    await fill(tmp_path / "first")
    assert warnings(tmp_path, "first") == []
    [warning] = warnings(tmp_path, None)
    assert f"the journal {tmp_path / 'first'} of an earlier start holds writes" in warning
    assert warnings(tmp_path, None) == [warning], "at each start"
    assert warnings(tmp_path, "second") == [warning]
    assert warnings(tmp_path, "first") == []


async def test_an_empty_or_removed_journal_is_forgotten(tmp_path: Path) -> None:
    await opened(tmp_path / "first").close()
    assert warnings(tmp_path, "first") == []
    assert warnings(tmp_path, None) == []
    await fill(tmp_path / "second")
    assert warnings(tmp_path, "second") == []
    (tmp_path / "second").rename(tmp_path / "moved")
    assert warnings(tmp_path, None) == []
    assert (tmp_path / "state" / "journals").read_text() == ""


async def test_a_journal_that_is_gone_is_warned_of(tmp_path: Path) -> None:
    """Its disk is not mounted, perhaps: the start makes a new one, and does not know of the writes in the other."""
    await fill(tmp_path / "first")
    assert warnings(tmp_path, "first") == []
    (tmp_path / "first").rename(tmp_path / "unmounted")
    [warning] = warnings(tmp_path, "first")
    assert f"the journal {tmp_path / 'first'} of an earlier start is not there any more" in warning
    (tmp_path / "first").mkdir()
    assert warnings(tmp_path, "first") == [warning]
    (tmp_path / "first").rmdir()
    await opened(tmp_path / "first").close()
    assert warnings(tmp_path, "first") == []


async def test_a_state_directory_that_is_unusable_notes_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert warnings(tmp_path, "first", state="file") == []
    assert warnings(tmp_path, None, state="file") == []
