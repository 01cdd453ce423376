"""`forebay serve` and `forebay check-config` as real processes: output, signals, exit codes."""

import asyncio
import json
import os
import re
import signal
import socket
import ssl
import sys
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path

import aiohttp
import pytest

from forebay.peers.unix_socket import make_socket_directory
from forebay.storage.journal.journal import Journal
from forebay_demo.free_ports import free_ports
from harness.certificates import TestAuthority
from harness.clients import RawClient, boto_client, path_of
from harness.fake.actions import HoldAfter
from harness.fake.gate import Gate
from harness.fake_origin import FakeOrigin
from harness.forebay_process import PATHS, ForebayProcess, forebay_process, run_forebay
from harness.inspection import cache_status
from harness.process_table import command_of, workers_of
from harness.reference_sigv4 import Secret

LAPTOP = Secret("laptop", "laptop-secret")
FOREBAY = Secret("forebay", "forebay-secret")
ALLOWED = 'grants = [{ path = "**", allow = ["read", "write", "list", "delete"] }]\n'


class Configured:
    """A configuration file with a port of its own and the fake origin."""

    def __init__(self, directory: Path, origin: FakeOrigin) -> None:
        self.port, self.admin = free_ports(2)
        self.file = directory / "forebay.toml"
        self._origin = origin
        self.write()

    def write(self, server: str = "", rest: str = "", grants: str = ALLOWED) -> None:
        self.file.write_text(
            f'[server]\nlisten = "127.0.0.1:{self.port}"\nadmin = "127.0.0.1:{self.admin}"\n{server}'
            f'[origin]\nendpoint = "{self._origin.endpoint}"\ndialect = "swift"\n'
            f'access_key = "{self._origin.secret.access}"\nsecret_key = "{self._origin.secret.secret}"\n'
            f'[[auth.keys]]\nid = "laptop"\nsecret = "laptop-secret"\n{grants}{rest}'
        )
        self.file.chmod(0o600)

    @property
    def client(self) -> RawClient:
        return RawClient(f"http://127.0.0.1:{self.port}", LAPTOP)


@contextmanager
def taken_port() -> Iterator[int]:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        yield other.getsockname()[1]


async def test_a_process_from_start_to_drained_end(tmp_path: Path) -> None:
    """A request in flight at the signal is answered to its end; no new connection is accepted."""
    async with FakeOrigin() as origin:
        origin.store.put("bucket", "key", b"c" * 1000)
        configured = Configured(tmp_path, origin)
        gate = Gate()
        origin.faults.add(HoldAfter(10, gate), key="key", method="GET")
        async with forebay_process(
            "serve", "--config", str(configured.file), directory=tmp_path, is_forked=False
        ) as process:
            await process.wait_for_output("serving")
            async with await configured.client.open() as connection:
                await connection.send(configured.client.sign("GET", path_of("bucket", "key")).wire)
                head = await connection.read_head()
                process.signal(signal.SIGTERM)
                await process.wait_for_output("ending")
                with pytest.raises(ConnectionError):
                    await configured.client.open()
                gate.open()
                body, short = await connection.read_rest()
                assert (head.status, body, short) == (200, b"c" * 1000, False)
            assert await process.wait_exit() == 0
        assert '"status":200' in process.output
        assert "Traceback" not in process.output


@pytest.mark.parametrize("workers", [1, 2])
async def test_readiness_falls_before_the_port_closes(tmp_path: Path, workers: int) -> None:
    """For as long as server.shutdown_delay, which a second signal ends."""
    async with FakeOrigin() as origin:
        origin.store.put("bucket", "key", b"content")
        configured = Configured(tmp_path, origin)
        configured.write(server=f'shutdown_delay = "1h"\nworkers = {workers}\n')
        readyz = f"http://127.0.0.1:{configured.admin}/readyz"
        async with (
            forebay_process("serve", "--config", str(configured.file), directory=tmp_path) as process,
            aiohttp.ClientSession() as session,
        ):
            await process.wait_for_output("serving")
            assert (await session.get(readyz)).status == 200
            process.signal(signal.SIGTERM)
            await process.wait_for_output("ending: not ready any more")
            answer = await session.get(readyz)
            assert (answer.status, (await answer.json())["reasons"]) == (503, ["Forebay was told to stop."])
            assert (await configured.client.request("GET", path_of("bucket", "key"))).body == b"content"
            process.signal(signal.SIGTERM)
            assert await process.wait_exit() == 0
            assert "Traceback" not in process.output


