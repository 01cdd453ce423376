"""A worker in the test's own loop: addresses, drains, probes of the origin, log level, access log."""

import asyncio
import logging
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from forebay.core.errors import AddressUnavailable, SettingsError
from forebay.server.config_source import ConfigSource
from forebay.server.http.listening_sockets import bind
from forebay.server.worker import Worker
from forebay.settings.addresses import ListenAddress, parse_address
from harness.clients import RawClient, boto_client, path_of
from harness.fake.actions import HoldAfter, HoldRequest
from harness.fake.gate import Gate
from harness.fake_origin import FakeOrigin
from harness.inspection import run_loop_until
from harness.manual_timers import ManualTimers
from harness.reference_sigv4 import Secret

LAPTOP = Secret("laptop", "laptop-secret")


def source_of(origin: FakeOrigin, directory: Path, server: str = "", listen: str = "127.0.0.1:0") -> ConfigSource:
    file = directory / "forebay.toml"
    file.write_text(
        f'[server]\nlisten = "{listen}"\nadmin = "127.0.0.1:0"\n{server}'
        f'[origin]\nendpoint = "{origin.endpoint}"\ndialect = "swift"\nconnect_timeout = "1s"\n'
        f'access_key = "{origin.secret.access}"\nsecret_key = "{origin.secret.secret}"\n'
        '[[auth.keys]]\nid = "laptop"\nsecret = "laptop-secret"\n'
        'grants = [{ path = "**", allow = ["read", "write", "list", "delete"] }]\n'
    )
    file.chmod(0o600)
    return ConfigSource(file, {}, {})


@asynccontextmanager
async def running(source: ConfigSource, look_every: float = 5.0) -> AsyncIterator[Worker]:
    worker = Worker(source.load().settings, source, check_interval=look_every)
    await worker.start()
    try:
        yield worker
    finally:
        await worker.stop()


def client_of(worker: Worker) -> RawClient:
    return RawClient(f"http://127.0.0.1:{worker.address[1]}", LAPTOP)


@asynccontextmanager
async def held_read(
    worker: Worker, origin: FakeOrigin
) -> AsyncIterator[tuple["asyncio.Task[tuple[bytes, bool]]", Gate]]:
    """A read that waits at the gate after its head and ten bytes: the rest of its body, and whether it was cut."""
    gate = Gate()
    origin.store.put("bucket", "held", b"c" * 1000)
    origin.faults.add(HoldAfter(10, gate), key="held", method="GET")
    client = client_of(worker)
    async with await client.open() as connection, asyncio.TaskGroup() as group:
        await connection.send(client.sign("GET", path_of("bucket", "held")).wire)
        assert (await connection.read_head()).status == 200
        yield group.create_task(connection.read_rest()), gate
        gate.open()


# Addresses


@pytest.mark.parametrize("listen", ["[::1]:0", "localhost:0"])
async def test_ipv6_and_names_are_listened_on(listen: str, tmp_path: Path) -> None:
    try:
        bind(parse_address(listen), "server.listen").close()
    except AddressUnavailable as unavailable:
        pytest.skip(str(unavailable))
    async with FakeOrigin() as origin, running(source_of(origin, tmp_path, listen=listen)) as worker:
        origin.store.put("bucket", "a b/ü", b"content")

        def read() -> bytes:
            client = boto_client(f"http://{listen.removesuffix(':0')}:{worker.address[1]}", LAPTOP)
            try:
                body: bytes = client.get_object(Bucket="bucket", Key="a b/ü")["Body"].read()
                return body
            finally:
                client.close()

        assert await asyncio.to_thread(read) == b"content"


async def test_a_failed_start_leaves_nothing_bound(tmp_path: Path) -> None:
    with socket.socket() as other, socket.socket() as probe:
        other.bind(("127.0.0.1", 0))
        other.listen()
        probe.bind(("127.0.0.1", 0))
        free = probe.getsockname()[1]
        probe.close()
        async with FakeOrigin() as origin:
            server = f'access_log = "{tmp_path}/log"\n'
            source = source_of(origin, tmp_path, server, listen=f"127.0.0.1:{free}")
            source = ConfigSource(source.file, {}, {"server.admin": f"127.0.0.1:{other.getsockname()[1]}"})
            with pytest.raises(AddressUnavailable, match=r"server\.admin: .* uses it: .* \(FOREBAY_SERVER__ADMIN="):
                await Worker(source.load().settings, source).start()
            bind(ListenAddress("127.0.0.1", free), "server.listen").close()


@pytest.mark.parametrize(
    ("address", "advice"),
    [
        ("192.0.2.1:9", "no such address"),  # TEST-NET-1: on no machine
        ("no-such-name.invalid:9", "leads to no address"),
    ],
)
def test_an_unavailable_address_comes_with_advice(address: str, advice: str) -> None:
    with pytest.raises(AddressUnavailable, match=advice) as error:
        bind(parse_address(address), "server.listen")
    assert str(error.value).startswith(f"server.listen: {address} can't be listened on")


# Drains


async def test_a_stop_waits_for_requests_in_flight(tmp_path: Path) -> None:
    async with FakeOrigin() as origin:
        source = source_of(origin, tmp_path, 'drain_timeout = "1h"\n')
        worker = Worker(source.load().settings, source)
        await worker.start()
        async with held_read(worker, origin) as (rest, gate), asyncio.TaskGroup() as group:
            stopping = group.create_task(worker.stop())
            await run_loop_until(lambda: worker.listener.requests.is_draining)
            assert not stopping.done()
            gate.open()
            assert await rest == (b"c" * 1000, False)
            assert await stopping is True
        assert len(worker.parts.context.tasks) == 0
        assert worker.parts.storage.budget.in_use == 0


