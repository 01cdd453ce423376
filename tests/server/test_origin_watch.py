"""The watch over the origin: what it looks at, and its warning."""

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from forebay.origin.credentials import StaticCredentials
from forebay.origin.dialects import DIALECTS
from forebay.origin.origin_client import OriginClient
from forebay.origin.origin_server import OriginServer
from forebay.origin.origins import Origins
from forebay.protocol.signatures.signing_key import SecretKey
from forebay.server.origin_watch import OriginWatch
from forebay.settings.loader import load_settings
from harness.fake_origin import FakeOrigin

CONFIGURATION = """
[server]
listen = "127.0.0.1:0"
[origin]
endpoint = "http://h"
[[auth.keys]]
id = "{id}"
secret = "s"
grants = []
{more}
"""


@asynccontextmanager
async def client_of(origin: FakeOrigin) -> AsyncIterator[OriginClient]:
    key = SecretKey(origin.secret.access, origin.secret.secret)
    client = OriginClient(
        OriginServer(origin.endpoint, origin.secret.region, DIALECTS["minio"]), StaticCredentials(key)
    )
    async with client:
        yield client


async def test_the_credential_is_checked_where_it_is_used() -> None:
    own = load_settings(CONFIGURATION.format(id="trainer", more=""), {}, {}, str).settings
    theirs = 'origin_access_key = "there"\norigin_secret_key = "s"'
    others = load_settings(CONFIGURATION.format(id="trainer", more=theirs), {}, {}, str).settings
    async with FakeOrigin() as origin, client_of(origin) as client:
        watch = OriginWatch(Origins.single(client))
        await watch.check(others)
        assert client.credential_check.access_key is None
        assert watch.first_check.is_set()
        await watch.check(own)
        assert client.credential_check.state == "accepted"
        assert (await client.probe(), client.breaker.reachable) == (True, True)


async def test_nothing_signed_is_sent_to_an_origin_that_is_away() -> None:
    own = load_settings(CONFIGURATION.format(id="trainer", more=""), {}, {}, str).settings
    async with FakeOrigin() as origin, client_of(origin) as client:
        await origin.refuse()
        watch = OriginWatch(Origins.single(client))
        await watch.check(own)
        assert (client.breaker.reachable, client.credential_check.state) == (False, "unknown")
        assert watch.first_check.is_set()


async def test_a_clients_key_is_warned_of_once(caplog: pytest.LogCaptureFixture) -> None:
    async with FakeOrigin() as origin, client_of(origin) as client:
        shared = load_settings(CONFIGURATION.format(id=origin.secret.access, more=""), {}, {}, str).settings
        watch = OriginWatch(Origins.single(client))
        with caplog.at_level(logging.WARNING, "forebay"):
            await watch.check(shared)
            await watch.check(shared)
        warnings = [message for message in caplog.messages if "provider chain" in message]
        assert len(warnings) == 1
        assert f"{origin.secret.access} for the origin, which is one of auth.keys" in warnings[0]
