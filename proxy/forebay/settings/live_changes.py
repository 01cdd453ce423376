"""Live changes: the settings that take effect on a reload, and those that need a restart."""

from collections.abc import Iterator
from dataclasses import fields, replace
from typing import Final, TypeVar

from forebay.settings.model import (
    FetchSettings,
    JournalSettings,
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
Table = TypeVar(
    "Table",
    ServerSettings,
    OriginSettings,
    FetchSettings,
    MemorySettings,
    SsdSettings,
    JournalSettings,
    LimitSettings,
)


def restart_needed(old: Settings, new: Settings) -> list[str]:
    """The paths of changed settings that take effect only after a restart; empty if a reload applies all changes."""
    changed = [
        *_changed("server", old.server, new.server),
        *_changed_origins(old, new),
        *_changed("origin", old.fetch, new.fetch),
        *_changed("memory", old.memory, new.memory),
        *_changed("limits", old.limits, new.limits),
    ]
    if (old.ssd is None) != (new.ssd is None):
        changed.append("ssd.path")
    elif old.ssd is not None and new.ssd is not None:
        changed += _changed("ssd", old.ssd, new.ssd)
    if (old.journal is None) != (new.journal is None):
        changed.append("journal.path")
    elif old.journal is not None and new.journal is not None:
        changed += _changed("journal", old.journal, new.journal)
    return [path for path in changed if path not in LIVE]


def applied_settings(old: Settings, new: Settings) -> Settings:
    """The settings in effect when a server started with `old` has reloaded `new`, without a restart.

    So each bucket keeps its origin, whatever `new` says: cached data, and that of other workers, is of that one.
    """
    return Settings(
        server=_with_live("server", old.server, new.server),
        origin=old.origin and _with_credentials(old.origin, new),
        origins=tuple(_with_credentials(origin, new) for origin in old.origins),
        fetch=old.fetch,
        memory=_with_live("memory", old.memory, new.memory),
        ssd=_with_live("ssd", old.ssd, new.ssd) if old.ssd is not None and new.ssd is not None else old.ssd,
        journal=old.journal,
        auth=new.auth,
        rules=new.rules,
        limits=_with_live("limits", old.limits, new.limits),
    )


def _with_live(table: str, old: Table, new: Table) -> Table:
    live = {field.name: getattr(new, field.name) for field in fields(new) if f"{table}.{field.name}" in LIVE}
    return replace(old, **live)


def _with_credentials(old: OriginSettings, new: Settings) -> OriginSettings:
    """The origin with its credentials in `new`; a key is never sent to another endpoint than the one it is for."""
    renewed = next((origin for origin in new.all_origins if origin.name == old.name), old)
    return replace(old, credentials=renewed.credentials) if renewed.endpoint == old.endpoint else old


def _changed(table: str, old: Table, new: Table) -> Iterator[str]:
    yield from (
        f"{table}.{field.name}" for field in fields(old) if getattr(old, field.name) != getattr(new, field.name)
    )


def _changed_origins(old: Settings, new: Settings) -> Iterator[str]:
    if old.origin is not None and new.origin is not None:
        yield from _changed("origin", old.origin, new.origin)
    elif old.origin is not None or new.origin is not None:
        yield "origin.endpoint"
    if [origin.name for origin in old.origins] != [origin.name for origin in new.origins]:
        yield "origins"
        return
    for position, (earlier, later) in enumerate(zip(old.origins, new.origins, strict=True)):
        for path in _changed("origin", earlier, later):
            if path not in LIVE:
                yield f"origins[{position}].{path.removeprefix('origin.')}"
