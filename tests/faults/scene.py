"""The scene of one cell: a bucket of its own, an object at the origin, and the clients that read and write it."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from harness.clients import RawClient, path_of, query_of
from harness.fake.store import StoredObject
from harness.fake_origin import FakeOrigin
from harness.oss_client import OssClient
from harness.oss_origin import OssOrigin
from harness.raw_connection import RawAnswer
from harness.rig import Rig

BLOCK: Final = 64 * 1024
RULES: Final = f"""
[[rules]]
path = "neighbour/**"
freshness = "immutable"

[[rules]]
path = "*/plain/**"
accelerate = false

[[rules]]
path = "*/always/**"
freshness = "always"

[[rules]]
path = "*/warm/**"
warm_on_write = true

[[rules]]
path = "**"
freshness = "60s"
block = "{BLOCK // 1024}KiB"
"""
"""The block is small, and runs are of two blocks (`ORIGIN`): a large object takes several requests."""
ORIGIN: Final = 'max_run = "128KiB"\ngap = "0"\nparallel = 2'
SMALLEST: Final = 100 << 10
"""Bytes of a part that is not the last, at least."""
STALE: Final = 61.0
"""Seconds after which an object has to be revalidated."""

Pairs = Sequence[tuple[str, str]]


def bytes_of(version: StoredObject) -> bytes:
    return b"".join(version.content.views(0, version.size))


@dataclass(slots=True)
class Scene:
    """What the operations of a cell work on. `key` is the object that is compared in the end."""

    rig: Rig
    origin: FakeOrigin
    bucket: str
    key: str = "minute/key"
    versions: list[StoredObject] = field(default_factory=list)
    """Those that an answer may be of, while the fault lasts."""
    notes: dict[str, str] = field(default_factory=dict)
    """What an operation keeps from its preparation: an upload id, the ETags of parts."""

    @property
    def client(self) -> RawClient:
        return self.rig.client()

    @property
    def oss(self) -> OssClient:
        return OssClient(self.rig.endpoint, self.client.secret)

    @property
    def has_oss_origin(self) -> bool:
        return isinstance(self.origin, OssOrigin)

    def target(self, key: str | None = None, /, **query: str) -> str:
        """The object's target, or another's; underscores of parameter names become dashes."""
        text = query_of({name.replace("_", "-"): value for name, value in query.items()})
        return path_of(self.bucket, key or self.key) + (f"?{text}" if text else "")

    def bucket_target(self, query: str = "") -> str:
        return path_of(self.bucket) + (f"?{query}" if query else "")

    def put(self, body: bytes, key: str | None = None) -> StoredObject:
        """Writes an object past Forebay."""
        return self.origin.store.put(self.bucket, key or self.key, body, content_type="text/plain")

    def current(self, key: str | None = None) -> StoredObject | None:
        """The origin's truth."""
        return self.origin.store.current(self.bucket, key or self.key)

    async def get(self, *headers: tuple[str, str], method: str = "GET") -> RawAnswer:
        """Reads the object as any client does."""
        return await self.client.request(method, self.target(), headers)

    async def read_into_cache(self, *headers: tuple[str, str], method: str = "GET") -> None:
        """Reads while the origin is healthy."""
        answer = await self.get(*headers, method=method)
        assert answer.status in {200, 206}, answer
        assert not answer.aborted, answer
        await self.rig.wait_idle()
