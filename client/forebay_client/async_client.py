"""The client for asyncio: the calls of forebay_client.client as coroutines.

    async with AsyncClient("http://127.0.0.1:9000") as client:
        content = await client.get("datasets", "train/0001.jpg")
        async for item in client.get_many("datasets", keys): ...

Each call runs in a thread of the client's own pool, so the loop is never blocked, and both twins share one way to the
server. A cancelled call is given up; its request may still have its effect.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

from forebay_client.client import DEFAULT_PART_SIZE, DEFAULT_READ_AHEAD, Client
from forebay_client.client_stats import ClientCounts
from forebay_client.forebay_resources import PlanHandle, WarmHandle
from forebay_client.object_file import ObjectFile
from forebay_client.object_writer import WRITER_PART_SIZE, WritableObject
from forebay_client.objects import BatchItem, BatchKey, CommonPrefix, ObjectInfo
from forebay_client.transport.client_threads import ClientThreads
from forebay_client.transport.fork_safety import renew_after_fork

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer, WriteableBuffer

T = TypeVar("T")

_END: Final = object()


class AsyncClient:
    """The asyncio twin of `Client`: the same arguments, calls, results and errors.

    May be used by several loops. `open` returns a file whose reads block: read it in a thread.
    """

    def __init__(self, endpoint: str | None = None, **arguments: Any) -> None:
        """`arguments`: those of Client. Raises ClientConfigurationError."""
        self._arguments = {"endpoint": endpoint, **arguments}
        self._client = Client(endpoint, **arguments)
        self._pool: ClientThreads | None = None
        renew_after_fork(self._renew)

    async def get(self, bucket: str, key: str, *, version_id: str | None = None) -> memoryview:
        """See Client.get."""
        return await self._run(self._client.get, bucket, key, version_id=version_id)

    async def get_range(self, bucket: str, key: str, start: int, end: int | None) -> memoryview:
        """See Client.get_range."""
        return await self._run(self._client.get_range, bucket, key, start, end)

    async def get_into(self, bucket: str, key: str, buffer: "WriteableBuffer", start: int = 0) -> int:
        """See Client.get_into. After a cancellation the buffer may still be written to for a moment."""
        return await self._run(self._client.get_into, bucket, key, buffer, start)

    async def get_many(
        self, bucket: str, keys: Iterable[str | BatchKey], *, ordered: bool = True
    ) -> AsyncIterator[BatchItem]:
        """See Client.get_many. `keys` is drawn in a thread."""
        async for item in self._iterate(partial(self._client.get_many, bucket, keys, ordered=ordered)):
            yield item

    async def head(self, bucket: str, key: str) -> ObjectInfo:
        """See Client.head."""
        return await self._run(self._client.head, bucket, key)

    async def list(
        self, bucket: str, prefix: str = "", *, delimiter: str = "", start_after: str = ""
    ) -> AsyncIterator[ObjectInfo | CommonPrefix]:
        """See Client.list."""
        pages = partial(self._client.list_pages, bucket, prefix, delimiter=delimiter, start_after=start_after)
        async for page in self._iterate(pages):
            for entry in page:
                yield entry

    async def open(self, bucket: str, key: str, *, read_ahead: int = DEFAULT_READ_AHEAD) -> ObjectFile:
        """See Client.open."""
        return await self._run(self._client.open, bucket, key, read_ahead=read_ahead)

    async def create(
        self,
        bucket: str,
        key: str,
        part_size: int = WRITER_PART_SIZE,
        *,
        content_type: str | None = None,
        metadata: Mapping[str, str] | None = None,
    ) -> WritableObject:
        """See Client.create. The file's own calls block."""
        create = self._client.create
        return await self._run(create, bucket, key, part_size, content_type=content_type, metadata=metadata)

    async def put(
        self,
        bucket: str,
        key: str,
        data: "ReadableBuffer",
        *,
        content_type: str | None = None,
        metadata: Mapping[str, str] | None = None,
    ) -> ObjectInfo:
        """See Client.put."""
        return await self._run(self._client.put, bucket, key, data, content_type=content_type, metadata=metadata)

    async def put_file(
        self,
        bucket: str,
        key: str,
        path: str | os.PathLike[str],
        part_size: int = DEFAULT_PART_SIZE,
        *,
        content_type: str | None = None,
        metadata: Mapping[str, str] | None = None,
    ) -> ObjectInfo:
        """See Client.put_file."""
        call = partial(self._client.put_file, content_type=content_type, metadata=metadata)
        return await self._run(call, bucket, key, path, part_size)

    async def delete(self, bucket: str, key: str) -> None:
        """See Client.delete."""
        await self._run(self._client.delete, bucket, key)

    async def presign(self, bucket: str, key: str, *, method: str = "GET", expires: int = 3600) -> str:
        """See Client."""
        return await self._run(self._client.presign, bucket, key, method=method, expires=expires)

    async def plan(
        self, bucket: str, name: str, keys: Iterable[str | BatchKey], *, order: Iterable[int] | None = None
    ) -> PlanHandle:
        """See Client.plan. The handle's own calls block."""
        return await self._run(self._client.plan, bucket, name, keys, order=order)

    async def warm(self, bucket: str, objects: str | Sequence[str]) -> WarmHandle:
        """See Client.warm."""
        return await self._run(self._client.warm, bucket, objects)

    async def flush(self, bucket: str, prefix: str = "", timeout: float | None = None) -> None:  # noqa: ASYNC109 # Client's
        """See Client.flush."""
        await self._run(self._client.flush, bucket, prefix, timeout)

    async def datasets(self, bucket: str) -> Sequence[Mapping[str, Any]]:
        """See Client.datasets."""
        return await self._run(self._client.datasets, bucket)

    @property
    def blocking(self) -> Client:
        """The client beneath, whose calls block."""
        return self._client

    @property
    def stats(self) -> ClientCounts:
        """See Client.stats."""
        return self._client.stats

    async def close(self) -> None:
        """See Client.close."""
        self._close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self._close()

    def __repr__(self) -> str:
        return f"Async{self._client!r}"

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuilt_twin, (self._arguments,)

    def _close(self) -> None:
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.shutdown(wait=False, cancel_futures=True)
        self._client.close()

    def _renew(self) -> None:
        self._pool = None

    async def _run(self, call: Callable[..., T], *arguments: Any, **named: Any) -> T:
        if self._pool is None:
            # As many as there are connections: a call that waits for one would wait here as well.
            self._pool = ClientThreads(self._client.connections, thread_name_prefix="forebay-async")
        return await asyncio.get_running_loop().run_in_executor(self._pool, partial(call, *arguments, **named))

    async def _iterate(self, start: Callable[[], Iterator[T]]) -> AsyncIterator[T]:
        iterator = await self._run(start)
        while (item := await self._run(next, iterator, _END)) is not _END:
            yield item


def _rebuilt_twin(arguments: dict[str, Any]) -> AsyncClient:
    return AsyncClient(**arguments)
