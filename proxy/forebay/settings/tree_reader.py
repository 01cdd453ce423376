"""From the tree of what was given to values that are each right by themselves. All that is wrong is collected.

What the values have to do with each other is in checks.py; secrets are fetched in secret_lookup.py.
"""

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from forebay.core.errors import SettingsError
from forebay.settings.problems import HIDDEN, unknown
from forebay.settings.setting_table import OPTIONAL_TABLES, REQUIRED, TABLE, UNSET, Setting
from forebay.settings.value_types import Text

Values: TypeAlias = dict[str, Any]
"""Names to values; None where a setting is not set. A table is Values or None, a list of tables a list of Values."""

Shape: TypeAlias = "dict[str, Setting | Shape | list[Shape]]"
"""Names to settings, tables, and (in a list of one) lists of tables."""


def _shape() -> Shape:
    root: Shape = {}
    for setting in TABLE:
        *tables, name = setting.path.split(".")
        at = root
        for table in tables:
            inner = at.setdefault(table.removesuffix("[]"), [{}] if table.endswith("[]") else {})
            if isinstance(inner, Setting):
                raise TypeError(f"{inner.path} can't be both a setting and a table")
            at = inner[0] if isinstance(inner, list) else inner
        at[name] = setting
    return root


SHAPE: Final = _shape()


def read_tree(tree: Mapping[str, object], problems: list[SettingsError]) -> Values:
    """The values of a whole configuration. They are complete only if no problem was added."""
    return _read_table(tree, SHAPE, "", problems)


def _read_table(given: object, shape: Shape, where: str, problems: list[SettingsError]) -> Values:
    if not isinstance(given, Mapping):
        problems.append(SettingsError(where, _kind_of(given), "a table"))
        return {}
    inside = f"{where}." if where else ""
    problems += [unknown(f"{inside}{name}", name, shape) for name in given if name not in shape]
    values: Values = {}
    for name, wanted in shape.items():
        path = f"{inside}{name}"
        match wanted:
            case Setting():
                values[name] = read_setting(given.get(name, wanted.default), wanted, path, problems)
            case list():
                values[name] = _read_tables(given.get(name, []), wanted[0], path, problems)
            case _ if path in OPTIONAL_TABLES and name not in given:
                values[name] = None
            case _:
                values[name] = _read_table(given.get(name, {}), wanted, path, problems)
    return values


def _read_tables(given: object, shape: Shape, where: str, problems: list[SettingsError]) -> list[Values]:
    if not isinstance(given, list):
        problems.append(SettingsError(where, _kind_of(given), "a list of tables"))
        return []
    return [_read_table(one, shape, f"{where}[{position}]", problems) for position, one in enumerate(given)]


def read_setting(given: object, setting: Setting, where: str, problems: list[SettingsError]) -> object:
    """The value of one setting at `where`; None, and a problem, if it can't be one."""
    if given is UNSET:
        return None
    if given is REQUIRED:
        problems.append(SettingsError(where, None, f"{setting.allowed}; it must be given"))
        return None
    value = setting.kind.of_text(str(given)) if isinstance(given, Text) else given
    try:
        value = setting.kind.read([] if value == () else value)
    except (ValueError, OverflowError) as error:
        shown = HIDDEN if setting.kind.secret else str(given) if isinstance(given, Text) else given
        problems.append(SettingsError(where, shown, str(error) or setting.allowed))
        return None
    low, high = setting.low, setting.high
    # A value that is no number ("off" has become None) has no bounds either.
    if isinstance(value, (int, float)) and ((low is not None and value < low) or (high is not None and value > high)):
        problems.append(SettingsError(where, str(given) if isinstance(given, Text) else given, setting.allowed))
        return None
    return value


def _kind_of(given: object) -> str:
    """What something of the wrong form is: not what it holds, as that may be a secret."""
    match given:
        case Mapping():
            return "a table"
        case list():
            return "a list"
        case str():
            return "a string"
        case _:
            return f"a {type(given).__name__}"
