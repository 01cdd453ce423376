"""Objects as paths, for libraries that insist on opening a file by its name.

    with forebay_client.path("s3://models/weights.safetensors") as name:      "/proc/self/fd/7"
        tensors = safetensors.torch.load_file(name)

On Linux the object lies in a memory file (memfd), which has no name on any disk, and the path is that of its
descriptor. Its memory goes back when the path is closed and the last mapping of it is gone: what a library has mapped
(torch.load with mmap=True) stays valid after `close`. The path itself is of this process: a child after a fork has it
too, a process that is started anew has not. On other systems the object lies in a temporary file, which `close`
removes.
"""

import functools
import os
import sys
import tempfile
import threading
import weakref
from pathlib import Path
from types import TracebackType
from typing import Final

from forebay_client.client import Client
from forebay_client.client_errors import BodyCorrupt, ConditionNotMet, InvalidRequest
from forebay_client.object_downloads import range_of
from forebay_client.object_uri import dialect_of, split_uri
from forebay_client.objects import ObjectInfo
from forebay_client.transport.client_threads import ClientThreads
from forebay_client.transport.object_request import ObjectRequest

_PIECE: Final = 16 << 20
_WIDTH: Final = 8
"""Pieces at once."""
_ATTEMPTS: Final = 3
_DESCRIPTORS: Final = Path("/proc/self/fd")
_position = threading.Lock()


class LocalPath(os.PathLike[str]):
    """The path of an object's content. A context manager, whose value is the path as text."""

    def __init__(self, name: str, descriptor: int | None) -> None:
        """`descriptor`: of the memory file; None: `name` is a file to be removed."""
        self._name = name
        # Not __del__: when the interpreter ends, that may come once the names of this module are gone.
        self._end = (
            weakref.finalize(self, os.close, descriptor)
            if descriptor is not None
            else weakref.finalize(self, Path(name).unlink, missing_ok=True)
        )

    def __fspath__(self) -> str:
        self._check_open()
        return self._name

    def __str__(self) -> str:
        return self.__fspath__()

    def __repr__(self) -> str:
        return f"LocalPath({self._name!r}{'' if self._end.alive else ', closed'})"

    def close(self) -> None:
        """Ends the path. What is mapped stays mapped."""
        self._end()

    def __enter__(self) -> str:
        return self.__fspath__()

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.close()

    def _check_open(self) -> None:
        if not self._end.alive:
            raise ValueError(f"the path {self._name} is closed")


def path(url: str, *, client: Client | None = None) -> LocalPath:
    """The content of an object as a file that can be opened by its name.

    Args:
        url: `s3://bucket/key`, or `oss://bucket/key`; nothing of it is decoded.
        client: To read with. None: one with the settings of the environment.

    Raises:
        ObjectNotFound: And the other ClientErrors. InvalidRequest where the URL names no object.
        OSError: There is no memory, or no room for a temporary file.
    """
    found = split_uri(url)
    if found is None or not found.key:
        raise InvalidRequest(f"{url!r} names no object; a URL looks like s3://bucket/key")
    bucket, key = found.bucket, found.key
    reader = client if client is not None else _client_of_environment(dialect_of(url))
    for attempt in range(_ATTEMPTS):
        info = reader.head(bucket, key)
        opened = _memory_file(key) if _has_memory_files() else _temporary_file()
        try:
            _fill(reader, info, opened.fileno)
        except ConditionNotMet:  # overwritten since: what is there by now, from its beginning
            opened.local.close()
            if attempt == _ATTEMPTS - 1:
                raise
        except BaseException:
            opened.local.close()
            raise
        else:
            return opened.finish()
    raise AssertionError("the last attempt has returned or raised")


class _OpenedPath:
    """A path that is being filled."""

    def __init__(self, local: LocalPath, fileno: int, *, is_memory: bool) -> None:
        self.local, self.fileno, self._is_memory = local, fileno, is_memory

    def finish(self) -> LocalPath:
        """Seals the content."""
        if self._is_memory:
            import fcntl  # noqa: PLC0415 # Linux has it, Windows has not

            seals = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE | fcntl.F_SEAL_SEAL
            fcntl.fcntl(self.fileno, fcntl.F_ADD_SEALS, seals)
        else:
            os.close(self.fileno)
        return self.local


@functools.cache
def _client_of_environment(dialect: str) -> Client:
    return Client(dialect=dialect)


def _has_memory_files() -> bool:
    return sys.platform == "linux" and hasattr(os, "memfd_create") and _DESCRIPTORS.is_dir()


def _memory_file(key: str) -> _OpenedPath:
    # The name is for /proc/PID/maps alone. Its bytes are bounded.
    label = key.rpartition("/")[2].encode(errors="replace")[-200:].decode(errors="replace").replace("\0", "")
    fileno = os.memfd_create(label, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    return _OpenedPath(LocalPath(f"{_DESCRIPTORS}/{fileno}", fileno), fileno, is_memory=True)


def _temporary_file() -> _OpenedPath:
    fileno, name = tempfile.mkstemp(prefix="forebay-")
    return _OpenedPath(LocalPath(name, None), fileno, is_memory=False)


def _fill(client: Client, info: ObjectInfo, fileno: int) -> None:
    """Writes the object into a file, in pieces of one version that travel in parallel."""
    os.ftruncate(fileno, info.size)
    condition = {"if-match": info.etag} if info.etag and not info.etag.startswith("W/") else {}

    def copy_piece(start: int) -> None:
        span = start, min(start + _PIECE, info.size)
        response = client.send_request(ObjectRequest("GET", info.bucket, info.key, headers=condition, span=span))
        body = range_of(response, info.bucket, info.key, *span)
        if len(body) != span[1] - span[0]:
            raise BodyCorrupt("the object has another length", bucket=info.bucket, key=info.key)
        _write_at(fileno, body, start)

    starts = range(0, info.size, _PIECE)
    if len(starts) <= 1:
        for start in starts:
            copy_piece(start)
        return
    with ClientThreads(min(_WIDTH, len(starts), client.connections)) as executor:
        for _ in executor.map(copy_piece, starts):
            pass


def _write_at(fileno: int, body: memoryview, start: int) -> None:
    done = 0
    while done < len(body):
        if hasattr(os, "pwrite"):
            done += os.pwrite(fileno, body[done:], start + done)
        else:
            with _position:
                os.lseek(fileno, start + done, os.SEEK_SET)
                done += os.write(fileno, body[done:])
