"""Builds Settings from validated values: fetches secrets, chooses credentials, derives defaults."""

import re
from collections.abc import Mapping
from typing import Final

from forebay.core.errors import SettingsError
from forebay.settings.addresses import host_of
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
        origin=_origin(values["origin"], sources, problems),
        memory=MemorySettings(**values["memory"]),
        ssd=None if values["ssd"] is None else SsdSettings(**values["ssd"]),
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


def _origin(values: Values, sources: SecretSources, problems: list[SettingsError]) -> OriginSettings:
    anonymous = values["anonymous"]
    named = _credentials(values, "", "origin", sources, problems)
    if anonymous and (values["access_key"] is not None or values["profile"] is not None):
        named_by = "access_key" if values["access_key"] is not None else "profile"
        problems.append(SettingsError("origin.anonymous", f"anonymous and {named_by}", _EXCLUSIVE[""]))
    credentials: OriginCredentials = named or (AnonymousAccess() if anonymous else ProviderChain())
    fields = _without(_without(values, "secret_key"), "session_token")
    for name in ("access_key", "profile", "anonymous"):
        del fields[name]
    fields["dialect"] = fields["dialect"] or default_dialect(values["endpoint"])
    fields["region"] = fields["region"] or default_region(values["endpoint"], fields["dialect"])
    if fields["region"] is None:
        problems.append(SettingsError("origin.region", None, "the region of the bucket, such as cn-hangzhou"))
    elif fields["dialect"] == "oss":
        fields["region"] = fields["region"].removeprefix("oss-")
    return OriginSettings(credentials=credentials, **fields)


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
        problems.append(SettingsError(f"{where}.secret", None, "secret_env, secret_file or secret must be given"))
    return KeySettings(
        id=values["id"],
        # An empty secret only ever accompanies a problem, so it is never served.
        secret=secret or Secret(""),
        session_token=fetch_secret(values, "session_token", where, sources, problems),
        grants=_grants(values),
        origin=_credentials(values, "origin_", where, sources, problems),
    )


def _anonymous(values: Values | None) -> AnonymousClients | None:
    return None if values is None else AnonymousClients(_grants(values))


def _grants(values: Values) -> tuple[GrantSettings, ...]:
    return tuple(GrantSettings(grant["path"], grant["allow"]) for grant in values["grants"])


def _without(values: Values, secret: str) -> Values:
    return {
        name: value for name, value in values.items() if name not in {secret + suffix for suffix in _SECRET_SUFFIXES}
    }
