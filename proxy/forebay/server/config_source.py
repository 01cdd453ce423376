"""The sources of the configuration: a file, the environment, the command line, and sizes set over it at run time.

File, environment and command line are read together on every reload, so that a flag stays stronger than the file. Sizes
of tiers that were set by the admin port go over all of them (`SizeOverrides`).
"""

import argparse
import logging
import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, cast

import aiofiles

from forebay.core.errors import SettingsError
from forebay.core.events import TierName
from forebay.settings.loader import Loaded, load_settings
from forebay.settings.model import Settings
from forebay.settings.problems import raise_any
from forebay.settings.sources import SCALARS
from forebay.settings.tree_reader import read_setting

SENT_NAME: Final = "the configuration that was sent"
CONFIG_VARIABLE: Final = "FOREBAY_CONFIG"
_FLAGS: Final = {
    "origin": "origin.endpoint",
    "region": "origin.region",
    "listen": "server.listen",
    "admin": "server.admin",
    "memory": "memory.size",
    "ssd": "ssd.path",
    "ssd_size": "ssd.size",
    "workers": "server.workers",
}
"""Options of `forebay serve`, and the setting that each of them sets."""


@dataclass(frozen=True, slots=True)
class ConfigSource:
    """The sources of one process's configuration. `flags`: setting paths to values, None for flags that are absent."""

    file: Path | None
    environ: Mapping[str, str]
    flags: Mapping[str, object]
    builtin: str | None = None
    """TOML in place of a file where there is none."""

    def load(self, *, without_secrets: bool = False) -> Loaded:
        """The settings that the sources make now. `without_secrets`: see load_settings. Raises SettingsError, for an
        unreadable file too."""
        return self.load_text(*self.read(), without_secrets=without_secrets)

    def read(self) -> tuple[str | None, int]:
        """The file's text and its mode, for `load_text`. Raises SettingsError."""
        if self.file is None:
            return self.builtin, 0o600
        try:
            text = self.file.read_text(encoding="utf-8")
            mode = self.file.stat().st_mode
        except (OSError, UnicodeDecodeError) as error:
            raise _unreadable(self.file, error) from error
        return text, stat.S_IMODE(mode)

    async def reread(self) -> tuple[str | None, int]:
        """`read` without blocking the loop: the file may be on a slow disk."""
        if self.file is None:
            return self.read()
        try:
            async with aiofiles.open(self.file, encoding="utf-8") as file:
                text, mode = await file.read(), os.fstat(file.fileno()).st_mode
        except (OSError, UnicodeDecodeError) as error:
            raise _unreadable(self.file, error) from error
        return text, stat.S_IMODE(mode)

    def load_text(
        self, text: str | None, mode: int = 0o600, name: str | None = None, *, without_secrets: bool = False
    ) -> Loaded:
        """Returns the settings with `text` in place of the file's. `name`: the text's name in messages; None: the
        file's path."""
        name = name or str(self.file or "the configuration")
        return load_settings(
            text,
            self.environ,
            self.flags,
            _read_file,
            mode=mode,
            named=name,
            without_secrets=without_secrets,
        )


def source_from_args(args: argparse.Namespace, environ: Mapping[str, str]) -> ConfigSource:
    """The sources that a `forebay serve` command line and the environment name."""
    flags: dict[str, object] = {path: getattr(args, option) for option, path in _FLAGS.items()}
    if args.open:
        flags["auth.mode"] = "open"
    file = args.config or environ.get(CONFIG_VARIABLE)
    return ConfigSource(Path(file) if file else None, environ, flags)


def set_log_level(settings: Settings) -> None:
    """Sets the level of Forebay's own loggers. Libraries keep theirs."""
    logging.getLogger("forebay").setLevel(settings.server.log_level.upper())


class SizeOverrides:
    """Sizes of tiers, in bytes, that the admin port has set over the configured ones.

    An override lasts until the process ends, or until a configuration comes into force that sizes its tier otherwise
    than the one before. A reload alone does not end it: SIGHUP, which reopens a log file, reads the configuration too.
    """

    def __init__(self) -> None:
        self._sizes: dict[TierName, int] = {}

    def set(self, tier: TierName, size: int) -> None:
        """Overrides the size of a tier."""
        self._sizes[tier] = size

    def items(self) -> list[tuple[TierName, int]]:
        """The overrides in force."""
        return list(self._sizes.items())

    def apply(self, settings: Settings) -> Settings:
        """The settings with the overrides in place of the configured sizes."""
        memory = replace(settings.memory, size=self._sizes.get("memory", settings.memory.size))
        ssd = settings.ssd and replace(settings.ssd, size=self._sizes.get("ssd", settings.ssd.size))
        return replace(settings, memory=memory, ssd=ssd)

    def drop_changed(self, old: Settings, new: Settings) -> Iterator[tuple[TierName, int]]:
        """The tiers, with their sizes, that `new` sizes otherwise than `old`; their overrides end."""
        before = dict(_sizes(old))
        for tier, size in _sizes(new):
            if before.get(tier) != size:
                self._sizes.pop(tier, None)
                yield tier, size


def parse_capacity(tier: TierName, size: str) -> int:
    """Bytes, from a size as the configuration writes it. Raises SettingsError."""
    where, problems = f"{tier}.size", list[SettingsError]()
    capacity = read_setting(size, SCALARS[where], where, problems)
    raise_any(problems)
    return cast("int", capacity)


def _sizes(settings: Settings) -> Iterator[tuple[TierName, int]]:
    yield "memory", settings.memory.size
    if settings.ssd is not None:
        yield "ssd", settings.ssd.size


def _unreadable(file: Path, error: OSError | UnicodeDecodeError) -> SettingsError:
    if isinstance(error, OSError):
        why = error.strerror or str(error)
        reason = f"{str(file)!r} can't be read: {why}"
        return SettingsError("the configuration file", str(file), f"a file that can be read ({why})", reason=reason)
    reason = f"{str(file)!r} is not TOML, as it is not UTF-8"
    return SettingsError("the configuration file", str(file), "TOML, which is UTF-8", reason=reason)


def _read_file(path: str) -> str:
    return Path(path).read_text(encoding="utf-8")
