"""Reads the merged tree of settings, value by value, by the setting table. Collects every problem.

Each value is validated by itself here. Values are checked against each other in consistency_checks.py; secrets are
fetched in secret_lookup.py.
"""

import re
from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from forebay.core.errors import SettingsError
from forebay.settings.problems import HIDDEN, unknown_setting
from forebay.settings.setting import REQUIRED, UNSET, Setting
from forebay.settings.setting_table import OPTIONAL_TABLES, TABLE
from forebay.settings.value_types import RawText

Values: TypeAlias = dict[str, Any]
"""Names to values; None where a setting is not set. A table is Values or None, a list of tables a list of Values."""

Schema: TypeAlias = "dict[str, Setting | Schema | list[Schema]]"
"""Names to settings, to tables, and to lists of tables (as a list with one item)."""


def _schema() -> Schema:
    root: Schema = {}
    for setting in TABLE:
        *tables, name = setting.path.split(".")
        node = root
        for table in tables:
            inner = node.setdefault(table.removesuffix("[]"), [{}] if table.endswith("[]") else {})
            if isinstance(inner, Setting):
                raise TypeError(f"{inner.path} can't be both a setting and a table")
            node = inner[0] if isinstance(inner, list) else inner
        node[name] = setting
    return root


SCHEMA: Final = _schema()
_POSITION: Final = re.compile(r"\[\d+\]")
"""The number of a table in a path, which TOML does not write."""


def read_tree(tree: Mapping[str, object], problems: list[SettingsError]) -> Values:
    """The values of a whole configuration; complete only if no problem was added to `problems`."""
    return _read_table(tree, SCHEMA, "", problems)


def _read_table(raw: object, schema: Schema, where: str, problems: list[SettingsError]) -> Values:
    if not isinstance(raw, Mapping):
        problems.append(SettingsError(where, _type_name(raw), "a table"))
        return {}
    inside = f"{where}." if where else ""
    problems += [unknown_setting(f"{inside}{name}", name, schema) for name in raw if name not in schema]
    values: Values = {}
    for name, entry in schema.items():
        path = f"{inside}{name}"
        match entry:
            case Setting():
                values[name] = read_setting(raw.get(name, entry.default), entry, path, problems)
            case list():
                values[name] = _read_tables(raw.get(name, []), entry[0], path, problems)
            case _ if path in OPTIONAL_TABLES and name not in raw:
                values[name] = None
            case _:
                values[name] = _read_table(raw.get(name, {}), entry, path, problems)
    return values


def _read_tables(raw: object, schema: Schema, where: str, problems: list[SettingsError]) -> list[Values]:
    if not isinstance(raw, list):
        problems.append(
            SettingsError(where, _type_name(raw), f"a list of tables, each under [[{_POSITION.sub('', where)}]]")
        )
        return []
    return [_read_table(table, schema, f"{where}[{position}]", problems) for position, table in enumerate(raw)]


def read_setting(raw: object, setting: Setting, where: str, problems: list[SettingsError]) -> object:
    """The value of one setting at `where`, in the program's units; None, and a problem, if `raw` is refused."""
    if raw is UNSET:
        return None
    if raw is REQUIRED:
        problems.append(SettingsError(where, None, setting.allowed))
        return None
    value = setting.value_type.from_text(str(raw)) if isinstance(raw, RawText) else raw
    try:
        value = setting.value_type.read([] if value == () else value)
    except (ValueError, OverflowError) as error:
        shown = str(raw) if isinstance(raw, RawText) else raw
        if setting.value_type.conceals(str(raw)):
            shown = HIDDEN
        problems.append(SettingsError(where, shown, str(error) or setting.allowed))
        return None
    low, high = setting.low, setting.high
    # A value that is no number ("off" has become None) has no bounds either.
    if isinstance(value, (int, float)) and ((low is not None and value < low) or (high is not None and value > high)):
        problems.append(SettingsError(where, str(raw) if isinstance(raw, RawText) else raw, setting.allowed))
        return None
    return value


def _type_name(raw: object) -> str:
    """The type of a misplaced value, for a problem. Never the value: it may hold a secret."""
    match raw:
        case Mapping():
            return "a table"
        case list():
            return "a list"
        case str():
            return "a string"
        case _:
            return f"a {type(raw).__name__}"
