"""The client: objects of S3 or OSS, through Forebay or without it.

    with Client("http://127.0.0.1:9000") as client:
        content = client.get("datasets", "train/0001.jpg")          # a memoryview
        for item in client.get_many("datasets", keys): ...

Every call works against any server of S3, or of OSS with dialect="oss"; Forebay makes it faster. The asyncio twin
(forebay_client.async_client) has the same calls. Calls that need Forebay: forebay_client.resource_calls.
"""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from forebay_client.batch.batch_reads import BatchReads, BatchTransports
from forebay_client.client_settings import ClientSettings, resolve_settings
from forebay_client.client_stats import ClientCounts, ClientStats
from forebay_client.client_transports import ClientTransports
from forebay_client.forebay_resources import ForebayResources
from forebay_client.listing_reader import list_object_pages
from forebay_client.object_downloads import read_entry, read_head, read_into, read_object, read_range
from forebay_client.object_file import ObjectFile
from forebay_client.object_uploads import put_content, put_in_parts, upload_headers
from forebay_client.object_writer import WRITER_PART_SIZE, WritableObject
from forebay_client.objects import (
    BatchItem,
    BatchKey,
    CommonPrefix,
    ObjectInfo,
    bytes_of,
    checked_bucket,
    checked_key,
    checked_keys,
    index_of,
)
from forebay_client.resource_calls import ResourceCalls
from forebay_client.transport.fork_safety import renew_after_fork
from forebay_client.transport.object_request import FilePart, ObjectRequest, ObjectResponse
from forebay_client.transport.request_sender import RequestSender
from forebay_client.transport.signed_request import ObjectRequestSigner
from forebay_client.transport.upload_content import size_of_file

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer, WriteableBuffer

    from forebay_client.transport.client_threads import ClientThreads

DEFAULT_PART_SIZE: Final = 64 << 20
DEFAULT_READ_AHEAD: Final = 8 << 20
LONGEST_PRESIGNED: Final = 7 * 24 * 3600
"""Seconds: what S3 and OSS allow."""