async def test_a_service_manager_is_notified(tmp_path: Path) -> None:
    async with FakeOrigin() as origin:
        configured = Configured(tmp_path, origin)
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
            manager.bind(str(tmp_path / "notify"))
            manager.setblocking(False)
            environ = {"NOTIFY_SOCKET": str(tmp_path / "notify")}
            arguments = ("serve", "--config", str(configured.file))
            async with forebay_process(*arguments, directory=tmp_path, environ=environ) as process:
                loop = asyncio.get_running_loop()
                assert await loop.sock_recv(manager, 100) == b"READY=1"
                assert (await configured.client.request("GET", path_of("bucket", "none"))).status == 404
                process.signal(signal.SIGTERM)
                assert await loop.sock_recv(manager, 100) == b"STOPPING=1"
                assert await process.wait_exit() == 0


async def test_a_second_signal_does_not_wait(tmp_path: Path) -> None:
    async with FakeOrigin() as origin:
        origin.store.put("bucket", "key", b"c" * 1000)
        configured = Configured(tmp_path, origin)
        configured.write(server='drain_timeout = "1h"\n')
        gate = Gate()
        origin.faults.add(HoldAfter(10, gate), key="key", method="GET")
        async with forebay_process("serve", "--config", str(configured.file), directory=tmp_path) as process:
            await process.wait_for_output("serving")
            async with await configured.client.open() as connection:
                await connection.send(configured.client.sign("GET", path_of("bucket", "key")).wire)
                await connection.read_head()
                process.signal(signal.SIGINT)
                await process.wait_for_output("ending")
                process.signal(signal.SIGINT)
                assert await process.wait_exit() == 0
                assert (await connection.read_rest())[1], "what is cut short must be seen to be"
        gate.open()
        assert "Traceback" not in process.output


async def test_few_open_files_leave_the_admin_port_its_own(tmp_path: Path) -> None:
    """Half of 200 open files are the origin's, the admin port's and the SSD tier's: 50 connections of two each."""
    async with FakeOrigin() as origin:
        origin.store.put("bucket", "key", b"content")
        configured = Configured(tmp_path, origin)
        arguments = ("serve", "--config", str(configured.file))
        async with forebay_process(*arguments, directory=tmp_path, open_files=200) as process, AsyncExitStack() as held:
            await process.wait_for_output("serving")
            assert "limits.connections is lowered from 10000 to 50" in process.output
            for _ in range(50):
                await held.enter_async_context(await configured.client.open())
            for _ in range(1000):
                async with await configured.client.open() as refused:
                    assert (await refused.answer()).status == 503
            async with aiohttp.ClientSession() as session:
                for path in ("healthz", "readyz", "metrics"):
                    assert (await session.get(f"http://127.0.0.1:{configured.admin}/{path}")).status == 200
            await held.aclose()
            async with asyncio.timeout(30):  # the connections are closed at both ends
                while (answer := await configured.client.request("GET", path_of("bucket", "key"))).status == 503:
                    pass
            assert answer.body == b"content"
            process.signal(signal.SIGTERM)
            assert await process.wait_exit() == 0
            assert "Too many open files" not in process.output


