"""A call of the client library on one of several ways, and what became of it in a form that can be compared.

A step is one call with its arguments. It can be made on any way (`Way`): each has objects of its own, equal to those of
the others, in a bucket whose name no outcome holds. Which calls there are: differential.client_call_generator.
"""

import asyncio
import io
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime
from pathlib import Path
from typing import Any, Final, TypeAlias

from forebay_client import AsyncClient, BatchItem, Client, ClientError, CommonPrefix, ObjectInfo
from forebay_client.filesystem import ObjectFileSystem

Outcome: TypeAlias = Any
"""Plain values, equal exactly where the outcomes of a call are."""


@dataclass(slots=True)
class Way:
    """One way to equal objects: a client, or its asyncio twin, and the bucket."""

    name: str
    arguments: Mapping[str, Any]
    bucket: str
    directory: Path
    is_async: bool = False
    client: Client = field(init=False)
    fs: ObjectFileSystem = field(init=False)
    _twin: AsyncClient | None = field(init=False, default=None)
    _loop: asyncio.AbstractEventLoop | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        self.fs = ObjectFileSystem(**self.arguments, skip_instance_cache=True)
        if self.is_async:
            self._twin, self._loop = AsyncClient(**self.arguments), asyncio.new_event_loop()
            self.client = self._twin.blocking
        else:
            self.client = Client(**self.arguments)

    def call(self, name: str, *arguments: Any, **named: Any) -> Any:
        """Calls a method with this way's bucket in front; what iterates is a list."""
        if self._twin is None or self._loop is None:
            found = getattr(self.client, name)(self.bucket, *arguments, **named)
            return list(found) if isinstance(found, Iterator) and not isinstance(found, io.IOBase) else found
        found = getattr(self._twin, name)(self.bucket, *arguments, **named)
        return self._loop.run_until_complete(_listed(found) if isinstance(found, AsyncIterator) else found)

    def close(self) -> None:
        self.client.close()
        self.fs.client.close()
        if self._twin is not None and self._loop is not None:
            self._loop.run_until_complete(self._twin.close())
            self._loop.close()


async def _listed(items: AsyncIterator[Any]) -> list[Any]:
    return [item async for item in items]


@dataclass(frozen=True, slots=True)
class Step:
    """A call. `text`: for people."""

    text: str
    run: Callable[[Way], Any]

    def outcome(self, way: Way) -> Outcome:
        """What it returned or raised."""
        try:
            return _plain(self.run(way), way)
        except Exception as error:  # whatever it raises is the outcome
            return _plain_error(error, way)


_OWN: Final = ("headers", "last_modified", "bucket")
"""Fields of an ObjectInfo that differ between two equal objects."""


def _plain(value: Any, way: Way) -> Outcome:
    match value:
        case memoryview():
            return "view", bytes(value), value.readonly, value.format, value.shape, value.c_contiguous
        case BatchItem():
            error = None if value.error is None else _plain_error(value.error, way)
            return value.index, value.key, _plain(value.data, way), error
        case CommonPrefix():
            return "prefix", value.prefix, value.bucket == way.bucket
        case ObjectInfo():
            facts = {each.name: getattr(value, each.name) for each in fields(value) if each.name not in _OWN}
            return facts, value.bucket == way.bucket, value.last_modified is None
        case BaseException():
            return _plain_error(value, way)
        case datetime():
            return "time", value.tzinfo
        case str():
            return value.replace(way.bucket, "BUCKET")
        case dict():
            return {_plain(name, way): _plain(each, way) for name, each in value.items()}
        case list() | tuple():
            return type(value).__name__, [_plain(each, way) for each in value]
        case _:
            return type(value).__name__, value


def _plain_error(error: BaseException, way: Way) -> Outcome:
    if isinstance(error, ClientError):
        bucket = error.bucket == way.bucket if error.bucket is not None else None
        facts = (error.status, error.code, bucket, error.key, error.request_id is not None)
        return type(error).__name__, *facts, error.reason if error.status is None else ""
    if isinstance(error, OSError):
        path = str(error.filename).replace(way.bucket, "BUCKET")
        return type(error).__name__, error.errno, path, _plain(error.__cause__, way) if error.__cause__ else None
    return type(error).__name__, str(error).replace(way.bucket, "BUCKET").replace(str(way.directory), "DIRECTORY")
