"""The configuration: what can be set, how it is written, what is refused.

sources    TOML file, environment, flags      -> one tree
reading    the tree, by the table             -> values, each right by itself
assemble   values, with secrets fetched       -> Settings
checks     Settings                           -> impossible together?
load       all of that; pure: the caller reads the files
changes    two Settings                       -> what needs a restart

table      every setting: path, kind, default, bounds, meaning
kinds      how each kind of value is read
model      what the program gets
"""

from forebay.settings.addresses import Address
from forebay.settings.loader import Loaded, load_settings
from forebay.settings.model import (
    Anonymous,
    AuthSettings,
    Credentials,
    Dialect,
    GrantSettings,
    KeySettings,
    LimitSettings,
    MemorySettings,
    OriginSettings,
    Profile,
    ProviderChain,
    ServerSettings,
    Settings,
    SsdSettings,
    StaticKey,
)
from forebay.settings.problems import SettingsErrors
from forebay.settings.restart import restart_needed
from forebay.settings.rule_settings import Rule
from forebay.settings.secret import Secret

__all__ = [
    "Address",
    "Anonymous",
    "AuthSettings",
    "Credentials",
    "Dialect",
    "GrantSettings",
    "KeySettings",
    "LimitSettings",
    "Loaded",
    "MemorySettings",
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
