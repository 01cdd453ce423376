"""A Forebay with a journal: the bucket `ckpt` is under a `back` rule.

async with FakeOrigin() as origin, WriteBackRig(origin, tmp_path) as rig:
    await rig.prove()
    await rig.client().request("PUT", path_of("ckpt", "a/key"), (), b"acknowledged from the journal")
    await rig.settled()
    assert at_origin(origin, "a/key") == ...
"""

from pathlib import Path
from typing import Any

from forebay.core.timers import Timers
from forebay.storage.journal.journal_files import JournalFiles
from forebay.write.back.write_back import WriteBack
from harness.clients import path_of
from harness.fake_origin import FakeOrigin
from harness.rig import Rig

JOURNAL = '[journal]\npath = "{path}"\nsize = "{size}"\n\n'
RULE = '[[rules]]\npath = "ckpt/**"\nwrite = "back"\n'


class AheadFiles(JournalFiles):
    """The system calls of a journal, with a monotonic clock that is ahead, as `Rig.journal_files`."""

    def __init__(self) -> None:
        super().__init__()
        self.seconds = 0

    def monotonic_ns(self) -> int:
        return super().monotonic_ns() + self.seconds * 10**9


class WriteBackRig(Rig):
    """See the module. It does not wait for pending writes when it is stopped."""

    def __init__(
        self,
        origin: FakeOrigin,
        directory: Path,
        /,
        rule: str = "",
        rest: str = "",
        journal_size: str = "256MiB",
        journal_settings: str = "",
        timers: Timers | None = None,
        **settings: Any,
    ) -> None:
        """`rule`: more of the `back` rule. `journal_settings`: more of `[journal]`. `rest`: more TOML, in front of it.
        `timers`, `settings`: see harness.rig.Rig."""
        self.origin = origin
        self.journal = directory / "journal"
        journal = JOURNAL.format(path=self.journal, size=journal_size).strip()
        rest = f"{rest}{journal}\n{journal_settings}\n{RULE}{rule}"
        super().__init__(origin.endpoint, origin.secret, directory / "rig", timers, rest=rest, **settings)
        self.configuration = self.configuration.replace('drain_timeout = "5s"', 'drain_timeout = "1ms"')

    @property
    def write_back(self) -> WriteBack:
        assert self.parts.writes.write_back is not None
        return self.parts.writes.write_back

    async def prove(self) -> None:
        """Makes the bucket, and has the first writes of their kinds, which probe the origin."""
        self.origin.store.create_bucket("ckpt")
        for method in ("PUT", "DELETE"):
            assert (await self.client().request(method, path_of("ckpt", "a/proof"))).status in {200, 204}
        await self.settled()

    async def settled(self) -> None:
        """Waits until nothing is pending."""
        await self.write_back.pending.wait_settled(lambda _: True)
        await self.parts.context.tasks.wait_idle()

    async def flush(self, bucket: str, prefix: str = "", seconds: float = 60.0) -> int:
        """Flushes a prefix, as an operator does. Returns how many writes are not at the origin."""
        assert self.parts.writes.backlog is not None
        return (await self.parts.writes.backlog.flush(bucket, prefix, seconds, "")).left

    async def put(self, key: str, content: bytes, *headers: tuple[str, str]) -> str:
        """Writes an object, which has to be acknowledged from the journal. Returns its ETag."""
        answer = await self.client().request("PUT", path_of("ckpt", key), headers, content)
        assert (answer.status, answer.headers.get("x-forebay-durable")) == (200, "local"), answer
        return answer.headers["ETag"]


def at_origin(origin: FakeOrigin, key: str, bucket: str = "ckpt") -> bytes | None:
    """What an object holds at the origin; None: there is none."""
    found = origin.store.current(bucket, key)
    return None if found is None else b"".join(found.content.views(0, found.content.size))
