"""Sizes that tiers were given while Forebay serves, by the admin port: they go over the configured ones.

They hold until the process ends, or a configuration is taken that has another size for the tier than the one before it.
Not until any is taken: SIGHUP, which has a log file opened anew, reads the configuration too.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import cast

from forebay.core.errors import SettingsError
from forebay.core.events import TierName
from forebay.settings.model import Settings
from forebay.settings.problems import raise_any
from forebay.settings.sources import SCALARS
from forebay.settings.tree_reader import read_setting


class SizeOverrides:
    """See the module. Sizes are bytes."""

    def __init__(self) -> None:
        self._sizes: dict[TierName, int] = {}

    def set(self, tier: TierName, size: int) -> None:
        """It has that size from here on."""
        self._sizes[tier] = size

    def items(self) -> list[tuple[TierName, int]]:
        return list(self._sizes.items())

    def apply(self, settings: Settings) -> Settings:
        """The settings with the sizes that hold."""
        memory = replace(settings.memory, size=self._sizes.get("memory", settings.memory.size))
        ssd = settings.ssd and replace(settings.ssd, size=self._sizes.get("ssd", settings.ssd.size))
        return replace(settings, memory=memory, ssd=ssd)

    def drop_changed(self, old: Settings, new: Settings) -> Iterator[tuple[TierName, int]]:
        """The tiers that `new`, which is in force now, sizes otherwise than `old`: what was noted of them is over."""
        before = dict(_sizes(old))
        for tier, size in _sizes(new):
            if before.get(tier) != size:
                self._sizes.pop(tier, None)
                yield tier, size


def parse_capacity(tier: TierName, size: str) -> int:
    """Bytes, as the configuration would take them. Raises SettingsError."""
    where, problems = f"{tier}.size", list[SettingsError]()
    capacity = read_setting(size, SCALARS[where], where, problems)
    raise_any(problems)
    return cast("int", capacity)


def _sizes(settings: Settings) -> Iterator[tuple[TierName, int]]:
    yield "memory", settings.memory.size
    if settings.ssd is not None:
        yield "ssd", settings.ssd.size
