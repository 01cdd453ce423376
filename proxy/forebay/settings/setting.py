"""A setting: path, type, default, bounds and meaning. The settings themselves are in the modules `*_table`."""

from dataclasses import dataclass
from enum import Enum
from typing import Final

from forebay.settings.value_types import FILE, SECRET, VARIABLE, ValueType


class Absent(Enum):
    """The default of a setting that has none."""

    REQUIRED = "required"
    UNSET = "not set"


REQUIRED: Final = Absent.REQUIRED
UNSET: Final = Absent.UNSET


@dataclass(frozen=True, slots=True)
class Setting:
    """One row of the table."""

    path: str
    value_type: ValueType
    default: str | int | bool | tuple[()] | Absent
    """The default value, as written in TOML."""
    meaning: str
    """The meaning, in one sentence."""
    low: float | None = None
    high: float | None = None
    """Bounds, inclusive, in the program's units: bytes, seconds, or as they are."""
    live: bool = False
    """Whether a change takes effect without a restart."""
    why: str = ""
    """The reason of the bounds, for a refusal."""

    @property
    def allowed(self) -> str:
        """The type and the bounds, for a refusal."""
        show = self.value_type.format
        if self.low is not None and self.high is not None:
            because = f" ({self.why})" if self.why else ""
            return f"{self.value_type.allowed}; from {show(self.low)} to {show(self.high)}{because}"
        return self.value_type.allowed if self.low is None else f"{self.value_type.allowed}; at least {show(self.low)}"


KIB: Final = 1 << 10
MIB: Final = 1 << 20
GIB: Final = 1 << 30
MINUTE: Final = 60.0
HOUR: Final = 3600.0


def secret_settings(path: str, meaning: str, live: bool = False) -> tuple[Setting, Setting, Setting]:
    """The three settings of a secret: inline, by variable, by file."""
    return (
        Setting(path, SECRET, UNSET, f"{meaning}; prefer one of the next two settings.", live=live),
        Setting(f"{path}_env", VARIABLE, UNSET, f"The environment variable that holds `{path}`.", live=live),
        Setting(f"{path}_file", FILE, UNSET, f"The file that holds `{path}`; a final newline is dropped.", live=live),
    )
