"""The settings of `[auth]`: keys of clients, their grants, and those of anonymous clients."""

from typing import Final

from forebay.settings.setting import HOUR, REQUIRED, UNSET, Setting, secret_settings
from forebay.settings.value_types import ACCESS_KEY, DURATION, NAMES, PATTERN, PROFILE, choice, choices

AUTH: Final[tuple[Setting, ...]] = (
    Setting(
        "auth.mode",
        choice("keys", "open"),
        "keys",
        'Whether requests must be signed with one of `auth.keys`, or are not checked ("open", on loopback only).',
        live=True,
    ),
    Setting(
        "auth.authorization_ttl",
        DURATION,
        "60s",
        "How long the origin's permission to read an object is cached for a key with its own origin credential.",
        0,
        HOUR,
        live=True,
    ),
    Setting("auth.keys[].id", ACCESS_KEY, REQUIRED, "The access key that clients sign with.", live=True),
    *secret_settings("auth.keys[].secret", "The secret of the access key", live=True),
    *secret_settings(
        "auth.keys[].session_token", "The session token that requests with this key must carry", live=True
    ),
    Setting(
        "auth.keys[].origin_access_key",
        ACCESS_KEY,
        UNSET,
        "The key's own origin credential: it signs requests to the origin, and hits need the origin's permission.",
        live=True,
    ),
    *secret_settings("auth.keys[].origin_secret_key", "The secret of `origin_access_key`", live=True),
    *secret_settings(
        "auth.keys[].origin_session_token", "The session token of `origin_access_key`, if it has one", live=True
    ),
    Setting(
        "auth.keys[].origin_profile",
        PROFILE,
        UNSET,
        "The profile of the shared AWS files with the key's own origin credential.",
        live=True,
    ),
    Setting(
        "auth.keys[].origin_names",
        NAMES,
        (),
        "The origins where that credential is used, Forebay's own at the others; none named: all of them.",
        live=True,
    ),
    Setting(
        "auth.keys[].grants[].path",
        PATTERN,
        REQUIRED,
        "The objects of the grant, as a pattern over bucket/key.",
        live=True,
    ),
    Setting(
        "auth.keys[].grants[].allow",
        choices("read", "write", "list", "delete"),
        REQUIRED,
        "The allowed actions; anything else is denied.",
        live=True,
    ),
    Setting(
        "auth.anonymous.grants[].path",
        PATTERN,
        REQUIRED,
        "The objects of a grant to requests that are not signed, as a pattern over bucket/key.",
        live=True,
    ),
    Setting(
        "auth.anonymous.grants[].allow",
        choices("read", "write", "list", "delete"),
        REQUIRED,
        "The actions allowed to unsigned requests, if the origin allows them to anybody; anything else is denied.",
        live=True,
    ),
)