async def test_sighup_reloads_the_configuration_and_reopens_the_log(tmp_path: Path) -> None:
    async with FakeOrigin() as origin:
        origin.store.put("bucket", "key", b"content")
        configured = Configured(tmp_path, origin)
        log = tmp_path / "access.log"
        to_file = f'access_log = "{log}"\n'
        configured.write(server=to_file)
        target = path_of("bucket", "key")
        async with forebay_process("serve", "--config", str(configured.file), directory=tmp_path) as process:
            await process.wait_for_output("serving")
            assert (await configured.client.request("GET", target)).status == 200
            configured.write(server=to_file, grants='grants = [{ path = "other/**", allow = ["read"] }]\n')
            log.rename(tmp_path / "access.log.1")
            process.signal(signal.SIGHUP)
            await process.wait_for_output("the configuration was read again; ")
            assert (await configured.client.request("GET", target)).status == 403
            configured.write(server=to_file, rest="[memory]\nsize = 1\n[limits]\nrequests = 0\n")
            process.signal(signal.SIGHUP)
            await process.wait_for_output("): got 0, allowed: a whole number; from 1 to")
            assert "nothing has changed" in process.output
            assert (await configured.client.request("GET", target)).status == 403
            configured.file.unlink()
            process.signal(signal.SIGHUP)
            await process.wait_for_output("No such file")
            process.signal(signal.SIGTERM)
            assert await process.wait_exit() == 0
        statuses = [line.partition('"status":')[2][:3] for line in log.read_text().splitlines()]
        assert statuses == ["403", "403"]
        assert '"status":200' in (tmp_path / "access.log.1").read_text()
        assert '"status"' not in process.output


async def test_a_used_port_ends_the_start_with_advice(tmp_path: Path) -> None:
    async with FakeOrigin() as origin:
        configured = Configured(tmp_path, origin)
        with taken_port() as port:
            for option, setting in (("--listen", "server.listen"), ("--admin", "server.admin")):
                code, output = await run_forebay(
                    "serve", "--config", str(configured.file), option, f"127.0.0.1:{port}", directory=tmp_path
                )
                assert code == 1
                assert f"{setting}: 127.0.0.1:{port} can't be listened on" in output
                assert "another program uses it" in output
                assert "Traceback" not in output


@pytest.mark.parametrize("workers", ["1", "2"])
async def test_an_unusable_journal_ends_the_start_with_advice(tmp_path: Path, workers: str) -> None:
    (journal := tmp_path / "journal").mkdir()
    (journal / "thesis.txt").write_text("not a journal")
    environ = {"FOREBAY_JOURNAL__PATH": str(journal), "FOREBAY_JOURNAL__SIZE": "64MiB"}
    async with FakeOrigin() as origin:
        configured = Configured(tmp_path, origin)
        arguments = ("serve", "--config", str(configured.file), "--workers", workers)
        code, output = await run_forebay(*arguments, directory=tmp_path, environ=environ)
    assert code == 1
    assert f"journal.path: {journal} is neither empty nor a journal: name a directory of its own" in output
    assert "Traceback" not in output
    assert "Unclosed" not in output


LONGEST_VARIABLE = (128 << 10) - 1
"""Bytes of an environment variable, its name and = included (execve(2): MAX_ARG_STRLEN)."""
LONGEST_PATH = 4095


def _directory(parent: Path, length: int) -> str:
    """A directory whose path has so many bytes."""
    made = str(parent)
    while len(made) < length:
        made += "/" + "x" * min(200, length - len(made) - 1)
    Path(made).mkdir(parents=True, exist_ok=True)
    return made


@pytest.mark.parametrize(
    ("variable", "value", "sentence"),
    [
        # A worker's environment is longer than ours: it can't be run.
        (
            "PYTHONPATH",
            lambda _: PATHS.ljust(LONGEST_VARIABLE - len("PYTHONPATH="), ":"),
            "worker 0 can't be started: ",
        ),
        # There is room in it for the file by which Python tries it, none for a directory of ours.
        ("TMPDIR", lambda path: _directory(path, LONGEST_PATH - 10), "socket directory can't be created (TMPDIR): "),
        ("TMPDIR", lambda path: _directory(path, 100), "is too long for sockets by "),
    ],
)
async def test_workers_that_fail_to_start_end_the_command(
    variable: str, value: Callable[[Path], str], sentence: str, tmp_path: Path
) -> None:
    options = ("--origin", "http://127.0.0.1:1", "--open", "--listen", "127.0.0.1:0", "--admin", "off")
    environ = {variable: value(tmp_path)}
    code, output = await run_forebay(
        "serve", *options, "--workers", "2", directory=tmp_path, environ=environ, is_forked=False
    )
    assert code == 1
    assert sentence in output
    assert "Traceback" not in output


