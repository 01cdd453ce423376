"""The table of all settings: path, type, default, bounds, meaning, and whether a reload applies a change.

tree_reader.py walks this table. Tests compare the pages of docs/configuration.md, the example files and the model with
it. `[]` in a path marks a list of tables.
"""

from typing import Final

from forebay.settings.auth_table import AUTH
from forebay.settings.limit_table import LIMITS
from forebay.settings.origin_table import ORIGINS
from forebay.settings.rule_table import RULES
from forebay.settings.server_table import SERVER
from forebay.settings.setting import Setting
from forebay.settings.storage_table import STORAGE

OPTIONAL_TABLES: Final = frozenset({"ssd", "journal", "auth.anonymous"})
"""Tables that may be absent; their required settings are required only if the table is present."""

TABLE: Final[tuple[Setting, ...]] = (*SERVER, *ORIGINS, *STORAGE, *AUTH, *RULES, *LIMITS)
