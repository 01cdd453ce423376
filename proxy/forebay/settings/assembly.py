"""Builds Settings from validated values: fetches secrets, chooses credentials, derives defaults."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import Final

from forebay.core.errors import SettingsError
from forebay.core.events import DEFAULT_ORIGIN
from forebay.settings.addresses import host_of
from forebay.settings.model import (
    AnonymousAccess,
    AnonymousClients,
    AuthSettings,
    Dialect,
    FetchSettings,
    GrantSettings,
    JournalSettings,
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
from forebay.settings.secret_lookup import SecretSources, fetch_secret
from forebay.settings.tree_reader import Values

_AMAZON: Final = re.compile(r"\.amazonaws\.com(?:\.cn)?$")
# Before the region: `s3`, `s3.dualstack`, `s3-fips`, or the name of a VPC endpoint that ends in `.s3`.
_REGIONAL: Final = re.compile(
    r"(?:^|\.)s3(?:-fips)?(?:\.dualstack)?\.([a-z]{2}(?:-[a-z]+)+-\d)(?:\.vpce)?" + _AMAZON.pattern
)
_ALIBABA: Final = re.compile(r"\.aliyuncs\.com$")
# `oss-cn-hangzhou`, and `oss-cn-hangzhou-internal` within Alibaba's network; the accelerated ones name no region.
_OSS_REGIONAL: Final = re.compile(r"^oss-([a-z]+-[a-z0-9]+(?:-[a-z0-9]+)*?)(?:-internal)?" + _ALIBABA.pattern)
_STATE_DIRECTORIES: Final = (
    ("STATE_DIRECTORY", ""),
    ("XDG_STATE_HOME", "/forebay"),
    ("HOME", "/.local/state/forebay"),
)
_FETCH: Final = tuple(field.name for field in fields(FetchSettings))
_SHARED: Final = ("connect_timeout", "answer_timeout", "hedge_after", "concurrency", "attempts")
"""Settings that an entry of `[[origins]]` has from `[origin]` if it does not set them."""
_SECRET_SUFFIXES: Final = ("", "_env", "_file")
_EXCLUSIVE: Final = {
    "": "one of access_key, profile and anonymous, or none for the usual provider chain",
    "origin_": "one of origin_access_key and origin_profile, or none for Forebay's own credential",
}


def assemble(values: Values, sources: SecretSources, problems: list[SettingsError]) -> Settings:
    """The settings; usable only if no problem was added to `problems`."""
    server = values["server"]
    token = fetch_secret(server, "admin_token", "server", sources, problems)
    return Settings(
        server=ServerSettings(
            **{
                **_without(server, "admin_token"),
                "admin_token": token,
                "cnames": server["cnames"] or {},
                "state_dir": server["state_dir"] or default_state_dir(sources.environ),
            }
        ),
        origin=_default_origin(values["origin"], sources, problems),
        origins=tuple(
            _origin(_with_shared(entry, values["origin"]), f"origins[{position}]", sources, problems)
            for position, entry in enumerate(values["origins"])
        ),
        fetch=FetchSettings(**{name: values["origin"][name] for name in _FETCH}),
        memory=MemorySettings(**values["memory"]),
        ssd=None if values["ssd"] is None else SsdSettings(**values["ssd"]),
        journal=None if values["journal"] is None else JournalSettings(**values["journal"]),
        auth=AuthSettings(
            mode=values["auth"]["mode"],
            keys=tuple(
                _key(key, f"auth.keys[{position}]", sources, problems)
                for position, key in enumerate(values["auth"]["keys"])
            ),
            authorization_ttl=values["auth"]["authorization_ttl"],
            anonymous=_anonymous(values["auth"]["anonymous"]),
        ),
        rules=tuple(Rule(**rule) for rule in values["rules"]),
        limits=LimitSettings(**values["limits"]),
    )


def default_state_dir(environ: Mapping[str, str]) -> str | None:
    """The state directory when none is configured: systemd's (StateDirectory= in systemd.exec(5)), else the user's
    (XDG Base Directory Specification); None if the environment names none. Relative paths count as none."""
    for variable, below in _STATE_DIRECTORIES:
        path = environ.get(variable, "").partition(":")[0]  # systemd separates several with colons
        if path.startswith("/"):
            return path.rstrip("/") + below
    return None


def default_dialect(endpoint: str) -> Dialect:
    """The dialect of an endpoint when none is configured: Amazon's and Alibaba's hosts are known, others act like
    MinIO."""
    host = host_of(endpoint)
    return "aws" if _AMAZON.search(host) else "oss" if _ALIBABA.search(host) else "minio"


def default_region(endpoint: str, dialect: Dialect) -> str | None:
    """The region in an endpoint's name (`s3.eu-west-1.amazonaws.com`, `oss-cn-hangzhou.aliyuncs.com`), else us-east-1.

    None for an OSS endpoint without a region: OSS has no default.
    """
    if dialect == "oss":
        named = _OSS_REGIONAL.search(host_of(endpoint))
        return named[1] if named and not named[1].startswith("accelerate") else None
    named = _REGIONAL.search(host_of(endpoint))
    return named[1] if named else "us-east-1"


def _default_origin(values: Values, sources: SecretSources, problems: list[SettingsError]) -> OriginSettings | None:
    """`[origin]`; None if it has no endpoint, and only has defaults for all origins."""
    own = _without_all(values, _FETCH)
    if own["endpoint"] is not None:
        return _origin(own | {"name": DEFAULT_ORIGIN, "buckets": ()}, "origin", sources, problems)
    problems += [
        SettingsError(f"origin.{name}", "a value", "nothing, since origin.endpoint is not given")
        for name, value in _without_all(own, _SHARED).items()
        if value is not None and value is not False
    ]
    return None


def _with_shared(entry: Values, default: Values) -> Values:
    """An entry of `[[origins]]`, with the defaults of `[origin]`."""
    return entry | {name: default[name] for name in _SHARED if entry[name] is None}


def _origin(values: Values, where: str, sources: SecretSources, problems: list[SettingsError]) -> OriginSettings:
    anonymous = values["anonymous"]
    named = _credentials(values, "", where, sources, problems)
    if anonymous and (values["access_key"] is not None or values["profile"] is not None):
        named_by = "access_key" if values["access_key"] is not None else "profile"
        problems.append(SettingsError(f"{where}.anonymous", f"anonymous and {named_by}", _EXCLUSIVE[""]))
    credentials: OriginCredentials = named or (AnonymousAccess() if anonymous else ProviderChain())
    made = _without(_without(values, "secret_key"), "session_token")
    made = _without_all(made, ("access_key", "profile", "anonymous"))
    made["dialect"] = made["dialect"] or default_dialect(values["endpoint"])
    made["region"] = made["region"] or default_region(values["endpoint"], made["dialect"])
    if made["region"] is None:
        problems.append(SettingsError(f"{where}.region", None, "the region of the bucket, such as cn-hangzhou"))
    elif made["dialect"] == "oss":
        made["region"] = made["region"].removeprefix("oss-")
    return OriginSettings(credentials=credentials, **made)


def _credentials(
    values: Values, prefix: str, where: str, sources: SecretSources, problems: list[SettingsError]
) -> StaticKey | Profile | None:
    """The credentials in `{prefix}access_key` and its companions of the table at `where`; None if there are none."""
    secret_key = fetch_secret(values, f"{prefix}secret_key", where, sources, problems)
    session_token = fetch_secret(values, f"{prefix}session_token", where, sources, problems)
    access_key, profile = values[f"{prefix}access_key"], values[f"{prefix}profile"]
    if access_key is not None and profile is not None:
        problems.append(
            SettingsError(f"{where}.{prefix}profile", f"{prefix}access_key and {prefix}profile", _EXCLUSIVE[prefix])
        )
    if access_key is None:
        problems += [
            SettingsError(f"{where}.{prefix}access_key", None, f"an access key, since {prefix}{name} is given")
            for name in ("secret_key", "session_token")
            if any(values[prefix + name + suffix] is not None for suffix in _SECRET_SUFFIXES)
        ]
    elif not any(values[f"{prefix}secret_key{suffix}"] is not None for suffix in _SECRET_SUFFIXES):
        names = ", ".join(f"{prefix}secret_key{suffix}" for suffix in ("_env", "_file", ""))
        problems.append(
            SettingsError(f"{where}.{prefix}secret_key", None, f"one of {names}, since {prefix}access_key is given")
        )
    if access_key is not None and secret_key is not None:
        return StaticKey(access_key, secret_key, session_token)
    return Profile(profile) if profile is not None else None


def _key(values: Values, where: str, sources: SecretSources, problems: list[SettingsError]) -> KeySettings:
    secret = fetch_secret(values, "secret", where, sources, problems)
    if not any(values["secret" + suffix] is not None for suffix in _SECRET_SUFFIXES):
        problems.append(SettingsError(f"{where}.secret", None, "as secret_env, secret_file or secret"))
    return KeySettings(
        id=values["id"],
        # An empty secret only ever accompanies a problem, so it is never served.
        secret=secret or Secret(""),
        session_token=fetch_secret(values, "session_token", where, sources, problems),
        grants=_grants(values),
        origin=_credentials(values, "origin_", where, sources, problems),
        origin_names=values["origin_names"],
    )


def _anonymous(values: Values | None) -> AnonymousClients | None:
    return None if values is None else AnonymousClients(_grants(values))


def _grants(values: Values) -> tuple[GrantSettings, ...]:
    return tuple(GrantSettings(grant["path"], grant["allow"]) for grant in values["grants"])


def _without(values: Values, secret: str) -> Values:
    return {
        name: value for name, value in values.items() if name not in {secret + suffix for suffix in _SECRET_SUFFIXES}
    }


def _without_all(values: Values, names: Iterable[str]) -> Values:
    return {name: value for name, value in values.items() if name not in names}