REFUSED = [
    (["--origin", "http://127.0.0.1:1"], {}, "auth.keys: must be given: at least one: [[auth.keys]]"),
    (["--origin", "http://127.0.0.1:1", "--open", "--listen", "0.0.0.0:1"], {}, "server.listen: got '0.0.0.0:1'"),
    (["--origin", "127.0.0.1:1", "--open"], {}, "origin.endpoint: got '127.0.0.1:1', allowed: http:// or https://"),
    (["--origin", "http://127.0.0.1:1", "--open", "--ssd", "/x"], {}, "ssd.size: must be given: a size"),
    (
        ["--origin", "http://h", "--open", "--workers", "257"],
        {},
        'server.workers: got 257, allowed: a whole number or "auto"; from 0 to 256',
    ),
    (["--config", "not-there.toml"], {}, "not-there.toml"),
    (["--memory", "4 gigs"], {}, "memory.size: got '4 gigs'"),  # before an origin of its own is started
    (
        [],
        {"FOREBAY_ORIGIN__ENDPOINT": "http://h", "FOREBAY_SERVER__LOG_LEVEL": "loud"},
        "server.log_level (from FOREBAY_SERVER__LOG_LEVEL): got 'loud'",
    ),
]


@pytest.mark.parametrize(("options", "environ", "sentence"), REFUSED)
async def test_a_refused_configuration_ends_with_code_2(
    options: list[str], environ: dict[str, str], sentence: str, tmp_path: Path
) -> None:
    code, output = await run_forebay("serve", *options, directory=tmp_path, environ=environ)
    assert code == 2
    assert output.startswith("The configuration is refused:\n")
    assert sentence in output
    assert "Traceback" not in output


async def test_check_config_prints_errors_and_warnings(tmp_path: Path) -> None:
    authority = TestAuthority(tmp_path)
    chain, key = authority.issue("first")
    (tmp_path / "chain").write_bytes(chain)
    (tmp_path / "key").write_bytes(key)
    (tmp_path / "key").chmod(0o644)
    file = tmp_path / "forebay.toml"
    tls = f'tls_listen = "127.0.0.1:9443"\ntls_certificate = "{tmp_path}/chain"\ntls_key = "{tmp_path}/key"\n'
    file.write_text(
        f'[server]\n{tls}[origin]\nendpoint = "http://h"\n[[auth.keys]]\nid = "laptop"\nsecret = "s"\n'
        '[[rules]]\npath = "b/**"\n'
    )
    file.chmod(0o644)
    code, output = await run_forebay("check-config", str(file), directory=tmp_path)
    assert code == 0
    assert output.count("warning: ") == 4
    for warning in ("auth.keys[0].secret stands in", "(laptop) has no grants", "sets nothing", "chmod o-rwx"):
        assert warning in output
    (tmp_path / "key").write_bytes(authority.issue("second")[1])
    code, output = await run_forebay("check-config", str(file), directory=tmp_path)
    assert code == 2
    assert "server.tls_key" in output
    file.write_text('[server]\nlisten = "127.0.0.1:9000\n')
    code, output = await run_forebay("check-config", str(file), directory=tmp_path)
    assert code == 2
    assert output.startswith(f"{file}, line 2, column ")


async def test_a_start_without_its_journal_warns_of_its_writes(tmp_path: Path) -> None:
    journal, state = tmp_path / "journal", tmp_path / "state" / "forebay"
    journal.mkdir(mode=0o700)
    left = Journal.open(journal, "family")
    await left.append({"kind": "put"})
    await left.close()
    state.mkdir(parents=True)
    (state / "journals").write_text(f"{journal}\n")
    async with FakeOrigin() as origin:
        configured = Configured(tmp_path, origin)
        async with forebay_process("serve", "--config", str(configured.file), directory=tmp_path) as process:
            await process.wait_for_output("metrics and control on http://")
            assert f"see `forebay check-journal {journal}`" in process.output


