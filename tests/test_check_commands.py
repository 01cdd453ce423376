"""`forebay check-config` with its options, and `forebay doctor`: what they print, and their exit codes."""

import asyncio
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from forebay.check_commands import check_config, doctor
from forebay.server.config_source import ConfigSource
from harness.fake_origin import FakeOrigin

CONFIGURATION = """
[server]
listen = "127.0.0.1:0"
admin = "127.0.0.1:0"
state_dir = "{directory}/state"
{server}

[origin]
endpoint = "{endpoint}"
access_key = "{access}"
secret_key_env = "ORIGIN_SECRET"
region = "{region}"

[ssd]
path = "{directory}/ssd"
size = "16MiB"

[[auth.keys]]
id = "trainer"
secret_file = "{directory}/secret"
grants = [{{ path = "**", allow = ["read"] }}]
{rest}
"""


@pytest.fixture(autouse=True)
def log_level() -> Iterator[None]:
    """The commands silence the log of their process, which is that of further tests here."""
    level = logging.getLogger("forebay").level
    yield
    logging.getLogger("forebay").setLevel(level)


class Checked:
    """A configuration, and the commands on it."""

    def __init__(self, directory: Path, origin: FakeOrigin, *, server: str = "", rest: str = "") -> None:
        self.file = directory / "forebay.toml"
        self.environ = {"ORIGIN_SECRET": origin.secret.secret}
        (directory / "secret").write_text("trainer-secret\n")
        self.file.write_text(
            CONFIGURATION.format(
                directory=directory,
                endpoint=origin.endpoint,
                access=origin.secret.access,
                region=origin.secret.region,
                server=server,
                rest=rest,
            )
        )
        self.file.chmod(0o600)

    @property
    def source(self) -> ConfigSource:
        return ConfigSource(self.file, self.environ, {})

    async def check(self, *, strict: bool = False, without_secrets: bool = False, try_out: bool = False) -> int:
        def run() -> int:
            return check_config(self.source, strict=strict, without_secrets=without_secrets, try_out=try_out)

        return await asyncio.to_thread(run)  # a loop of its own, as in a process

    async def doctor(self) -> int:
        return await asyncio.to_thread(doctor, self.source)


async def test_strict_fails_upon_warnings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async with FakeOrigin() as origin:
        assert await Checked(tmp_path, origin).check(strict=True) == 0
        warned = Checked(tmp_path, origin, rest='[[rules]]\npath = "b/**"\n')
        assert await warned.check() == 0
        assert "sets nothing" in capsys.readouterr().err
        assert await warned.check(strict=True) == 1
        assert "--strict refuses" in capsys.readouterr().err


async def test_secrets_may_be_missing_where_only_checked(tmp_path: Path) -> None:
    tls = 'tls_listen = "127.0.0.1:0"\ntls_certificate = "/none/chain"\ntls_key = "/none/key"'
    async with FakeOrigin() as origin:
        checked = Checked(tmp_path, origin, server=tls)
        checked.environ.clear()
        (tmp_path / "secret").unlink()
        assert await checked.check() == 2
        assert await checked.check(without_secrets=True) == 0
        checked.file.write_text(checked.file.read_text().replace("[ssd]", "[sdd]"))
        assert await checked.check(without_secrets=True) == 2  # all else is checked


async def test_a_trial_passes_or_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async with FakeOrigin() as origin:
        checked = Checked(tmp_path, origin)
        assert await checked.check(try_out=True) == 0
        printed = capsys.readouterr().out
        for name in ("dns", "origin", "clock", "credential", "region", "disk"):
            assert f"ok       {name} " in printed
        checked.environ["ORIGIN_SECRET"] = "wrong"
        assert await checked.check(try_out=True) == 1
        assert "failed   credential" in capsys.readouterr().out
        assert not (tmp_path / "ssd").exists()


def test_the_doctor_asks_for_a_configuration(capsys: pytest.CaptureFixture[str]) -> None:
    assert doctor(ConfigSource(None, {}, {})) == 2
    assert "--config" in capsys.readouterr().err


async def test_the_doctor_checks_the_machine_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async with FakeOrigin() as origin, FakeOrigin() as other:
        checked = Checked(tmp_path, origin)
        assert await checked.doctor() == 0
        printed = capsys.readouterr().out
        for name in ("credential", "disk", "port", "descriptors", "versions"):
            assert f" {name} " in printed
        checked.file.write_text(checked.file.read_text().replace('"127.0.0.1:0"', f'"127.0.0.1:{other.port}"', 1))
        assert await checked.doctor() == 1
        assert "failed   port          server.listen" in capsys.readouterr().out
        checked.file.write_text("[server")
        assert await checked.doctor() == 2
