"""What a soak does besides what each does: named on the command line."""

from dataclasses import dataclass
from typing import Final, Self

_NAMES: Final = ("foreign", "kills", "tiny", "levels", "few")


@dataclass(frozen=True, slots=True)
class Switches:
    """`foreign`: others write to a bucket directly at the origin. `kills`: the whole node is killed (SIGKILL) in place
    of being ended in order. `tiny`: tiers, buffers and journal so small that they are full all the time.
    `levels`: its origin is another Forebay. `few`: few clients of the first bucket, so that the others get further."""

    foreign: bool = False
    kills: bool = False
    tiny: bool = False
    levels: bool = False
    few: bool = False

    @classmethod
    def named(cls, names: list[str]) -> Self:
        """Of the words of a command line. SystemExit: a word is no switch."""
        if unknown := {*names} - {*_NAMES}:
            raise SystemExit(f"no such switch: {', '.join(sorted(unknown))}; there are {', '.join(_NAMES)}")
        return cls(**{name: name in names for name in _NAMES})

    def __str__(self) -> str:
        return ", ".join(name for name in _NAMES if getattr(self, name)) or "none"

    @property
    def memory(self) -> str:
        return "2MiB" if self.tiny else "32MiB"

    @property
    def buffers(self) -> str:
        return "8MiB" if self.tiny else "32MiB"

    @property
    def ssd(self) -> str:
        return "16MiB" if self.tiny else "64MiB"

    @property
    def journal(self) -> str:
        return "16MiB" if self.tiny else "32MiB"
