"""The settings of a client: arguments, environment, shared files, in the order of the SDKs."""

from pathlib import Path
from typing import Any

import pytest

from forebay.protocol.signatures.signing_key import SecretKey
from forebay_client import ClientConfigurationError
from forebay_client.client_settings import ClientSettings, parse_server_url, resolve_settings

ARGUMENTS: dict[str, Any] = {
    "endpoint": None,
    "access_key": "a",
    "secret_key": "s",
    "session_token": None,
    "region": None,
    "profile": None,
    "dialect": "s3",
    "addressing": "path",
    "socket": None,
    "connections": 32,
    "timeout": 60.0,
    "retries": None,
}
CONFIG = """\
[default]
region = eu-west-3
endpoint_url = http://profile:1
ca_bundle = /profile.pem
response_checksum_validation = when_supported

[profile job]
region = eu-south-1
services = forebay
aws_access_key_id = job
aws_secret_access_key = job-secret

[services forebay]
s3 =
    endpoint_url = http://service:2
ec2 =
    endpoint_url = http://other:3
"""


def settings_of(tmp_path: Path, environ: dict[str, str] | None = None, **arguments: Any) -> ClientSettings:
    files = {"AWS_CONFIG_FILE": str(tmp_path / "config"), "AWS_SHARED_CREDENTIALS_FILE": str(tmp_path / "credentials")}
    return resolve_settings(**{**ARGUMENTS, **arguments}, environ={**files, **(environ or {})})


def test_without_anything_the_server_is_amazons(tmp_path: Path) -> None:
    assert str(settings_of(tmp_path).server) == "https://s3.us-east-1.amazonaws.com"
    assert str(settings_of(tmp_path, region="cn-north-1").server) == "https://s3.cn-north-1.amazonaws.com.cn"
    oss = settings_of(tmp_path, dialect="oss")
    assert (str(oss.server), oss.addressing) == ("https://oss-cn-hangzhou.aliyuncs.com", "virtual")


def test_the_endpoint_comes_from_the_nearest_source(tmp_path: Path) -> None:
    sources = [
        ({}, {"endpoint": "http://argument:9"}, "http://argument:9"),
        ({"AWS_ENDPOINT_URL_S3": "http://s3:9"}, {}, "http://s3:9"),
        ({"AWS_ENDPOINT_URL": "http://all:9"}, {}, "http://all:9"),
        ({}, {"profile": "job"}, "http://service:2"),
        ({}, {}, "http://profile:1"),
    ]
    (tmp_path / "config").write_text(CONFIG)
    environ: dict[str, str] = {}
    arguments: dict[str, Any] = {}
    for further, named, expected in reversed(sources):
        environ |= further
        arguments |= named
        assert str(settings_of(tmp_path, environ, **arguments).server) == expected
    ignored = {**environ, "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS": "true"}
    assert str(settings_of(tmp_path, ignored).server) == "https://s3.eu-west-3.amazonaws.com"


def test_the_region_comes_from_the_nearest_source(tmp_path: Path) -> None:
    (tmp_path / "config").write_text(CONFIG)
    assert settings_of(tmp_path).region == "eu-west-3"
    assert settings_of(tmp_path, {"AWS_PROFILE": "job"}).region == "eu-south-1"
    assert settings_of(tmp_path, {"AWS_DEFAULT_REGION": "r1"}).region == "r1"
    assert settings_of(tmp_path, {"AWS_DEFAULT_REGION": "r1", "AWS_REGION": "r2"}).region == "r2"
    assert settings_of(tmp_path, {"AWS_REGION": "r2"}, region="r3").region == "r3"


def test_oss_has_names_of_its_own(tmp_path: Path) -> None:
    environ = {
        "OSS_ENDPOINT": "oss.example:80",
        "OSS_REGION": "cn-beijing",
        "OSS_ACCESS_KEY_ID": "o",
        "OSS_ACCESS_KEY_SECRET": "os",
        "AWS_ACCESS_KEY_ID": "a",
        "AWS_SECRET_ACCESS_KEY": "as",
    }
    found = settings_of(tmp_path, environ, dialect="oss", access_key=None, secret_key=None)
    assert (str(found.server), found.region) == ("https://oss.example:80", "cn-beijing")
    assert found.credentials.current() == SecretKey("o", "os")
    assert settings_of(tmp_path, environ, access_key=None, secret_key=None).credentials.current() == SecretKey(
        "a", "as"
    )