async def test_the_open_flag_overrides_keys_with_a_warning(tmp_path: Path) -> None:
    async with FakeOrigin() as origin:
        origin.store.put("bucket", "key", b"content")
        configured = Configured(tmp_path, origin)
        options = ("--open", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0")
        async with forebay_process("serve", "--config", str(configured.file), *options, directory=tmp_path) as process:
            await process.wait_for_output("metrics and control on http://")
            assert "WARNING" in process.output
            # Ports that the system chose are printed.
            configured.port, configured.admin = map(
                int, re.findall(r" on http://127\.0\.0\.1:([1-9][0-9]*)$", process.output, re.MULTILINE)
            )
            assert "the configured keys (laptop) are ignored" in process.output
            assert (await configured.client.unsigned("GET", path_of("bucket", "key"))).body == b"content"
            process.signal(signal.SIGHUP)  # the flag stays stronger than the file
            await process.wait_for_output("the configuration was read again; ")
            assert (await configured.client.unsigned("GET", path_of("bucket", "key"))).status == 200
            process.signal(signal.SIGTERM)
            assert await process.wait_exit() == 0


async def test_without_uvloop_asyncios_own_loop_serves(tmp_path: Path) -> None:
    async with FakeOrigin() as origin:
        origin.store.put("bucket", "key", b"content")
        configured = Configured(tmp_path, origin)
        without = ("harness.without_module", "uvloop", "forebay_client.cli.main")
        arguments = ("serve", "--config", str(configured.file))
        async with forebay_process(*arguments, directory=tmp_path, before=without) as process:
            await process.wait_for_output("serving")
            assert (await configured.client.request("GET", path_of("bucket", "key"))).body == b"content"
            process.signal(signal.SIGTERM)
            assert await process.wait_exit() == 0


async def test_two_workers_share_a_port_and_a_pipe(tmp_path: Path) -> None:
    """New connections go to whoever lives, log lines that a pipe doesn't take in one piece stay whole, nobody else gets
    the port, and however the supervisor ends, nothing is left."""
    async with FakeOrigin() as origin:
        configured = Configured(tmp_path, origin)
        keys = [f"{number}" + "\x01" * 1000 for number in range(24)]  # 6000 characters of log each
        for key in keys:
            origin.store.put("bucket", key, b"content")

        async def read(key: str) -> None:
            assert (await configured.client.request("GET", path_of("bucket", key))).body == b"content"

        environ = {"FOREBAY_SERVER__WORKERS": "2"}
        arguments = ("serve", "--config", str(configured.file))
        async with forebay_process(*arguments, directory=tmp_path, environ=environ) as process:
            await process.wait_for_output("serving")
            async with asyncio.TaskGroup() as group:
                for key in keys * 4:
                    group.create_task(read(key))
            workers = workers_of(process.pid)
            assert len(workers) == 2
            code, output = await run_forebay(*arguments, directory=tmp_path, environ=environ)
            assert code == 1
            assert f"server.listen: 127.0.0.1:{configured.port} can't be listened on" in output
            # Who is killed takes with it what it has not yet written: so all that was answered until now is waited for.
            await process.wait_for_output('"status":200', times=len(keys) * 4)
            os.kill(workers[0], signal.SIGKILL)
            await process.wait_for_output("another begins")
            for key in keys:
                await read(key)
            origin.store.put("bucket", "held", b"c" * 1000)
            origin.faults.add(HoldAfter(10, gate := Gate()), key="held", method="GET")
            async with await configured.client.open() as connection:
                await connection.send(configured.client.sign("GET", path_of("bucket", "held")).wire)
                await connection.read_head()
                for pid in (*workers_of(process.pid), process.pid):  # as a service manager does it
                    os.kill(pid, signal.SIGTERM)
                await process.wait_for_output("ending")
                gate.open()
                assert await connection.read_rest() == (b"c" * 1000, False)
            assert await process.wait_exit() == 0
        assert "Traceback" not in process.output
        lines = [json.loads(line) for line in process.output.splitlines() if line.startswith("{")]
        assert [line["status"] for line in lines].count(200) == len(keys) * 5 + 1
        assert left_behind(str(configured.file)) == []

        authority, [secure] = TestAuthority(tmp_path), free_ports(1)
        for name, content in zip(("chain", "key"), authority.issue("two"), strict=True):
            (tmp_path / name).write_bytes(content)
            (tmp_path / name).chmod(0o600)
        configured.write(
            server=f'tls_listen = "127.0.0.1:{secure}"\ntls_certificate = "{tmp_path}/chain"\n'
            f'tls_key = "{tmp_path}/key"\n'
        )
        async with forebay_process(*arguments, directory=tmp_path, environ=environ) as process:
            await process.wait_for_output("serving")
            trusting = ssl.create_default_context(cafile=authority.file)
            for _ in range(8):
                _, writer = await asyncio.open_connection("localhost", secure, ssl=trusting)
                writer.close()
            [directory] = {word for pid in workers_of(process.pid) for word in command_of(pid) if "/forebay-" in word}
            assert os.stat(directory).st_mode & 0o777 == 0o700  # noqa: PTH116 # not a path's blocking method
            os.kill(process.pid, signal.SIGKILL)
            await process.wait_exit()
            async with asyncio.timeout(60):
                while left_behind(directory):  # noqa: ASYNC110 # they tell nobody
                    await asyncio.sleep(0.02)
        make_socket_directory(1).remove()  # as the next supervisor does
        assert not os.access(directory, os.F_OK), "what a killed one left is removed"


def left_behind(mark: str) -> list[str]:
    """The processes whose environment or command line names `mark`."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            known = (process / "environ").read_bytes() + (process / "cmdline").read_bytes()
            zombie = (process / "stat").read_text().rpartition(")")[2].split()[0] == "Z"
        except OSError:
            continue
        if mark.encode() in known and int(process.name) != os.getpid() and not zombie:
            found.append(known.decode(errors="replace"))
    return found


async def test_without_an_origin_an_embedded_one_keeps_its_objects(tmp_path: Path) -> None:
    port, admin = free_ports(2)
    directory = tmp_path / "demo"
    environ = {"FOREBAY_DEMO_DIR": str(directory), "FOREBAY_SERVER__ADMIN": f"127.0.0.1:{admin}"}
    async with forebay_process(
        "serve", "--listen", f"127.0.0.1:{port}", directory=tmp_path, environ=environ
    ) as process:
        await said_or_skipped(process, "Ctrl-C ends it")
        assert f'endpoint_url="http://127.0.0.1:{port}"' in process.output

        def read_twice() -> list[str]:
            client = boto_client(f"http://127.0.0.1:{port}", FOREBAY)
            try:
                answers = [client.get_object(Bucket="demo", Key="train/tensors/00000.f32") for _ in range(2)]
                for answer in answers:
                    assert answer["Body"].read()
            finally:
                client.close()
            return [answer["ResponseMetadata"]["HTTPHeaders"]["x-forebay-cache"] for answer in answers]

        assert (await asyncio.to_thread(read_twice))[0] == "miss"
        assert left_behind(str(directory))
        process.signal(signal.SIGINT)
        assert await process.wait_exit() == 0
    assert "Traceback" not in process.output
    assert left_behind(str(directory)) == []

    port, admin = free_ports(2)  # others than before
    arguments = ("serve", "--listen", f"127.0.0.1:{port}", "--admin", f"127.0.0.1:{admin}")
    async with forebay_process(*arguments, directory=tmp_path, environ=environ) as process:
        await said_or_skipped(process, "Ctrl-C ends it")
        client = RawClient(f"http://127.0.0.1:{port}", FOREBAY)
        again = await client.request("GET", path_of("demo", "train/tensors/00000.f32"))
        assert cache_status(again) == (200, "hit-ssd")
        process.signal(signal.SIGINT)
        assert await process.wait_exit() == 0
        assert "discarded" not in process.output
        assert "revalidated" not in process.output


async def said_or_skipped(process: ForebayProcess, text: str) -> None:
    """Skip where Swift can't run; the process has printed why."""
    try:
        await process.wait_for_output(text)
    except AssertionError:
        if await process.wait_exit() == 1:
            pytest.skip(process.output)
        raise


async def test_botocore_is_not_imported_at_the_start() -> None:
    """botocore is 200 modules in 10 MiB of memory: the first request that needs it imports it."""
    program = "import sys, forebay.serve; print([name for name in sys.modules if 'botocore' in name])"
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-c", program, stdout=asyncio.subprocess.PIPE, env={**os.environ, "PYTHONPATH": PATHS}
    )
    out, _ = await child.communicate()
    assert (child.returncode, out) == (0, b"[]\n")
