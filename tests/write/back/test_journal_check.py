"""The check of a journal: what is pending is listed and exported, and every damaged byte is noticed and named."""

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from forebay.core.errors import JournalUnusable
from forebay.core.heads import ObjectFacts
from forebay.core.names import ObjectName, Version
from forebay.journal_commands import check_journal_command
from forebay.policy.drain_order import WriteInterval
from forebay.storage.journal.body_file import BodyRef, BodyWriter
from forebay.storage.journal.journal import Journal
from forebay.storage.journal.journal_files import JournalFiles
from forebay.storage.journal.journal_layout import JournalLayout
from forebay.write.back.journal_check import NoJournal, check_journal, export_writes, locked_journal, read_content
from forebay.write.back.pending.accepted_write import (
    AcceptedPart,
    AcceptedUpload,
    AcceptedWrite,
    CompletedPart,
    WriteKind,
)

LARGE = bytes(range(256)) * 10_000


class FilledJournal:
    """A journal with each sort of write. `contents`: what each key must have in the end; None: it is deleted."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.journal = Journal.open(path, "family")
        self.contents: dict[str, bytes | None] = {}

    def _body(self, content: bytes) -> tuple[BodyRef, ...]:
        body = BodyWriter(JournalFiles(), JournalLayout(str(self.path)))
        body.append([content])
        ref = body.finish()
        body.release()
        return (ref,)

    async def write(self, key: str, content: bytes | None, *, large: bool = False) -> None:
        self.contents[key] = content
        facts = (
            ObjectFacts(Version('"etag"'), len(content), "", (), checksums_known=True) if content is not None else None
        )
        bodies = self._body(content) if large and content is not None else ()
        await self._append(key, "put" if content is not None else "delete", facts, content or b"", bodies)

    async def _append(
        self,
        key: str,
        kind: WriteKind,
        facts: ObjectFacts | None,
        payload: bytes,
        bodies: tuple[BodyRef, ...],
        parts: tuple[CompletedPart, ...] = (),
    ) -> None:
        interval = WriteInterval(self.journal.stamp(), self.journal.stamp())
        headers = (("Content-Type", "text/plain"),)
        write = AcceptedWrite(
            kind, ObjectName("b", key), interval, headers, facts, 1 << 20, 1.0, None, bodies, "upload", parts
        )
        await self.journal.append(write.document(), b"" if bodies else payload)

    async def upload(self, key: str, *contents: bytes) -> None:
        name, parts = ObjectName("b", key), []
        await self.journal.append(AcceptedUpload(name, "upload", (), 1.0).document())
        for number, content in enumerate((*contents, b"never listed"), 1):
            part = AcceptedPart(name, "upload", number, '"p"', len(content), (), None, self._body(content), 1.0, 0, 0)
            parts.append(CompletedPart(number, '"p"', await self.journal.append(part.document())))
        whole = b"".join(contents)
        self.contents[key] = whole
        facts = ObjectFacts(Version('"etag-2"'), len(whole), "", (), checksums_known=True)
        await self._append(key, "complete", facts, b"", (), tuple(parts[:-1]))


@pytest.fixture
async def filled(tmp_path: Path) -> FilledJournal:
    filled = FilledJournal(tmp_path / "journal")
    await filled.write("small", b"small")
    await filled.write("large", LARGE, large=True)
    await filled.write("empty", b"")
    await filled.write("gone", None)
    await filled.upload("parts", LARGE, b"the last part")
    await filled.journal.close()
    return filled


def contents_of(path: Path) -> dict[str, bytes | None]:
    return {
        each.write.name.key: b"".join(read_content(path, each)) if each.write.facts is not None else None
        for each in check_journal(path).writes
        if not each.damage
    }


async def test_what_is_pending_is_listed_in_order(filled: FilledJournal) -> None:
    report = check_journal(filled.path)
    assert [each.write.name.key for each in report.writes] == ["small", "large", "empty", "gone", "parts"]
    assert (report.is_whole, report.unfinished_parts, report.orphans) == (True, 1, 0)
    assert contents_of(filled.path) == filled.contents


async def test_an_export_has_a_file_for_each_object(filled: FilledJournal, tmp_path: Path) -> None:
    target = tmp_path / "rescue"
    export_writes(filled.path, check_journal(filled.path).writes, target)
    lines = [json.loads(line) for line in (target / "manifest.jsonl").read_text().splitlines()]
    assert {
        line["key"]: (target / line["file"]).read_bytes() if line["file"] else None for line in lines
    } == filled.contents
    assert lines[0]["headers"] == [["Content-Type", "text/plain"]]
    assert lines[4]["part_sizes"] == [len(LARGE), len(b"the last part")]
    with pytest.raises(FileExistsError):
        export_writes(filled.path, (), target)
    assert contents_of(filled.path) == filled.contents, "the journal stays as it is"


async def test_parts_of_unfinished_uploads_are_verified(
    filled: FilledJournal, capsys: pytest.CaptureFixture[str]
) -> None:
    """They are acknowledged, too. This one is of an upload that was completed without it."""
    body = min((filled.path / "bodies").iterdir(), key=lambda each: each.stat().st_size)
    body.write_bytes(b"N" + body.read_bytes()[1:])
    report = check_journal(filled.path)
    assert (report.is_whole, report.unfinished_parts) == (False, 1)
    [(name, number, damage)] = report.damaged_parts
    assert (name, number, damage.endswith("is damaged in its MiB 0")) == (ObjectName("b", "parts"), 3, True)
    assert check_journal_command(filled.path, None) == 1
    assert f"damaged  part 3 of an unfinished upload of b/parts: {damage}" in capsys.readouterr().out


def flips(path: Path, count: int) -> Iterator[tuple[Path, int]]:
    """Single bits in the files of a journal, a third of them in the logs."""
    random = Random(1)
    logs, bodies = sorted((path / "logs").glob("*.log")), sorted((path / "bodies").iterdir())
    for number in range(count):
        file = random.choice(logs if number % 3 == 0 else bodies)
        yield file, random.randrange(8 * file.stat().st_size)


@pytest.mark.timeout(3600)
async def test_every_flipped_bit_is_noticed_and_named(filled: FilledJournal, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    for file, bit in flips(filled.path, 120 * int(os.environ.get("FOREBAY_CRASH_SCALE", "1"))):
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(filled.path, copy)
        damaged = copy / file.relative_to(filled.path)
        content = bytearray(damaged.read_bytes())
        content[bit // 8] ^= 1 << bit % 8
        damaged.write_bytes(content)
        report, intact = check_journal(copy), contents_of(copy)
        assert intact.items() <= filled.contents.items(), "no damaged byte is passed on"
        lost = filled.contents.keys() - intact.keys()
        named = {each.write.name.key for each in report.writes if each.damage}
        if file.suffix == ".log":
            # Zeros between records, the last record, whose durability no later one tells, or a named damage.
            assert report.log_damages or (report.torn and len(lost) <= 1) or not lost
        else:
            assert lost == named
            assert len(lost) <= 1


async def test_a_check_may_run_beside_a_forebay_and_an_export_not(
    filled: FilledJournal, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with locked_journal(filled.path) as is_locked:
        assert is_locked
    running = Journal.open(filled.path, "running")
    assert check_journal_command(filled.path, None) == 0
    printed = capsys.readouterr()
    assert "5 pending writes of" in printed.out
    assert "A Forebay runs on this journal" in printed.err
    assert check_journal_command(filled.path, tmp_path / "rescue") == 2
    assert not (tmp_path / "rescue").exists()
    await running.close()
    assert check_journal_command(filled.path, tmp_path / "rescue") == 0
    assert check_journal_command(filled.path, tmp_path / "rescue") == 2


async def test_damage_is_printed_and_fails(filled: FilledJournal, capsys: pytest.CaptureFixture[str]) -> None:
    [body, *_] = sorted((filled.path / "bodies").iterdir(), key=lambda each: -each.stat().st_size)
    body.unlink()
    assert check_journal_command(filled.path, None) == 1
    out = capsys.readouterr().out
    assert out.count("damaged  ") == 1
    assert "is missing" in out
    assert "5 pending writes" in out


def test_other_directories_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert check_journal_command(tmp_path, None) == 2
    assert "holds no journal; name the directory of journal.path." in capsys.readouterr().err
    (tmp_path / "lock").touch()
    versions: list[object] = [2, 99, []]
    for version in versions:
        (tmp_path / "FORMAT").write_text(json.dumps({"version": version}))
        with pytest.raises(NoJournal, match="check it by the Forebay that wrote it"):
            check_journal(tmp_path)
    (tmp_path / "FORMAT").write_text("no JSON")
    with pytest.raises(NoJournal, match="can't be read"):
        check_journal(tmp_path)


@pytest.mark.parametrize("content", [b"", b'{"version": 2', b"[]", b"null", b"\xff" * 14])
async def test_a_damaged_format_hides_nothing(
    filled: FilledJournal, tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes
) -> None:
    (filled.path / "FORMAT").write_bytes(content)
    assert check_journal_command(filled.path, tmp_path / "rescued") == 1
    out = capsys.readouterr().out
    assert "damaged  FORMAT, the version of the layout: read as version 3" in out
    assert "5 pending writes" in out
    lines = [json.loads(line) for line in (tmp_path / "rescued" / "manifest.jsonl").read_text().splitlines()]
    last = {line["key"]: line["file"] for line in lines}
    found = {key: (tmp_path / "rescued" / file).read_bytes() if file else None for key, file in last.items()}
    assert found == filled.contents
    with pytest.raises(JournalUnusable, match=f"`forebay check-journal {filled.path}` reads the rest"):
        Journal.open(filled.path, "next")
