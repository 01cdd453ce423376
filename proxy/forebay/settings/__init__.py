"""Settings: their table, their sources, their validation.

sources               TOML file, environment, flags     -> one tree
tree_reader           the tree, by the setting table    -> validated values
assembly              values, with secrets fetched      -> Settings
consistency_checks    Settings                          -> contradictions, which are refused
settings_warnings     Settings                          -> likely mistakes, which are warned about
loader                all of these; pure: the caller reads the files
live_changes          two Settings                      -> the changes that need a restart

setting               a setting: path, type, default, bounds, meaning; those of each part: *_table, all: setting_table
value_types           how each type of value is read
model                 the result, as the program uses it
"""

from forebay.core.errors import SettingsErrors
from forebay.settings.addresses import ListenAddress
from forebay.settings.live_changes import restart_needed
from forebay.settings.loader import Loaded, load_settings
from forebay.settings.model import (
    AnonymousAccess,
    AnonymousClients,
    AuthSettings,
    Dialect,
    GrantSettings,
    KeySettings,
    LimitSettings,
    MemorySettings,
    OriginCredentials,
    OriginSettings,
    Profile,
    ProviderChain,
    ServerSettings,
    Settings,
    SsdSettings,
    StaticKey,
)
from forebay.settings.rule_settings import Rule
from forebay.settings.secret import Secret

__all__ = [
    "AnonymousAccess",
    "AnonymousClients",
    "AuthSettings",
    "Dialect",
    "GrantSettings",
    "KeySettings",
    "LimitSettings",
    "ListenAddress",
    "Loaded",
    "MemorySettings",
    "OriginCredentials",
    "OriginSettings",
    "Profile",
    "ProviderChain",
    "Rule",
    "Secret",
    "ServerSettings",
    "Settings",
    "SettingsErrors",
    "SsdSettings",
    "StaticKey",
    "load_settings",
    "restart_needed",
]
