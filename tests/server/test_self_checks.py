"""The self-checks, one by one: what they find in an origin, and in a machine."""

import asyncio
import time
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from forebay.server.self_checks import (
    SelfCheck,
    check_disks,
    check_machine,
    check_origins_of,
    check_write_rate,
    measure_ssd,
)
from forebay.settings.loader import load_settings
from forebay.settings.model import Settings
from harness.fake_origin import FakeOrigin
from harness.reference_sigv4 import Secret
from harness.rig import Rig

CONFIGURATION = """
[server]
listen = "127.0.0.1:0"
admin = "127.0.0.1:0"
[origin]
endpoint = "{endpoint}"
region = "{secret.region}"
access_key = "{secret.access}"
secret_key = "{secret.secret}"
connect_timeout = "5s"
[[auth.keys]]
id = "trainer"
secret = "s"
grants = []
{rest}
"""


def settings_of(origin: FakeOrigin, secret: Secret | None = None, endpoint: str = "", rest: str = "") -> Settings:
    text = CONFIGURATION.format(endpoint=endpoint or origin.endpoint, secret=secret or origin.secret, rest=rest)
    return load_settings(text, {}, {}, str).settings


def states(checks: Iterable[SelfCheck]) -> list[tuple[str, str]]:
    return [(check.name, check.state) for check in checks]


async def origin_checks(settings: Settings) -> list[SelfCheck]:
    return [check async for check in check_origins_of(settings)]


async def test_a_good_origin() -> None:
    async with FakeOrigin() as origin:
        assert states(await origin_checks(settings_of(origin))) == [
            (name, "ok") for name in ("dns", "origin", "clock", "credential", "region")
        ]


async def test_faults_of_the_credential_have_their_names() -> None:
    async with FakeOrigin() as origin:
        wrong = await origin_checks(settings_of(origin, replace(origin.secret, secret="no")))
        assert wrong[-1] == SelfCheck(
            "credential", "failed", f"the origin refuses Forebay's key {origin.secret.access}: SignatureDoesNotMatch"
        )
        elsewhere = await origin_checks(settings_of(origin, replace(origin.secret, region="elsewhere")))
        assert (elsewhere[-1].name, elsewhere[-1].state) == ("region", "failed")
        assert f"the origin expects {origin.secret.region}" in elsewhere[-1].finding


async def test_a_skewed_clock() -> None:
    async with FakeOrigin(clock=lambda: time.time() + 1200) as origin:
        checks = await origin_checks(settings_of(origin))
        assert states(checks)[2:] == [("clock", "failed"), ("credential", "failed")]
        assert "behind the origin's" in checks[2].finding


async def test_credentials_of_principals_are_checked() -> None:
    more = (
        '[[auth.keys]]\nid = "alice"\nsecret = "s"\ngrants = []\norigin_access_key = "{}"\norigin_secret_key = "{}"\n'
    )
    async with FakeOrigin() as origin:
        good = more.format(origin.secret.access, origin.secret.secret)
        assert (await origin_checks(settings_of(origin, rest=good)))[-1] == SelfCheck(
            "credential", "ok", "the origin accepts the origin credential of alice"
        )
        bad = (await origin_checks(settings_of(origin, rest=more.format("AKIANONE", "s"))))[-1]
        assert (bad.name, bad.state) == ("credential", "failed")
        assert "AKIANONE" in bad.finding


async def test_an_origin_that_is_not_there() -> None:
    async with FakeOrigin() as origin:
        no_tls = await origin_checks(settings_of(origin, endpoint=f"https://127.0.0.1:{origin.port}"))
        assert states(no_tls) == [("dns", "ok"), ("tls", "failed")]
        no_name = await origin_checks(settings_of(origin, endpoint="http://no-such-host.invalid"))
        assert states(no_name) == [("dns", "failed")]
        await origin.refuse()
        refused = await origin_checks(settings_of(origin))
        assert refused[-1].finding.endswith("can't be reached: connection refused")


def test_disks(tmp_path: Path) -> None:
    def settings(path: str, size: str) -> Settings:
        return settings_of(FakeOrigin(), endpoint="http://h", rest=f'[ssd]\npath = "{path}"\nsize = "{size}"\n')

    small = settings(f"{tmp_path}/new/ssd", "1MiB")
    assert states(check_disks(small))[0] == ("disk", "ok")
    assert [check.name for check in measure_ssd(small)] == ["disk"]
    assert list(tmp_path.iterdir()) == []  # nothing is made
    assert states(check_disks(settings(str(tmp_path), "1000000GiB")))[0] == ("disk", "warning")
    (tmp_path / "file").touch()
    assert states(check_disks(settings(f"{tmp_path}/file/ssd", "1MiB")))[0] == ("disk", "failed")
    assert list(measure_ssd(settings_of(FakeOrigin(), endpoint="http://h"))) == []
    for size, state in (("64MiB", "ok"), ("1000000GiB", "warning")):
        rest = f'[journal]\npath = "{tmp_path}/new/journal"\nsize = "{size}"\n'
        [check] = check_disks(settings_of(FakeOrigin(), endpoint="http://h", rest=rest))
        assert (check.state, check.finding.partition(" ")[0]) == (state, "journal.path:")


def test_a_slow_disk_is_told_how_fast_it_should_be() -> None:
    assert check_write_rate(1.9 * 2**30).state == "ok"
    slow = check_write_rate(98 * 2**20)
    said = "ssd.path: 98 MiB/s written and synced, less than the 200 MiB/s of a slow SSD"
    assert (slow.state, slow.finding) == ("warning", said)


@pytest.mark.parametrize(("table", "own"), [("ssd", "a Forebay's directory"), ("journal", "a journal")])
def test_a_directory_among_other_files_is_found(tmp_path: Path, table: str, own: str) -> None:
    (tmp_path / "thesis.txt").write_text("neither a cache nor a journal")
    rest = f'[{table}]\npath = "{tmp_path}"\nsize = "16MiB"\n'
    _space, content = check_disks(settings_of(FakeOrigin(), endpoint="http://h", rest=rest))
    assert (content.state, content.finding.partition(":")[0]) == ("failed", f"{table}.path")
    assert f"neither empty nor {own}" in content.finding
    assert [file.name for file in tmp_path.iterdir()] == ["thesis.txt"]


async def test_an_address_in_use_by_a_forebay_is_no_fault(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path) as rig:
        settings = settings_of(origin)
        address = settings.server.listen

        async def ports(admin: int) -> list[str]:
            server = replace(
                settings.server,
                listen=replace(address, port=rig.worker.address[1]),
                admin=replace(address, port=admin),
            )
            checks = await asyncio.to_thread(lambda: [*check_machine(replace(settings, server=server))])
            return [check.state for check in checks if check.name == "port"]

        assert await ports(rig.worker.admin_address[1]) == ["ok", "ok"]
        assert await ports(origin.port) == ["failed", "failed"]  # what answers there is no Forebay
