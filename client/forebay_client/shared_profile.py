"""One profile of the shared configuration and credentials files of the AWS SDKs.

    ~/.aws/config  (AWS_CONFIG_FILE)                    ~/.aws/credentials  (AWS_SHARED_CREDENTIALS_FILE)
        [default]    [profile NAME]                         [NAME]
        region, endpoint_url, ca_bundle, services           aws_access_key_id, aws_secret_access_key, ...
        [services NAME]
        s3 =
          endpoint_url = ...

https://docs.aws.amazon.com/sdkref/latest/guide/file-format.html
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from forebay_client.client_errors import ClientConfigurationError


@dataclass(frozen=True, slots=True)
class SharedProfile:
    """The settings of one profile."""

    name: str
    is_named: bool
    """Whether an argument or AWS_PROFILE names it, instead of `default`."""
    config: Mapping[str, str]
    """The profile's settings in the configuration file; empty if it is not there."""
    credentials: Mapping[str, str] = field(repr=False)
    """The profile's settings in the credentials file; empty if it is not there."""
    services: Mapping[str, str]
    """The settings of S3 in the section `services` that the profile names."""


def read_profile(name: str | None, environ: Mapping[str, str]) -> SharedProfile:
    """The profile `name`, else the one of the environment, else `default`.

    Files that don't exist are empty, and so are those of a home directory that is another user's or nobody's, as with
    boto3: containers often run so. Raises ClientConfigurationError for a file that can't be read or parsed, and for a
    named profile that is in neither.
    """
    chosen = name or environ.get("AWS_PROFILE") or environ.get("AWS_DEFAULT_PROFILE")
    profile = chosen or "default"
    config = _sections(environ.get("AWS_CONFIG_FILE"), "~/.aws/config")
    credentials = _sections(environ.get("AWS_SHARED_CREDENTIALS_FILE"), "~/.aws/credentials")
    settings = config.get(f"profile {profile}") or (config.get("default") if profile == "default" else None)
    secrets = credentials.get(profile)
    if chosen is not None and settings is None and secrets is None:
        raise ClientConfigurationError(f"the profile {profile!r} is in neither of the shared files")
    settings = settings or {}
    services = config.get(f"services {settings['services']}", {}) if "services" in settings else {}
    return SharedProfile(profile, chosen is not None, settings, secrets or {}, _nested(services.get("s3", "")))


def _sections(named: str | None, usual: str) -> dict[str, dict[str, str]]:
    """`named`: by the environment; else the file is the usual one."""
    try:
        file = Path(named or usual).expanduser()
    except RuntimeError:  # there is no home directory
        return {}
    try:
        text = file.read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (OSError, UnicodeDecodeError) as error:
        if isinstance(error, PermissionError) and not named:
            return {}
        raise _unreadable(file, error) from None
    import configparser  # noqa: PLC0415 # few clients have such a file

    parser = configparser.RawConfigParser(default_section="\0", strict=False)
    try:
        parser.read_string(text)
    except configparser.Error as error:
        raise _unreadable(file, error) from None
    return {name: dict(parser[name]) for name in parser.sections()}


def _unreadable(file: Path, error: Exception) -> ClientConfigurationError:
    """Returns the error, without the text of `error`: a line that can't be parsed may hold a secret."""
    return ClientConfigurationError(f"{file} can't be read: {type(error).__name__}")


def _nested(text: str) -> dict[str, str]:
    """Indented `name = value` lines below a setting."""
    pairs = (line.partition("=") for line in text.splitlines() if "=" in line)
    return {name.strip(): value.strip() for name, _, value in pairs}
