"""Credentials: where the client library finds an access key.

    1. arguments            access_key, secret_key, session_token; access_key="" sends unsigned requests
    2. the environment      AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN; for dialect "oss"
                            OSS_ACCESS_KEY_ID, OSS_ACCESS_KEY_SECRET, OSS_SESSION_TOKEN, before those of AWS
    3. the shared files     the profile's keys in ~/.aws/credentials, then in ~/.aws/config
    4. botocore's chain     where botocore is installed: roles, SSO, web identity, containers, instance metadata

A profile that is named by an argument or by AWS_PROFILE comes before the environment's keys, as with boto3.

https://boto3.amazonaws.com/v1/documentation/api/latest/guide/credentials.html
"""

import importlib
import importlib.util
from collections.abc import Mapping
from typing import Any, Protocol

from forebay.protocol.signatures.signing_key import SecretKey
from forebay_client.client_errors import ClientConfigurationError
from forebay_client.shared_profile import SharedProfile

_AWS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
_OSS = ("OSS_ACCESS_KEY_ID", "OSS_ACCESS_KEY_SECRET", "OSS_SESSION_TOKEN")
_IN_FILES = ("aws_access_key_id", "aws_secret_access_key", "aws_session_token")


class CredentialSource(Protocol):
    """The source of the key that each request is signed with."""

    def current(self) -> SecretKey | None:
        """The key in force; None: requests are not signed. Raises ClientConfigurationError if it can't be had."""
        ...


class FixedCredentials:
    """A key that stays the same."""

    def __init__(self, secret: SecretKey | None) -> None:
        self._secret = secret

    def current(self) -> SecretKey | None:
        """The key."""
        return self._secret


class BotocoreCredentials:
    """The credentials of botocore's provider chain, which renews them."""

    def __init__(self, credentials: Any) -> None:
        self._credentials = credentials

    def current(self) -> SecretKey | None:
        """The key in force. Raises ClientConfigurationError where botocore can't renew it."""
        try:
            frozen = self._credentials.get_frozen_credentials()
        except Exception as error:
            raise ClientConfigurationError(f"botocore has no credentials: {type(error).__name__}") from error
        return SecretKey(frozen.access_key, frozen.secret_key, frozen.token)


def find_credentials(
    access_key: str | None,
    secret_key: str | None,
    session_token: str | None,
    dialect: str,
    profile: SharedProfile,
    environ: Mapping[str, str],
) -> CredentialSource:
    """The credentials in the order above. Raises ClientConfigurationError where there are none."""
    if access_key == "":
        return FixedCredentials(None)
    if access_key is not None or secret_key is not None:
        if not access_key or not secret_key:
            raise ClientConfigurationError("access_key and secret_key belong together")
        return FixedCredentials(_secret(access_key, secret_key, session_token))
    sources = (_OSS, _AWS) if dialect == "oss" else (_AWS,)
    if not profile.is_named:
        for names in sources:
            secret = _of_values(*(environ.get(name) for name in names))
            if secret is not None:
                return FixedCredentials(secret)
    for section in (profile.credentials, profile.config):
        secret = _of_values(*(section.get(name) for name in _IN_FILES))
        if secret is not None:
            return FixedCredentials(secret)
    found = _of_botocore(profile)
    if found is None:
        variables = " or ".join(f"{names[0]} and {names[1]}" for names in sources)
        raise ClientConfigurationError(
            f"there are no credentials: neither arguments, nor {variables}, nor the profile {profile.name!r} in the "
            "shared files; access_key='' sends unsigned requests"
        )
    return found


def _of_values(access_key: str | None, secret_key: str | None, token: str | None) -> SecretKey | None:
    return _secret(access_key, secret_key, token or None) if access_key and secret_key else None


def _secret(access_key: str, secret_key: str, token: str | None) -> SecretKey:
    if not isinstance(secret_key, str):
        raise ClientConfigurationError(f"the secret key is text, not {type(secret_key).__name__}")
    return SecretKey(
        check_header_text("the access key", access_key),
        secret_key,
        check_header_text("the session token", token) if token is not None else None,
    )


def check_header_text(name: str, value: str) -> str:
    """`value`, as it is. Raises ClientConfigurationError, which does not repeat it, for what no header holds."""
    if not isinstance(value, str):
        raise ClientConfigurationError(f"{name} is text, not {type(value).__name__}")
    if not (value.isascii() and value.isprintable()):
        raise ClientConfigurationError(f"{name} has a character that no header holds, a line end for instance")
    return value


def _of_botocore(profile: SharedProfile) -> BotocoreCredentials | None:
    if importlib.util.find_spec("botocore") is None:
        return None
    session = importlib.import_module("botocore.session").Session(profile=profile.name if profile.is_named else None)
    try:
        credentials = session.get_credentials()
    except Exception as error:
        raise ClientConfigurationError(f"botocore has no credentials: {type(error).__name__}") from error
    return BotocoreCredentials(credentials) if credentials is not None else None
