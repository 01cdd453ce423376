"""Former journals: journals of earlier starts that still have writes, and are not in the configuration any more.

A Forebay without `[journal]`, or with another path, neither carries out the writes in the old directory nor shows them
to readers. The same goes for a journal on a disk that is not mounted. So each start notes the path of its journal in
`server.state_dir`:

    journals      a path a line: this start's, and those of earlier ones that still hold records
"""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from forebay.settings.model import Settings
from forebay.storage.durable_files import replace_file

_NAME: Final = "journals"


def former_journal_warnings(settings: Settings) -> Iterator[str]:
    """Yields a warning for each earlier journal that is not configured and has pending records, and for a configured
    one that has gone. Notes the configured one. With an unusable state directory nothing is noted."""
    if settings.server.state_dir is None:
        return
    note = Path(settings.server.state_dir) / _NAME
    current = [str(Path(settings.journal.path).absolute())] if settings.journal is not None else []
    noted = _read(note)
    for path in current:
        if path in noted and not Path(path, "FORMAT").exists():
            yield (
                f"the journal {path} of an earlier start is not there any more, and a new one is made: writes that it "
                "may have held are neither carried out nor shown. If its disk is not mounted, end Forebay and mount it"
            )
    left = [path for path in noted if path not in current and _holds_records(path)]
    for path in left:
        yield (
            f"the journal {path} of an earlier start holds writes that are not at the origin, and [journal] does not "
            f"name it: nothing carries them out. Name it again, or see `forebay check-journal {path}`"
        )
    if current + left != noted:
        with contextlib.suppress(OSError):
            note.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            replace_file(note, "".join(f"{path}\n" for path in current + left).encode())


def _read(note: Path) -> list[str]:
    try:
        return note.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return []


def _holds_records(path: str) -> bool:
    """Whether a record of the journal is pending. False for a directory that is gone or can't be read."""
    from forebay.storage.journal.journal_files import JournalFiles  # noqa: PLC0415 # most starts need none of it
    from forebay.storage.journal.journal_layout import JournalLayout  # noqa: PLC0415 # likewise
    from forebay.storage.journal.recovery_scan import scan_journal  # noqa: PLC0415 # likewise

    try:
        return bool(scan_journal(JournalFiles(), JournalLayout(path)).pending)
    except OSError:
        return False
