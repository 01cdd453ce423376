"""How the directory was left, and what follows from it for the one who opens it.

STATE is written when the directory is opened, when it has proved steady, and when it is closed:

    boot             the machine's boot id when it was opened
    clean            true: closed, with everything on the disk
    unclean_starts   openings in a row that neither closed nor proved steady
    trusted_from     heads validated before this time (seconds since the epoch) must be revalidated

A process that dies loses nothing that was committed: the page cache outlives it. A machine that goes down loses the
last moments of the index, and with them perhaps the removal of a head whose object has been overwritten since. So
after an unclean end under another boot id, no head from before is believed until the origin has vouched for it
again. That stays true for good: a head that is not asked for is not revalidated.

Damage that kills the process (a bad sector under a memory map is a SIGBUS) would do so at each start. After three
starts that did not last, the content goes.
"""

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from forebay.storage.ssd.ssd_directory import replace_file

MAX_UNCLEAN_STARTS: Final = 3
BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True, slots=True)
class ShutdownState:
    boot: str
    clean: bool
    unclean_starts: int
    trusted_from: float

    @property
    def is_hopeless(self) -> bool:
        """Whether so many starts in a row did not last that the content must be the reason."""
        return self.unclean_starts >= MAX_UNCLEAN_STARTS

    def while_open(self, boot: str, now: float) -> "ShutdownState":
        """The state while open, of a directory that was left in this one."""
        lost = not self.clean and boot != self.boot
        return ShutdownState(
            boot=boot,
            clean=False,
            unclean_starts=1 if self.clean else self.unclean_starts + 1,
            trusted_from=max(self.trusted_from, now) if lost else self.trusted_from,
        )

    def steady(self) -> "ShutdownState":
        return replace(self, unclean_starts=0)

    def closed(self) -> "ShutdownState":
        return replace(self, clean=True, unclean_starts=0)


def fresh_state(boot: str) -> ShutdownState:
    """Of a directory without content."""
    return ShutdownState(boot, clean=True, unclean_starts=0, trusted_from=0.0)


def boot_id() -> str:
    """Names this boot of the machine. Where there is no such name each opening is taken for a new boot: cautious."""
    try:
        return BOOT_ID.read_text().strip()
    except OSError:
        return ""


def read_state(path: Path, now: float) -> ShutdownState:
    """What STATE says. One that is missing or damaged says that nothing is sure, so no head from before `now` is."""
    try:
        fields = json.loads(path.read_bytes())
        return ShutdownState(
            str(fields["boot"]),
            fields["clean"] is True,
            int(fields["unclean_starts"]),
            float(fields["trusted_from"]),
        )
    except (OSError, ValueError, KeyError, TypeError):
        return ShutdownState("", clean=False, unclean_starts=0, trusted_from=now)


def write_state(path: Path, state: ShutdownState) -> None:
    """OSError if it can't be written."""
    fields = {
        "boot": state.boot,
        "clean": state.clean,
        "unclean_starts": state.unclean_starts,
        "trusted_from": state.trusted_from,
    }
    replace_file(path, json.dumps(fields).encode())
