"""Where the configuration comes from: a file, the environment, the command line.

The three are read again together on a reload, so that a flag stays stronger than the file.
"""

import argparse
import asyncio
import logging
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import aiofiles

from forebay.core.errors import SettingsError
from forebay.settings.loader import Loaded, load_settings
from forebay.settings.model import Settings

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
"""Options of `forebay serve`, and the settings that each of them is."""


@dataclass(frozen=True, slots=True)
class ConfigSource:
    """How to come by the configuration. `flags` are setting paths to values, None for what was not given."""

    file: Path | None
    environ: Mapping[str, str]
    flags: Mapping[str, object]
    builtin: str | None = None
    """What stands in a file's place where there is none."""

    def load(self) -> Loaded:
        """Raises SettingsError, for a file that can't be read too."""
        return self.load_text(*self.read())

    def read(self) -> tuple[str | None, int]:
        """What `load_text` makes settings of: the file's text and its mode. Raises SettingsError."""
        if self.file is None:
            return self.builtin, 0o600
        try:
            text = self.file.read_text(encoding="utf-8")
            mode = self.file.stat().st_mode
        except (OSError, UnicodeDecodeError) as error:
            raise _unreadable(self.file, error) from error
        return text, stat.S_IMODE(mode)

    async def reread(self) -> tuple[str | None, int]:
        """`read`, while the loop goes on: the file may lie on a disk that is slow to answer."""
        if self.file is None:
            return self.read()
        try:
            async with aiofiles.open(self.file, encoding="utf-8") as file:
                text, mode = await file.read(), os.fstat(file.fileno()).st_mode
        except (OSError, UnicodeDecodeError) as error:
            raise _unreadable(self.file, error) from error
        return text, stat.S_IMODE(mode)

    async def reload(self) -> Loaded:
        """`load`, while the loop goes on."""
        text, mode = await self.reread()
        return await asyncio.to_thread(self.load_text, text, mode)

    def load_text(self, text: str | None, mode: int = 0o600, name: str | None = None) -> Loaded:
        """The same with another text in the file's place; `named`: what people know that by, if not by the file."""
        name = name or str(self.file or "the configuration")
        return load_settings(text, self.environ, self.flags, _read_file, mode=mode, named=name)


def source_from_args(args: argparse.Namespace, environ: Mapping[str, str]) -> ConfigSource:
    """What was typed behind `forebay serve`, and the environment."""
    flags: dict[str, object] = {path: getattr(args, option) for option, path in _FLAGS.items()}
    if args.open:
        flags["auth.mode"] = "open"
    file = args.config or environ.get(CONFIG_VARIABLE)
    return ConfigSource(Path(file) if file else None, environ, flags)


def _unreadable(file: Path, error: OSError | UnicodeDecodeError) -> SettingsError:
    if isinstance(error, OSError):
        allowed = f"a file that can be read ({error.strerror or error})"
        return SettingsError("the configuration file", str(file), allowed)
    return SettingsError("the configuration file", str(file), "TOML, which is UTF-8")


def set_log_level(settings: Settings) -> None:
    """What Forebay says of itself from now on. Other libraries keep their own levels."""
    logging.getLogger("forebay").setLevel(settings.server.log_level.upper())


def _read_file(path: str) -> str:
    return Path(path).read_text(encoding="utf-8")
