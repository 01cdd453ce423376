"""A whole Forebay in the test's own loop: a worker on ports of the system's choice in front of an origin.

    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path) as rig:
        answer = await rig.client().request("GET", path_of("bucket", "key"))

`rig.now` is the clock that freshness is judged by: a test moves it instead of waiting. The rig is stopped as an
operator would stop it, and checks on its way out that nothing was left behind: no flight, no buffer, no task.
"""

import asyncio
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from forebay.core.timers import Timers
from forebay.server.composition import Parts
from forebay.server.config_source import ConfigSource
from forebay.server.worker import Worker
from forebay.server.worker_tasks import CHECK_INTERVAL
from forebay.storage.journal.journal_files import JournalFiles
from harness.background_turns import is_fetching_ahead
from harness.clients import RawClient, boto_client
from harness.reference_sigv4 import Secret

TRAINER = Secret("trainer", "trainer-secret")
"""May do everything."""
READER = Secret("reader", "reader-secret")
"""May read and list what is under open/ of every bucket."""

_CONFIGURATION = """\
[server]
listen = "127.0.0.1:0"
admin = "127.0.0.1:0"
drain_timeout = "5s"
state_dir = "{state}"
access_log = "{access_log}"
{server}

[origin]
endpoint = "{endpoint}"
dialect = "{dialect}"
access_key = "{access_key}"
region = "{region}"
secret_key = "{secret_key}"
attempts = 2
{origin}

[memory]
size = "{memory}"
buffers = "{buffers}"

{ssd}

[[auth.keys]]
id = "trainer"
secret = "trainer-secret"
grants = [{{ path = "**", allow = ["read", "write", "list", "delete"] }}]

[[auth.keys]]
id = "reader"
secret = "reader-secret"
grants = [{{ path = "*/open/**", allow = ["read", "list"] }}]

{rest}
"""

_SSD = '[ssd]\npath = "{path}"\nsize = "{size}"\n'


def configuration_of(
    endpoint: str,
    secret: Secret,
    directory: Path,
    *,
    dialect: str = "swift",
    memory: str = "64MiB",
    buffers: str = "64MiB",
    ssd: str | None = None,
    origin: str = "",
    server: str = "",
    rest: str = "",
) -> str:
    """A configuration on ports of the system's choice, with the two principals from above. `rest`: more TOML."""
    return _CONFIGURATION.format(
        endpoint=endpoint,
        dialect=dialect,
        access_key=secret.access,
        region=secret.region,
        secret_key=secret.secret,
        memory=memory,
        buffers=buffers,
        access_log=directory / "access.log",
        state=directory / "state",
        server=server,
        ssd=_SSD.format(path=directory / "ssd", size=ssd) if ssd is not None else "",
        origin=origin,
        rest=rest,
    )


class Rig:
    """See the module. Keyword arguments go into the configuration; `rest` is more TOML (rules, limits)."""

    def __init__(
        self,
        endpoint: str,
        secret: Secret,
        directory: Path,
        timers: Timers | None = None,
        /,
        **settings: Any,
    ) -> None:
        """`timers`: of the listener's time limits, None for the loop's. `settings`: see `configuration_of`."""
        self.directory = directory
        self.check_interval = CHECK_INTERVAL
        """Of the worker; to be changed before it starts."""
        self.configuration = configuration_of(endpoint, secret, directory, **settings)
        self.journal_files: JournalFiles | None = None
        """The system calls of the journal, None for the real ones; likewise."""
        self._timers = timers
        self._ahead = 0.0
        self._worker: Worker | None = None

    def now(self) -> float:
        return time.time() + self._ahead

    def advance_clock(self, seconds: float) -> None:
        """Move the clock of freshness on."""
        self._ahead += seconds

    async def start(self) -> None:
        self.directory.mkdir(exist_ok=True)
        file = self.directory / "forebay.toml"
        if not file.exists() or file.read_text() != self.configuration:
            file.write_text(self.configuration)
            file.chmod(0o600)
        source = ConfigSource(file, {}, {})
        self._worker = Worker(
            source.load().settings,
            source,
            clock=self.now,
            check_interval=self.check_interval,
            timers=self._timers,
            journal_files=self.journal_files,
        )
        await self._worker.start()

    async def stop(self) -> None:
        """Drain and close. What had to be given back must have been."""
        worker, self._worker = self.worker, None
        await worker.stop()
        assert len(worker.parts.fetch.flights) == 0, worker.parts.fetch.flights
        assert worker.parts.storage.budget.in_use == 0, worker.parts.storage.budget
        assert not worker.parts.metadata.heads.requests
        assert worker.parts.storage.tiers.memory.ahead.budget.in_use == 0, worker.parts.jobs.prefetcher
        for origin in worker.parts.origins:
            background = origin.client.reads.background
            assert (background.in_use, background.waiting) == (0, 0), background
        assert len(worker.parts.storage.upload_starts) == 0
        assert len(worker.parts.context.tasks) == 0

    async def restart(self) -> None:
        await self.stop()
        await self.start()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        if self._worker is not None:
            await self.stop()

    @property
    def worker(self) -> Worker:
        assert self._worker is not None
        return self._worker

    @property
    def parts(self) -> Parts:
        return self.worker.parts

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.worker.address[1]}"

    @property
    def admin(self) -> str:
        return f"http://127.0.0.1:{self.worker.admin_address[1]}"

    def client(self, secret: Secret = TRAINER) -> RawClient:
        """Signs as `secret`, on a connection a request."""
        return RawClient(self.endpoint, secret)

    def boto3(self, secret: Secret = TRAINER, **config: Any) -> Any:
        """An unmodified boto3, to be used in threads (`asyncio.to_thread`) and closed."""
        return boto_client(self.endpoint, secret, **config)

    def access_lines(self) -> list[str]:
        """What the access log holds by now. Only what was flushed: stop the rig for all of it."""
        return (self.directory / "access.log").read_text().splitlines()

    async def wait_idle(self) -> None:
        """Until nothing runs in the background."""
        await self.parts.context.tasks.wait_idle()
        while is_fetching_ahead(self.parts):
            await asyncio.sleep(0)
            await self.parts.context.tasks.wait_idle()