class Client(ResourceCalls):
    """Reads and writes objects of S3 or OSS.

    Threads may share a client, and it survives a fork: the child opens connections of its own. It pickles as its
    arguments, secrets included where they were arguments. Close it, or use it as a context manager, to close its
    connections.

    Args:
        endpoint: URL of the server, as `http://127.0.0.1:9000`. None: AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL, the
            profile, else Amazon's of the region.
        access_key: With `secret_key`, and `session_token` for temporary ones, the credentials. None: the environment,
            the profile, botocore's chain. Empty: requests are not signed.
        region: As it is signed.
        profile: Of the shared files of the AWS SDKs.
        dialect: `s3`, or `oss` for Alibaba OSS.
        addressing: `path`, or `virtual` for the bucket in the host name.
        socket: Path of Forebay's Unix socket. None: FOREBAY_SOCKET, else what the endpoint hints at. Empty: never.
        connections: At once, of all threads together; also the width of `get_many`.
        timeout: Seconds without progress after which an attempt has failed, and with 4 retries the second one ends it.
        retries: Attempts after the first. None: AWS_MAX_ATTEMPTS, the profile's `max_attempts`, less one; else 4. They
            say as well how long a server that can't be connected to is waited for (docs/client-library.md).

    Raises:
        ClientConfigurationError: An argument, an environment variable or a profile is unusable, or there are no
            credentials. Nothing is sent before the first call.
    """

    def __init__(
        self,
        endpoint: str | None = None,
        *,
        access_key: str | None = None,
        secret_key: str | None = None,
        session_token: str | None = None,
        region: str | None = None,
        profile: str | None = None,
        dialect: str = "s3",
        addressing: str = "path",
        socket: str | os.PathLike[str] | None = None,
        connections: int = 32,
        timeout: float = 60.0,
        retries: int | None = None,
    ) -> None:
        self._arguments: dict[str, Any] = {
            "endpoint": endpoint,
            "access_key": access_key,
            "secret_key": secret_key,
            "session_token": session_token,
            "region": region,
            "profile": profile,
            "dialect": dialect,
            "addressing": addressing,
            "socket": socket,
            "connections": connections,
            "timeout": timeout,
            "retries": retries,
        }
        self._settings: ClientSettings = resolve_settings(**self._arguments, environ=os.environ)
        self._signer = ObjectRequestSigner(self._settings)
        self._transports = ClientTransports(self._settings, self._signer)
        self._pool: ClientThreads | None
        self._renew()
        renew_after_fork(self._renew)

    # Reading

    def get(self, bucket: str, key: str, *, version_id: str | None = None) -> memoryview:
        """The whole object, read-only.

        A body that breaks off is continued, or read again: the bytes are always those of one version.

        Raises:
            ObjectNotFound, AccessDenied, ServiceUnavailable: And the other ClientErrors.
        """
        return read_object(self._send, bucket, checked_key(key), version_id)

    def get_range(self, bucket: str, key: str, start: int, end: int | None) -> memoryview:
        """The bytes from `start` up to `end`, exclusive, read-only; None: to the end of the object.

        As a slice has it, an `end` behind the object's is the object's.

        Raises:
            RangeNotSatisfiable: The object has no byte at `start`.
        """
        return read_range(self._send, bucket, checked_key(key), start, end)

    def get_into(self, bucket: str, key: str, buffer: "WriteableBuffer", start: int = 0) -> int:
        """Reads into a writable buffer, from byte `start` of the object on, until the buffer or the object ends.

        Returns:
            Bytes written: fewer than the buffer has only at the end of the object. After an error the buffer's content
            is undefined.
        """
        return read_into(self._send, bucket, checked_key(key), buffer, start)

    def get_many(self, bucket: str, keys: Iterable[str | BatchKey], *, ordered: bool = True) -> Iterator[BatchItem]:
        """Reads many objects, or parts of them: from Forebay by one request for hundreds (docs/batches.md), else by
        parallel GETs.

        Args:
            keys: Keys, or BatchKeys for ranges; drawn as the items are consumed, so a generator will do.
            ordered: Whether items come in the order of the keys. Otherwise as they arrive, and `BatchItem.index` is
                the position of the key.

        Returns:
            An item a key. A key that can't be read is an item with an error, and ends nothing.
        """

        def read(key: BatchKey) -> memoryview:
            return read_entry(self._send, bucket, key)

        local, _ = self._transports.make()
        ways = BatchTransports(self._send, read, lambda: self.executor, self._settings.connections, local)
        return self._batches.items(ways, checked_bucket(bucket), checked_keys(keys), ordered=ordered)

    def head(self, bucket: str, key: str) -> ObjectInfo:
        """Size, ETag, type and metadata of an object. Raises ObjectNotFound and the other ClientErrors."""
        return read_head(self._send, bucket, checked_key(key))

    def list(
        self, bucket: str, prefix: str = "", *, delimiter: str = "", start_after: str = ""
    ) -> Iterator[ObjectInfo | CommonPrefix]:
        """The objects whose keys begin with `prefix`, in the order of the keys' UTF-8 bytes, page by page as they are
        consumed.

        Args:
            delimiter: Keys that hold it behind the prefix are shown as one CommonPrefix.
            start_after: Keys up to this one, inclusive, are left out.
        """
        for page in self.list_pages(bucket, prefix, delimiter=delimiter, start_after=start_after):
            yield from page

    def list_pages(
        self, bucket: str, prefix: str = "", *, delimiter: str = "", start_after: str = ""
    ) -> Iterator[Sequence[ObjectInfo | CommonPrefix]]:
        """Returns the result of `list` in pages, each of which is one request."""
        plain = self._settings.dialect == "s3"
        return list_object_pages(
            self._send, checked_bucket(bucket), prefix, delimiter, start_after, has_plain_tokens=plain
        )

    def open(self, bucket: str, key: str, *, read_ahead: int = DEFAULT_READ_AHEAD) -> ObjectFile:
        """Opens an object as a file: binary, seekable, read-only.

        Args:
            read_ahead: Bytes that are requested ahead of a reader that reads in order. 0: each read is a request.

        Returns:
            A file for one thread at a time. It reads the version that it found when it was opened; if that is replaced
            meanwhile, reading raises ConditionNotMet.
        """
        return ObjectFile(
            self._send, lambda: self.head(bucket, key), lambda: self.executor, bucket, checked_key(key), read_ahead
        )

    # Writing

    def put(
        self,
        bucket: str,
        key: str,
        data: "ReadableBuffer",
        *,
        content_type: str | None = None,
        metadata: Mapping[str, str] | None = None,
    ) -> ObjectInfo:
        """Writes an object with one request. Its checksum travels along, and the server verifies it. Raises TypeError
        for what is no contiguous buffer."""
        view, headers = bytes_of(data), upload_headers(content_type, metadata)
        return put_content(self._send, bucket, checked_key(key), view, len(view), headers)

    def put_file(
        self,
        bucket: str,
        key: str,
        path: str | os.PathLike[str],
        part_size: int = DEFAULT_PART_SIZE,
        *,
        content_type: str | None = None,
        metadata: Mapping[str, str] | None = None,
    ) -> ObjectInfo:
        """Writes a file, which must not change meanwhile. One of more than `part_size` bytes travels in parts of that
        size, in parallel; an upload that fails is aborted. Raises OSError where it can't be read, or is a pipe."""
        file, key, part_size = Path(path), checked_key(key), index_of(part_size, "part_size")
        size = size_of_file(file)
        headers = upload_headers(content_type, metadata)
        if size <= part_size:
            return put_content(self._send, bucket, key, FilePart(file, 0, size), size, headers)
        return put_in_parts(self._send, bucket, key, file, size, part_size, headers, self.executor)

    def create(
        self,
        bucket: str,
        key: str,
        part_size: int = WRITER_PART_SIZE,
        *,
        content_type: str | None = None,
        metadata: Mapping[str, str] | None = None,
    ) -> WritableObject:
        """Opens an object for writing: a binary file without `seek`. The object is there, whole, when the file is
        closed; a `with` that is left by an exception, and a file that is never closed, leave nothing.

        Args:
            part_size: What is buffered before it travels, as a part of a multipart upload; at most four parts at once.
                A file of fewer bytes is one request.
        """
        headers = upload_headers(content_type, metadata)
        return WritableObject(self._send, lambda: self.executor, bucket, checked_key(key), part_size, headers)

    def delete(self, bucket: str, key: str) -> None:
        """Deletes an object. One that does not exist is no error, as in S3."""
        self._send(ObjectRequest("DELETE", bucket, checked_key(key)))

    def presign(self, bucket: str, key: str, *, method: str = "GET", expires: int = 3600) -> str:
        """A URL by which anybody may read an object (or write it: `method="PUT"`) for `expires` seconds, with this
        client's rights. Temporary credentials may end it before. Nothing is sent."""
        if not 1 <= index_of(expires, "expires") <= LONGEST_PRESIGNED:
            raise ValueError(f"expires is 1 to {LONGEST_PRESIGNED} seconds")
        if not (str(method).isascii() and str(method).isalpha() and str(method).isupper()):
            raise ValueError(f"a method is one such as GET, not {method!r}")
        return self._signer.presign(method, bucket, checked_key(key), expires)

    # The client itself

    @property
    def connections(self) -> int:
        """Connections at once."""
        return self._settings.connections

    def send_request(self, request: ObjectRequest, tolerated: frozenset[int] = frozenset()) -> ObjectResponse:
        """Sends a request of one's own: signed, repeated and checked as every other.

        Args:
            tolerated: Statuses whose responses are returned instead of raised as errors.
        """
        return (self._sender or self._new_sender()).send(request, tolerated)

    @property
    def stats(self) -> ClientCounts:
        """Counts of the requests that this client has sent in this process, by transport, and of fallbacks."""
        return self._stats.counts()

    def close(self) -> None:
        """Closes the idle connections. A later call opens new ones."""
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.shutdown(wait=False, cancel_futures=True)
        self._transports.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Client({str(self._settings.server)!r}, dialect={self._settings.dialect!r})"

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuilt, (type(self), self._arguments)

    def _renew(self) -> None:
        """Makes what threads share: at first, and in the child after a fork."""
        self._stats = ClientStats()
        self._batches = BatchReads(self._stats)
        self._pool = None
        self._resources = ForebayResources(self, self._stats.count_ignored, self._settings.timeout / 2)
        self._sender: RequestSender | None = None

    @property
    def executor(self) -> "ClientThreads":
        """The threads of its parallel reads, as many as it has connections."""
        if self._pool is None:
            from forebay_client.transport.client_threads import ClientThreads  # noqa: PLC0415 # it imports logging

            self._pool = ClientThreads(self._settings.connections, thread_name_prefix="forebay-client")
        return self._pool

    def _new_sender(self) -> RequestSender:
        transports = [transport for transport in self._transports.make() if transport is not None]
        self._sender = sender = RequestSender(transports, self._stats, self._settings.retries)
        return sender

    def _send(self, request: ObjectRequest) -> ObjectResponse:
        return (self._sender or self._new_sender()).send(request)


def _rebuilt(kind: type[Client], arguments: dict[str, Any]) -> Client:
    return kind(**arguments)
