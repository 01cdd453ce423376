"""Loads a configuration: sources, values, secrets, checks. Pure: the caller brings files and environment."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from forebay.core.errors import SettingsError, SettingsErrors
from forebay.settings.assembly import assemble
from forebay.settings.consistency_checks import inconsistencies
from forebay.settings.model import Settings
from forebay.settings.problems import raise_any
from forebay.settings.secret_lookup import SecretSources
from forebay.settings.setting import Setting
from forebay.settings.setting_table import TABLE
from forebay.settings.settings_warnings import settings_warnings
from forebay.settings.sources import Tree, overlay_environment, overlay_flags, overriding_variable, tree_of_toml
from forebay.settings.toml_lines import line_of
from forebay.settings.tree_reader import SCHEMA, Schema, Values, read_tree

READABLE_BY_OTHERS: Final = 0o077


@dataclass(frozen=True, slots=True)
class Loaded:
    """Settings that passed every check, and warnings about likely mistakes."""

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
    without_secrets: bool = False,
) -> Loaded:
    """The settings of a configuration file's `text` (None: there is none), the environment and the flags.

    `flags`: setting paths to values, as text or as TOML types; None means not given. `read_file`: reads the file of a
    secret. `mode`: the permission bits of the configuration file. `named`: its name in messages. `without_secrets`:
    those named by a variable or a file may be missing; such settings are to be checked only.

    Raises SettingsErrors, which has every problem in `problems`.
    """
    sources = SecretSources(environ, read_file, without_secrets)
    try:
        return _load({} if text is None else tree_of_toml(text, named), environ, flags, sources, mode)
    except SettingsErrors as refused:
        raise SettingsErrors([_with_source(each, text, environ, flags) for each in refused.problems]) from None


def _with_source(
    problem: SettingsError, text: str | None, environ: Mapping[str, str], flags: Mapping[str, object]
) -> SettingsError:
    variable, source = overriding_variable(problem.where, environ, flags), None
    if variable is not None:
        source = f"from {variable}"
    elif text is not None and flags.get(problem.where) is None and (line := line_of(text, problem.where)) is not None:
        source = f"line {line}"
    return SettingsError(problem.where, problem.value, problem.allowed, source, problem.reason)


def _load(
    tree: Tree, environ: Mapping[str, str], flags: Mapping[str, object], sources: SecretSources, mode: int
) -> Loaded:
    problems: list[SettingsError] = []
    warnings: list[str] = []
    if mode & READABLE_BY_OTHERS:
        warnings += [
            f"{where} stands in a configuration file that others can read: use {where}_env, or chmod 600"
            for where in _inline_secrets(tree, SCHEMA, "")
        ]
    overlay_environment(tree, environ, problems, warnings)
    overlay_flags(tree, flags, problems)
    values = read_tree(tree, problems)
    _require_origin(tree, problems)
    raise_any(problems)
    _open_by_flag(flags, values["auth"], warnings)
    settings = assemble(values, sources, problems)
    raise_any(problems)
    raise_any(list(inconsistencies(settings)))
    return Loaded(settings, (*warnings, *settings_warnings(settings)))


def _require_origin(tree: Mapping[str, object], problems: list[SettingsError]) -> None:
    """`[origin]` needs no endpoint where `[[origins]]` have one."""
    origin = tree.get("origin", {})
    if isinstance(origin, Mapping) and "endpoint" not in origin and not tree.get("origins"):
        allowed = next(setting.allowed for setting in TABLE if setting.path == "origin.endpoint")
        problems.append(SettingsError("origin.endpoint", None, allowed))


def _open_by_flag(flags: Mapping[str, object], auth: Values, warnings: list[str]) -> None:
    """The flag `--open` overrides configured keys, with a warning.

    In a file or an environment, "open" beside keys is refused as a contradiction.
    """
    if flags.get("auth.mode") != "open":
        return
    if auth["keys"]:
        ids = ", ".join(key["id"] for key in auth["keys"])
        warnings.append(f"--open: no request is checked, and the configured keys ({ids}) are ignored")
        auth["keys"] = []
    if auth["anonymous"] is not None:
        warnings.append("--open: no request is checked, and auth.anonymous is ignored")
        auth["anonymous"] = None


def _inline_secrets(tree: object, schema: Schema, where: str) -> Iterator[str]:
    """The paths of secrets written into the configuration file itself."""
    if not isinstance(tree, dict):
        return
    for name, value in tree.items():
        path = f"{where}.{name}" if where else name
        match schema.get(name):
            case Setting(value_type=kind):
                if kind.name == "secret":
                    yield path
            case [inner] if isinstance(value, list):
                for position, table in enumerate(value):
                    yield from _inline_secrets(table, inner, f"{path}[{position}]")
            case dict(inner):
                yield from _inline_secrets(value, inner, path)