def test_tls_checksums_and_socket(tmp_path: Path) -> None:
    (tmp_path / "config").write_text(CONFIG)
    found = settings_of(tmp_path)
    assert (found.ca_bundle, found.wants_checksums, found.socket) == ("/profile.pem", True, None)
    environ = {
        "AWS_CA_BUNDLE": "/e.pem",
        "AWS_RESPONSE_CHECKSUM_VALIDATION": "when_required",
        "FOREBAY_SOCKET": "/run/f.sock",
    }
    found = settings_of(tmp_path, environ)
    assert (found.ca_bundle, found.wants_checksums, found.socket) == ("/e.pem", False, "/run/f.sock")
    assert settings_of(tmp_path, environ, socket="").socket == ""


def test_the_retries_come_from_the_nearest_source(tmp_path: Path) -> None:
    assert settings_of(tmp_path).retries == 4
    (tmp_path / "config").write_text("[default]\nmax_attempts = 3\n")
    assert settings_of(tmp_path).retries == 2
    assert settings_of(tmp_path, {"AWS_MAX_ATTEMPTS": "8"}).retries == 7
    assert settings_of(tmp_path, {"AWS_MAX_ATTEMPTS": "8"}, retries=0).retries == 0
    for wrong in ("0", "-1", "many", "²"):
        with pytest.raises(ClientConfigurationError, match="AWS_MAX_ATTEMPTS"):
            settings_of(tmp_path, {"AWS_MAX_ATTEMPTS": wrong})


@pytest.mark.parametrize(
    "arguments",
    [
        {"dialect": "gcs"},
        {"addressing": "host"},
        {"connections": 0},
        {"retries": -1},
        {"timeout": 0.0},
        {"secret_key": None},
        {"profile": "unknown"},
        {"endpoint": "127.0.0.1:9000"},
        {"endpoint": "ftp://host"},
        {"endpoint": "http://host/path"},
        {"endpoint": "http://user:p4ssword@host"},
        {"endpoint": "http://host:99999"},
        {"endpoint": "http://[::1"},
        {"endpoint": "http://a b"},
        {"endpoint": "http://h\r\nost"},
        {"endpoint": 9000},
        {"timeout": None},
        {"timeout": "60"},
        {"timeout": float("inf")},
        {"timeout": float("nan")},
        {"connections": "32"},
        {"connections": 2.0},
        {"retries": 1.5},
        {"region": "us-east-1\n"},
        {"region": 1},
        {"access_key": "a\n", "secret_key": "p4ssword"},
        {"access_key": b"a", "secret_key": "p4ssword"},
        {"secret_key": b"p4ssword"},
        {"session_token": "p4ssword\n"},
    ],
)
def test_unusable_arguments_are_named_without_secrets(tmp_path: Path, arguments: dict[str, Any]) -> None:
    with pytest.raises(ClientConfigurationError) as caught:
        settings_of(tmp_path, **arguments)
    assert "p4ssword" not in str(caught.value)


def test_a_line_end_behind_a_variable_is_named(tmp_path: Path) -> None:
    """As a file has it that a container's secret was made of."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SESSION_TOKEN"):
        environ = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "s", name: "p4ssword\n"}
        with pytest.raises(ClientConfigurationError, match="line end") as caught:
            settings_of(tmp_path, environ, access_key=None, secret_key=None)
        assert "p4ssword" not in str(caught.value)
    with pytest.raises(ClientConfigurationError, match="region"):
        settings_of(tmp_path, {"AWS_REGION": "us-east-1\n"})


def test_a_path_of_the_socket_may_be_bytes(tmp_path: Path) -> None:
    assert settings_of(tmp_path, socket=b"/run/forebay.sock").socket == "/run/forebay.sock"


def test_the_authority_has_a_port_where_it_is_not_the_schemes() -> None:
    assert parse_server_url("http://host").authority == "host"
    assert parse_server_url("https://host:443/").authority == "host"
    assert parse_server_url("https://host:80").authority == "host:80"
    assert parse_server_url("http://[::1]:9000").authority == "[::1]:9000"
