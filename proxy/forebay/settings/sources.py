"""Where settings come from: a TOML file, the environment over it, command-line flags over that. One tree comes out.

    [server] listen = "..."       FOREBAY_SERVER__LISTEN=...       {"server.listen": "..."}

Lists of tables are given whole, as JSON: FOREBAY_RULES='[{"path": "**", "freshness": "always"}]'.

A variable without `__` (FOREBAY_RULES apart) is left alone, since Kubernetes puts FOREBAY_PORT and the like into the
environment of every container beside a service named forebay. One that looks like a setting with a single underscore
is warned about.
"""

import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from typing import Any, Final

from forebay.core.errors import SettingsError
from forebay.settings.problems import HIDDEN, SettingsErrors, unknown
from forebay.settings.setting_table import TABLE
from forebay.settings.value_types import Text

ENVIRONMENT_PREFIX: Final = "FOREBAY_"

Tree = dict[str, Any]

# How tomllib ends what it says. Python 3.14's tells the place apart as well.
_PLACE: Final = re.compile(r" \(at (?:line (\d+), column (\d+)|end of document)\)$")

SCALARS: Final = {setting.path: setting for setting in TABLE if "[]" not in setting.path}
LISTS: Final = frozenset(setting.path.partition("[]")[0] for setting in TABLE if "[]" in setting.path)


def variable_of(path: str) -> str:
    """The environment variable of a setting, or of a list of tables: `server.listen` is FOREBAY_SERVER__LISTEN."""
    return ENVIRONMENT_PREFIX + path.upper().replace(".", "__")


_PATHS: Final = {variable_of(path): path for path in (*SCALARS, *LISTS)}


def tree_of_toml(text: str, named: str) -> Tree:
    """The tree of a configuration, which people know as `named`. Raises SettingsErrors."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        # The text itself is not repeated: it may hold secrets.
        where, problem = f"{named}, {_place(text, str(error))}", _PLACE.sub("", str(error))
        raise SettingsErrors([SettingsError(where, HIDDEN, f"TOML ({problem})")]) from None
    except RecursionError:
        raise SettingsErrors([SettingsError(named, HIDDEN, "TOML, less deeply nested")]) from None


def _place(text: str, said: str) -> str:
    found = _PLACE.search(said)
    if found is None or found[1] is None:
        return f"line {len(text.splitlines()) or 1}, at its end"
    return f"line {found[1]}, column {found[2]}"


def overlay_environment(
    tree: Tree, environ: Mapping[str, str], problems: list[SettingsError], warnings: list[str]
) -> None:
    """Puts the settings of the environment over `tree`."""
    referred = set(_referred(tree))
    unclear = {variable.replace("__", "_"): variable for variable in _PATHS}
    for name, value in sorted(environ.items()):
        if not name.startswith(ENVIRONMENT_PREFIX):
            continue
        if name in _PATHS:
            _put(tree, _PATHS[name], value, problems)
        elif name in referred:
            continue
        elif "__" in name:
            problems.append(unknown(name, name, _PATHS))
        elif name in unclear:
            warnings.append(f"{name} is not a setting and is not used: did you mean {unclear[name]}?")


def overlay_flags(tree: Tree, flags: Mapping[str, object], problems: list[SettingsError]) -> None:
    """Puts the flags over `tree`: paths to values, as text or as TOML would give them; None was not given."""
    for path, value in flags.items():
        if value is None:
            continue
        if path in SCALARS or path in LISTS:
            _put(tree, path, value, problems)
        else:
            problems.append(unknown(path, path, (*SCALARS, *LISTS)))


def _put(tree: Tree, path: str, value: object, problems: list[SettingsError]) -> None:
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
        tree[name] = Text(value)


def _referred(tree: object) -> Iterator[str]:
    """The environment variables that the settings of the file name."""
    if isinstance(tree, dict):
        for name, value in tree.items():
            if isinstance(value, str) and name.endswith("_env"):
                yield value
            else:
                yield from _referred(value)
    elif isinstance(tree, list):
        for below in tree:
            yield from _referred(below)
