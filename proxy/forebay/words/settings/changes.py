"""What may change while Forebay runs, and what needs a restart."""

from dataclasses import fields
from typing import Final

from forebay.words.settings.model import Settings
from forebay.words.settings.table import TABLE

LIVE: Final = frozenset(setting.path for setting in TABLE if setting.live)
_COMPARED: Final = ("server", "origin", "memory", "limits")


def restart_needed(old: Settings, new: Settings) -> list[str]:
    """The paths of the settings that differ and take effect only after a restart; empty if all can be taken over.

    The origin's credentials count as one: `origin.credentials`.
    """
    changed = [path for table in _COMPARED for path in _changed(table, getattr(old, table), getattr(new, table))]
    if (old.ssd is None) != (new.ssd is None):
        changed.append("ssd.path")
    elif old.ssd is not None:
        changed += _changed("ssd", old.ssd, new.ssd)
    return [path for path in changed if path not in LIVE]


def _changed(table: str, old: object, new: object) -> list[str]:
    names = [field.name for field in fields(old)]  # type: ignore[arg-type]  # a table of the model is a dataclass
    return [f"{table}.{name}" for name in names if getattr(old, name) != getattr(new, name)]