@pytest.mark.parametrize("hurried", [True, False])
async def test_a_second_signal_or_the_timeout_ends_the_drain(hurried: bool, tmp_path: Path) -> None:
    async with FakeOrigin() as origin:
        source, timers = source_of(origin, tmp_path, 'drain_timeout = "1h"\n'), ManualTimers()
        worker = Worker(source.load().settings, source, timers=timers)
        await worker.start()
        async with held_read(worker, origin) as (rest, _gate):
            hurry = asyncio.Event()
            if hurried:
                hurry.set()
            async with asyncio.timeout(20), asyncio.TaskGroup() as group:
                stopping = group.create_task(worker.stop(hurry))
                if not hurried:
                    await run_loop_until(lambda: worker.listener.requests.is_draining)
                    timers.advance(3600.0)
                assert await stopping is False
            body, cut = await rest
            assert cut
            assert len(body) < 1000
        assert len(worker.parts.context.tasks) == 0
        assert worker.parts.storage.budget.in_use == 0


async def test_idle_connections_do_not_delay_a_stop(tmp_path: Path) -> None:
    """Neither a used one nor one without any request."""
    async with FakeOrigin() as origin:
        source = source_of(origin, tmp_path, 'drain_timeout = "1h"\n')
        worker = Worker(source.load().settings, source)
        await worker.start()
        origin.store.put("bucket", "key", b"content")
        client = client_of(worker)
        async with await client.open() as silent, await client.open() as used:
            assert (await client.request("GET", path_of("bucket", "key"), connection=used)).status == 200
            async with asyncio.timeout(20):
                assert await worker.stop() is True
                assert await silent.ended()
                assert await used.ended()


# Probes and reloads


async def test_a_start_removes_what_killed_processes_have_spooled(tmp_path: Path) -> None:
    abandoned = tmp_path / "held" / "forebay-holds-dead"
    abandoned.mkdir(parents=True)
    (abandoned / "lock").touch()
    async with FakeOrigin() as origin:
        limits = f'[limits]\nheld_path = "{tmp_path / "held"}"\n'
        async with running(source_of(origin, tmp_path, limits)), asyncio.timeout(30):
            await run_loop_until(lambda: not abandoned.exists())


async def test_readiness_follows_the_origin(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with (
        FakeOrigin() as origin,
        running(source_of(origin, tmp_path), look_every=0.01) as worker,
        aiohttp.ClientSession() as session,
    ):
        url = f"http://127.0.0.1:{worker.admin_address[1]}/readyz"

        async def until(wanted: int) -> str:
            async with asyncio.timeout(20):
                while True:  # each try is a request: no busy loop
                    async with session.get(url) as answer:
                        if answer.status == wanted:
                            return await answer.text()

        await until(200)
        caplog.clear()
        with caplog.at_level(logging.INFO, "forebay"):
            await origin.refuse()
            origin.disconnect(idle_only=False)
            assert "origin" in await until(503)
            await origin.listen()
            await until(200)
        assert caplog.text.count("can't be reached") == 1
        assert caplog.text.count("answers") == 1


async def test_the_log_level_changes_with_the_configuration(tmp_path: Path) -> None:
    level = logging.getLogger("forebay").level
    try:
        async with FakeOrigin() as origin, running(source_of(origin, tmp_path)) as worker:
            source_of(origin, tmp_path, 'log_level = "debug"\n')
            await worker.reload()
            assert logging.getLogger("forebay").level == logging.DEBUG
    finally:
        logging.getLogger("forebay").setLevel(level)


# The access log


async def test_the_access_log_may_be_off(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    async with FakeOrigin() as origin, running(source_of(origin, tmp_path, 'access_log = "off"\n')) as worker:
        assert (await client_of(worker).request("GET", path_of("bucket", "key"))).status == 404
    assert capfd.readouterr().out == ""


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
async def test_the_access_log_goes_to_a_stream(stream: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    async with FakeOrigin() as origin, running(source_of(origin, tmp_path, f'access_log = "{stream}"\n')) as worker:
        assert (await client_of(worker).request("GET", path_of("bucket", "key"))).status == 404
    written = capfd.readouterr()
    assert '"status":404' in (written.out if stream == "stdout" else written.err)
    assert '"status":404' not in (written.err if stream == "stdout" else written.out)


async def test_a_put_that_outlasts_the_drain_is_in_the_access_log(tmp_path: Path) -> None:
    async with FakeOrigin() as origin:
        source = source_of(origin, tmp_path, f'drain_timeout = "0.1s"\naccess_log = "{tmp_path}/log"\n')
        worker = Worker(source.load().settings, source)
        await worker.start()
        gate, client = Gate(), client_of(worker)
        origin.faults.add(HoldRequest(gate), key="held", method="PUT")
        async with await client.open() as connection:
            await connection.send(client.sign("PUT", path_of("bucket", "held"), body=b"content").wire)
            await gate.reached()
            assert await worker.stop() is False
        gate.open()
    assert '"method":"PUT","operation":"PutObject","bucket":"bucket","key":"held"' in (tmp_path / "log").read_text()


async def test_an_unwritable_access_log_is_refused(tmp_path: Path) -> None:
    async with FakeOrigin() as origin:
        source = source_of(origin, tmp_path, f'access_log = "{tmp_path}/no/log"\n')
        with pytest.raises(SettingsError, match=r"server\.access_log: .*No such file"):
            await Worker(source.load().settings, source).start()
