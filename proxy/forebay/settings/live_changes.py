"""Live changes: the settings that take effect on a reload, and those that need a restart."""

from dataclasses import fields, replace
from typing import Final, TypeVar

from forebay.settings.model import (
    LimitSettings,
    MemorySettings,
    OriginSettings,
    ServerSettings,
    Settings,
    SsdSettings,
)
from forebay.settings.setting_table import TABLE

LIVE: Final = frozenset({"origin.credentials", *(setting.path for setting in TABLE if setting.live)})
"""The origin's credentials count as one: `origin.credentials`."""
Table = TypeVar("Table", ServerSettings, OriginSettings, MemorySettings, SsdSettings, LimitSettings)

_COMPARED: Final = ("server", "origin", "memory", "limits")


def restart_needed(old: Settings, new: Settings) -> list[str]:
    """The paths of changed settings that take effect only after a restart; empty if a reload applies all changes."""
    changed = [path for table in _COMPARED for path in _changed(table, getattr(old, table), getattr(new, table))]
    if (old.ssd is None) != (new.ssd is None):
        changed.append("ssd.path")
    elif old.ssd is not None and new.ssd is not None:
        changed += _changed("ssd", old.ssd, new.ssd)
    return [path for path in changed if path not in LIVE]


def applied_settings(old: Settings, new: Settings) -> Settings:
    """The settings in effect when a server started with `old` has reloaded `new`, without a restart."""
    return Settings(
        server=_with_live("server", old.server, new.server),
        origin=_with_live("origin", old.origin, new.origin),
        memory=_with_live("memory", old.memory, new.memory),
        ssd=_with_live("ssd", old.ssd, new.ssd) if old.ssd is not None and new.ssd is not None else old.ssd,
        auth=new.auth,
        rules=new.rules,
        limits=_with_live("limits", old.limits, new.limits),
    )


def _with_live(table: str, old: Table, new: Table) -> Table:
    live = {field.name: getattr(new, field.name) for field in fields(new) if f"{table}.{field.name}" in LIVE}
    return replace(old, **live)


def _changed(table: str, old: Table, new: Table) -> list[str]:
    names = [field.name for field in fields(old)]
    return [f"{table}.{name}" for name in names if getattr(old, name) != getattr(new, name)]
