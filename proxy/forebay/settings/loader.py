"""Loads a configuration: sources, values, secrets, checks. Pure: the caller brings files and environment."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from forebay.core.errors import SettingsError
from forebay.settings.advice import doubtful
from forebay.settings.assembly import assemble
from forebay.settings.checks import impossible
from forebay.settings.model import Settings
from forebay.settings.problems import raise_any
from forebay.settings.secret_lookup import SecretPlaces
from forebay.settings.setting_table import Setting
from forebay.settings.sources import overlay_environment, overlay_flags, tree_of_toml
from forebay.settings.tree_reader import SHAPE, Shape, Values, read_tree

READABLE_BY_OTHERS: Final = 0o077


@dataclass(frozen=True, slots=True)
class Loaded:
    """A configuration that can be served, and what its owner should know of it."""

    settings: Settings
    warnings: tuple[str, ...]


def load_settings(
    text: str | None,
    environ: Mapping[str, str],
    flags: Mapping[str, object],
    read_file: Callable[[str], str],
    *,
    mode: int = 0o600,
    named: str = "the configuration file",
) -> Loaded:
    """The settings of a configuration file's `text` (None: there is none), the environment and the flags.

    `flags`: setting paths to values, text or as TOML gives them; None was not given. `read_file`: for secrets in files.
    `mode`: the permission bits of the configuration file. `named`: what people know it as.

    Raises SettingsErrors, a SettingsError with all `problems` that were found.
    """
    problems: list[SettingsError] = []
    warnings: list[str] = []
    tree = {} if text is None else tree_of_toml(text, named)
    if mode & READABLE_BY_OTHERS:
        warnings += [
            f"{where} stands in a configuration file that others can read: use {where}_env, or chmod 600"
            for where in _inline_secrets(tree, SHAPE, "")
        ]
    overlay_environment(tree, environ, problems, warnings)
    overlay_flags(tree, flags, problems)
    values = read_tree(tree, problems)
    raise_any(problems)
    _open_by_flag(flags, values["auth"], warnings)
    settings = assemble(values, SecretPlaces(environ, read_file), problems)
    raise_any(problems)
    raise_any(list(impossible(settings)))
    return Loaded(settings, (*warnings, *doubtful(settings)))


def _open_by_flag(flags: Mapping[str, object], auth: Values, warnings: list[str]) -> None:
    """A flag is said here and now, by name: it goes before keys that stand elsewhere, whose secrets nobody needs then.
    In a file or an environment, "open" beside keys is a contradiction, and refused with the other impossible things."""
    if flags.get("auth.mode") == "open" and auth["keys"]:
        ids = ", ".join(key["id"] for key in auth["keys"])
        warnings.append(f"--open: no request is checked, and the configured keys ({ids}) are not asked for")
        auth["keys"] = []


def _inline_secrets(given: object, shape: Shape, where: str) -> Iterator[str]:
    """The paths of the secrets that stand in the tree of the file itself."""
    if not isinstance(given, dict):
        return
    for name, value in given.items():
        path = f"{where}.{name}" if where else name
        match shape.get(name):
            case Setting(kind=kind):
                if kind.name == "secret":
                    yield path
            case [inner] if isinstance(value, list):
                for position, one in enumerate(value):
                    yield from _inline_secrets(one, inner, f"{path}[{position}]")
            case dict(inner):
                yield from _inline_secrets(value, inner, path)
