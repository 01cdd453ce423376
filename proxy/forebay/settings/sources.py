"""Merges the sources of settings into one tree: a TOML file, overridden by the environment, overridden by flags.

    [server] listen = "..."       FOREBAY_SERVER__LISTEN=...       {"server.listen": "..."}

Lists of tables are JSON: FOREBAY_RULES='[{"path": "**", "freshness": "always"}]'.

Other variables without `__` are ignored, because Kubernetes sets FOREBAY_PORT and others in every container beside a
service named forebay. A variable that would be a setting with two underscores is warned about.
"""

import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from typing import Any, Final

from forebay.core.errors import SettingsError, SettingsErrors
from forebay.settings.problems import HIDDEN, unknown_setting
from forebay.settings.setting_table import TABLE
from forebay.settings.value_types import RawText

ENVIRONMENT_PREFIX: Final = "FOREBAY_"

Tree = dict[str, Any]

# The end of a tomllib message. Python 3.14 also has the position as attributes.
_POSITION: Final = re.compile(r" \(at (?:line (\d+), column (\d+)|end of document)\)$")

SCALARS: Final = {setting.path: setting for setting in TABLE if "[]" not in setting.path}
LISTS: Final = frozenset(setting.path.partition("[]")[0] for setting in TABLE if "[]" in setting.path)


def variable_of(path: str) -> str:
    """The environment variable of a setting, or of a list of tables: `server.listen` is FOREBAY_SERVER__LISTEN."""
    return ENVIRONMENT_PREFIX + path.upper().replace(".", "__")


_PATHS: Final = {variable_of(path): path for path in (*SCALARS, *LISTS)}


def overriding_variable(where: str, environ: Mapping[str, str], flags: Mapping[str, object]) -> str | None:
    """The environment variable that gave the setting at `where` its value; None if the file or a flag did."""
    path = where.partition("[")[0]  # a list of tables is given as a whole
    variable = variable_of(path)
    return variable if variable in _PATHS and variable in environ and flags.get(path) is None else None


_NO_TOML: Final = "text that is no TOML"
"""Stands in messages for the text itself, which may hold secrets."""


def tree_of_toml(text: str, named: str) -> Tree:
    """The tree of a configuration file's `text`; `named` is its name in messages. Raises SettingsErrors."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        # The message never repeats the text: it may hold secrets.
        where, problem = f"{named}, {_position(text, str(error))}", _POSITION.sub("", str(error))
        hint = " (text stands in quotation marks)" if problem == "Invalid value" else ""
        reason = f"not TOML: {problem}{hint}"
        raise SettingsErrors([SettingsError(where, _NO_TOML, f"TOML ({problem})", reason=reason)]) from None
    except RecursionError:
        raise SettingsErrors([SettingsError(named, _NO_TOML, "TOML, less deeply nested")]) from None


def _position(text: str, message: str) -> str:
    found = _POSITION.search(message)
    if found is None or found[1] is None:
        return f"line {len(text.splitlines()) or 1}, at its end"
    return f"line {found[1]}, column {found[2]}"


def overlay_environment(
    tree: Tree, environ: Mapping[str, str], problems: list[SettingsError], warnings: list[str]
) -> None:
    """Overrides settings in `tree` with those of the environment; adds problems and warnings."""
    referenced = set(_named_variables(tree))
    unclear = {variable.replace("__", "_"): variable for variable in _PATHS}
    for name, value in sorted(environ.items()):
        if not name.startswith(ENVIRONMENT_PREFIX):
            continue
        if name in _PATHS:
            _set(tree, _PATHS[name], value, problems)
        elif name in referenced:
            continue
        elif "__" in name:
            problems.append(unknown_setting(name, name, _PATHS))
        elif name in unclear:
            warnings.append(f"{name} is not a setting and is not used: did you mean {unclear[name]}?")


def overlay_flags(tree: Tree, flags: Mapping[str, object], problems: list[SettingsError]) -> None:
    """Overrides settings in `tree` with flags: paths to values, as text or TOML types; None means not given."""
    for path, value in flags.items():
        if value is None:
            continue
        if path in SCALARS or path in LISTS:
            _set(tree, path, value, problems)
        else:
            problems.append(unknown_setting(path, path, (*SCALARS, *LISTS)))


def _set(tree: Tree, path: str, value: object, problems: list[SettingsError]) -> None:
    *tables, name = path.split(".")
    for table in tables:
        below = tree.setdefault(table, {})
        if not isinstance(below, dict):
            return  # the reader refuses it
        tree = below
    if not isinstance(value, str):
        tree[name] = value
    elif path in LISTS:
        try:
            tree[name] = json.loads(value)
        except (ValueError, RecursionError):
            problems.append(SettingsError(path, HIDDEN, "a list of tables, as JSON"))
    else:
        tree[name] = RawText(value)


def _named_variables(tree: object) -> Iterator[str]:
    """The environment variables that settings of the file refer to."""
    if isinstance(tree, dict):
        for name, value in tree.items():
            if isinstance(value, str) and name.endswith("_env"):
                yield value
            else:
                yield from _named_variables(value)
    elif isinstance(tree, list):
        for below in tree:
            yield from _named_variables(below)
