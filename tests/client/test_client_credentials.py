"""Credentials from where the SDKs find them, in their order."""

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from forebay.protocol.signatures.signing_key import SecretKey
from forebay_client import ClientConfigurationError
from forebay_client.client_credentials import BotocoreCredentials, find_credentials
from forebay_client.shared_profile import read_profile
from harness.forked import in_a_fork

KEYS = {"AWS_ACCESS_KEY_ID": "env", "AWS_SECRET_ACCESS_KEY": "env-secret", "AWS_SESSION_TOKEN": "env-token"}


def found(
    tmp_path: Path,
    environ: dict[str, str],
    *arguments: str | None,
    profile: str | None = None,
    dialect: str = "s3",
) -> SecretKey | None:
    environ = {
        "AWS_CONFIG_FILE": str(tmp_path / "config"),
        "AWS_SHARED_CREDENTIALS_FILE": str(tmp_path / "credentials"),
        **environ,
    }
    access, secret, token = (*arguments, None, None, None)[:3]
    return find_credentials(access, secret, token, dialect, read_profile(profile, environ), environ).current()


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "credentials").write_text(
        "[default]\naws_access_key_id = file\naws_secret_access_key = file-secret\n"
        "[job]\naws_access_key_id = job\naws_secret_access_key = job%secret\naws_session_token = t\n"
    )
    (tmp_path / "config").write_text("[profile old]\naws_access_key_id = old\naws_secret_access_key = old-secret\n")
    return tmp_path


def test_the_nearest_source_wins(files: Path) -> None:
    assert found(files, {}) == SecretKey("file", "file-secret")
    assert found(files, KEYS) == SecretKey("env", "env-secret", "env-token")
    assert found(files, KEYS, "arg", "arg-secret") == SecretKey("arg", "arg-secret")
    assert found(files, KEYS, "") is None


def test_a_named_profile_comes_before_the_environments_keys(files: Path) -> None:
    assert found(files, KEYS, profile="job") == SecretKey("job", "job%secret", "t")
    assert found(files, {**KEYS, "AWS_PROFILE": "old"}) == SecretKey("old", "old-secret")


@pytest.mark.parametrize("dialect", ["s3", "oss"])
def test_the_variables_that_are_missing_are_named(tmp_path: Path, dialect: str) -> None:
    def complaint() -> str:
        sys.modules["botocore"] = None  # type: ignore[assignment] # what the import system takes for "not there"
        with pytest.raises(ClientConfigurationError) as caught:
            found(tmp_path, {}, dialect=dialect)
        return str(caught.value)

    text = in_a_fork(complaint)
    assert "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY" in text
    assert ("OSS_ACCESS_KEY_ID and OSS_ACCESS_KEY_SECRET" in text) is (dialect == "oss")


def test_a_file_that_cannot_be_parsed_shows_nothing_of_itself(tmp_path: Path) -> None:
    (tmp_path / "credentials").write_text("[default]\naws_secret_access_key s3cret\n")
    with pytest.raises(ClientConfigurationError, match="can't be read") as caught:
        found(tmp_path, {})
    assert "s3cret" not in str(caught.value)
    assert caught.value.__cause__ is None


class Renewing:
    """Credentials of botocore that change with each request."""

    def __init__(self) -> None:
        self.number = 0

    def get_frozen_credentials(self) -> Any:
        self.number += 1
        if self.number > 2:
            raise RuntimeError("s3cret")

        class Frozen:
            access_key, secret_key, token = f"key-{self.number}", "secret", None

        return Frozen()


def test_botocores_credentials_are_renewed() -> None:
    credentials = BotocoreCredentials(Renewing())
    assert credentials.current() == SecretKey("key-1", "secret")
    assert credentials.current() == SecretKey("key-2", "secret")
    with pytest.raises(ClientConfigurationError, match="RuntimeError") as caught:
        credentials.current()
    assert "s3cret" not in str(caught.value)


@pytest.mark.skipif(os.geteuid() != 0, reason="another user needs root")
@pytest.mark.parametrize("home", ["another user's", None])
def test_a_home_that_is_no_ones_own_has_no_files(tmp_path: Path, home: str | None) -> None:
    """As in a container that runs as another user than its image was made for."""
    (tmp_path / ".aws").mkdir(mode=0o700)
    (tmp_path / ".aws" / "config").write_text("[default]\nregion = eu-west-3\n")
    tmp_path.chmod(0o700)
    named = {"AWS_CONFIG_FILE": str(tmp_path / ".aws" / "config")}

    def read_as_another() -> tuple[object, str]:
        os.setuid(54_321)
        os.environ.pop("HOME", None)
        if home is not None:
            os.environ["HOME"] = str(tmp_path)
        profile = read_profile(None, {})
        try:
            read_profile(None, named)
        except ClientConfigurationError as error:
            return profile.config, str(error)
        return profile.config, ""

    config, refusal = in_a_fork(read_as_another)
    assert config == {}
    assert "PermissionError" in refusal, "a file that is named is to be read"
