"""Batches: many reads in few requests if the server is a Forebay; otherwise by GETs.

    keys ──groups of GROUP──> a read channel ──────frames──> items    the next group's request is sent meanwhile
                                 │ none, declined, broken off: the missing keys
                                 └──> POST .forebay/batch ──TAR──> items
                                         ├── a server without batches ────────────────> GETs, from then on
                                         └── refused, failed, or broken off ──────────> GETs of the missing keys

An entry whose mark has an error that a repetition may avoid is read by a GET.

Servers without batches differ in their response (405, 404, 501, 400, or 200 with something else), so any response but a
TAR counts as that of such a server; the GETs then return the error, if there is one. Every such group is counted in the
client's `stats`, under `batch`.
"""

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from forebay.core.names import BATCH_KEY
from forebay.protocol.batch.tar_entries import CODE, INDEX, KEY, MESSAGE, STATUS
from forebay_client.batch.key_groups import KeyGroup, NumberedKeys, group_document, key_groups
from forebay_client.batch.local_batches import LocalBatch, LocalBatches, LocalTransport, NumberedKey
from forebay_client.batch.parallel_gets import ReadKey, parallel_gets
from forebay_client.batch.tar_stream import TarBroken, TarEntry, TarStream
from forebay_client.client_errors import ClientError, InvalidRequest, ServiceUnavailable, error_of_response
from forebay_client.client_stats import ClientStats
from forebay_client.objects import BatchItem, BatchKey
from forebay_client.transport.error_document import request_id_of
from forebay_client.transport.object_request import ObjectRequest, ObjectResponse, SendRequest
from forebay_client.transport.retry_policy import is_worth_retrying

if TYPE_CHECKING:
    from concurrent.futures import Executor, Future

TAR: Final = "application/x-tar"
_ENTRIES: Final = "x-forebay-batch-entries"
_UNKNOWN: Final = frozenset({400, 404, 405, 501})
"""Statuses of servers that know no batches."""
_OF_THE_BUCKET: Final = frozenset({"NoSuchBucket", "InvalidBucketName"})
"""Codes of a bucket that is wrong. The server may know batches all the same."""

_LEAST: Final = 2
"""Keys of a batch: one alone is a GET."""


class _Sent(NamedTuple):
    """A request that a thread sends."""

    answer: "Future[ObjectResponse | ClientError | None]"
    """The response; why there is none; or None: the server knows no batches."""
    process: int
    """The process of the thread: in a child after a fork nothing completes the answer."""

    def result(self) -> ObjectResponse | ClientError | None:
        """The answer, once it is there."""
        return self.answer.result() if self.process == os.getpid() else None


@dataclass(frozen=True, slots=True)
class BatchTransports:
    """The ways in which a client reads: `send` sends a request, `read` reads one key by GETs, in threads of
    `executor()`, `width` at once, and `local` may have a read channel."""

    send: SendRequest
    read: ReadKey
    executor: "Callable[[], Executor]"
    width: int
    local: LocalTransport | None = None


class BatchReads:
    """The batches of one client. Used by many threads at once."""

    def __init__(self, stats: ClientStats) -> None:
        self._stats = stats
        self.is_known_unsupported = False
        """Whether the server has shown that it knows no batches."""

    def items(
        self, ways: BatchTransports, bucket: str, keys: Iterable[str | BatchKey], *, ordered: bool
    ) -> Iterator[BatchItem]:
        """The outcomes of the reads, in the order of the keys or as they come. Cancels the remaining reads when it is
        closed. Raises ValueError and TypeError for a key that can't be read by anybody."""
        groups = key_groups(keys)
        frames = ways.local.batches() if ways.local is not None else None
        local = None
        if ways.local is not None and frames is not None:
            local = LocalBatches(ways.local, frames, bucket, self._stats)
        sent: LocalBatch | _Sent | None = None
        try:
            following = next(groups, None)
            if following is not None:
                sent = self._sent(ways, bucket, following.keys, local, ordered=ordered)
            while following is not None:
                group, answer = following, sent
                following, sent = next(groups, None), None
                if following is not None:
                    sent = self._sent(ways, bucket, following.keys, local, ordered=ordered)
                yield from self._items_of(ways, bucket, group, answer, ordered=ordered)
        finally:
            if local is not None:
                local.close()
            if isinstance(sent, _Sent):
                _discard(sent)

    def _sent(
        self, ways: BatchTransports, bucket: str, keys: NumberedKeys, local: LocalBatches | None, *, ordered: bool
    ) -> "LocalBatch | _Sent | None":
        """The request of a group's keys under way; None: they are read by GETs."""
        if len(keys) < _LEAST:
            return None
        document, count = group_document(keys, ordered=ordered), len(keys)
        if local is not None and (batch := local.send(document)) is not None:
            return batch
        if self.is_known_unsupported:
            return None
        headers = {"content-type": "application/json"}
        request = ObjectRequest("POST", bucket, BATCH_KEY, headers=headers, content=document, is_streamed=True)
        return _Sent(ways.executor().submit(self._answer, ways, request, count), os.getpid())

    def _answer(self, ways: BatchTransports, request: ObjectRequest, count: int) -> ObjectResponse | ClientError | None:
        """The response, its body to be read; why there is none; None: it is no TAR."""
        try:
            response = ways.send(request)
        except ClientError as error:
            if error.status in _UNKNOWN and error.code not in _OF_THE_BUCKET:
                self.is_known_unsupported = True
                self._stats.count_fallback("batch", "the server knows none")
            else:
                self._stats.count_fallback("batch", error.code or "no response")
            return error
        is_tar = response.headers.get("content-type") == TAR and response.headers.get(_ENTRIES) == str(count)
        if response.stream is not None and is_tar:
            return response
        if response.stream is not None:
            response.stream.close()
        self.is_known_unsupported = True
        self._stats.count_fallback("batch", "the server knows none")
        return None

    def _items_of(
        self, ways: BatchTransports, bucket: str, group: KeyGroup, sent: "LocalBatch | _Sent | None", *, ordered: bool
    ) -> Iterator[BatchItem]:
        left, apart = dict(enumerate(group.keys)), group.apart
        if isinstance(sent, LocalBatch):
            items = _read_again(ways.read, sent.items(left, ordered=ordered), group.keys)
            yield from items if not apart else _with_apart(ways.read, items, apart)
            rest = list(left.values())
            sent = self._sent(ways, bucket, rest, None, ordered=ordered) if rest else None
            left = dict(enumerate(rest))
        answer = sent.result() if isinstance(sent, _Sent) else None
        if isinstance(answer, ObjectResponse) and answer.stream is not None:
            items = self._items_in(ways, bucket, left, TarStream(answer.stream), request_id_of(answer), ordered=ordered)
            yield from items if not apart else _with_apart(ways.read, items, apart)
        if left:  # the batch was not to be had, or broke off
            numbers, keys = zip(*left.values(), strict=True)
            read = _until_no_response(ways.read, bucket) if _is_no_response(answer) else ways.read
            gets = parallel_gets(read, keys, ways.executor, ways.width, ordered=ordered)
            items = (BatchItem(numbers[item.index], item.key, item.data, item.error) for item in gets)
            yield from items if not apart else _with_apart(ways.read, items, apart)
        for index, key in apart.items():
            yield _item_apart(ways.read, index, key)

    def _items_in(
        self,
        ways: BatchTransports,
        bucket: str,
        left: dict[int, NumberedKey],
        tar: TarStream,
        request_id: str | None,
        *,
        ordered: bool,
    ) -> Iterator[BatchItem]:
        """The items of a TAR. Takes each out of `left`, by its position in the request."""
        position = 0
        try:
            for entry in tar:
                if not ordered:
                    position = int(entry.records.get(INDEX, "-1"))
                index, key = left[position]
                item = _item(bucket, index, key, entry, request_id)
                if item is None:
                    raise TarBroken("another entry than was asked for")
                if item.error is not None and _may_be_had(item.error):
                    item = _read_alone(ways.read, index, key)
                del left[position]
                position += 1
                yield item
            if left:
                raise TarBroken(f"{len(left)} entries are missing")
        except (TarBroken, KeyError, ValueError) as error:
            self._stats.count_fallback("batch", f"broken off: {error}")
        finally:
            tar.close()


def _item_apart(read: ReadKey, index: int, key: BatchKey) -> BatchItem:
    return BatchItem(index, key.key, memoryview(b"")) if key.start == key.end else _read_alone(read, index, key)


def _with_apart(read: ReadKey, items: Iterator[BatchItem], apart: dict[int, BatchKey]) -> Iterator[BatchItem]:
    """The items, and in front of each those of `apart` whose turn it is. Takes those out of it."""
    for item in items:
        while apart and (index := next(iter(apart))) < item.index:
            yield _item_apart(read, index, apart.pop(index))
        yield item


def _item(bucket: str, index: int, key: BatchKey, entry: TarEntry, request_id: str | None) -> BatchItem | None:
    """The item that an entry stands for; None: it is that of another key."""
    records = entry.records
    name = key.key if key.member is None else f"{key.key}/{key.member}"
    if records.get(KEY, entry.name) != name:
        return None
    if STATUS in records:
        status, code, message = int(records[STATUS]), records.get(CODE, ""), records.get(MESSAGE, "")
        error = error_of_response(status, code, message, bucket, key.key, request_id)
        return BatchItem(index, key.key, error=error)
    if key.end is not None and len(entry.data) > key.end - key.start:
        return None
    return BatchItem(index, key.key, entry.data)


def _may_be_had(error: ClientError) -> bool:
    """Whether a GET may read an entry that the server has marked: its error may be temporary, or one of batches
    only."""
    return error.status == 501 or is_worth_retrying(error.status or 0, error.code or "")


def _read_again(read: ReadKey, items: Iterator[BatchItem], keys: NumberedKeys) -> Iterator[BatchItem]:
    """Yields the items; those that a GET may read are read by one."""
    numbered = dict(keys)
    for item in items:
        if item.error is not None and _may_be_had(item.error):
            yield _read_alone(read, item.index, numbered[item.index])
        else:
            yield item


def _read_alone(read: ReadKey, index: int, key: BatchKey) -> BatchItem:
    try:
        return BatchItem(index, key.key, read(key))
    except ClientError as error:
        return BatchItem(index, key.key, error=error)
    except UnicodeEncodeError:
        problem = "the name of the member has half of a surrogate pair"
        return BatchItem(index, key.key, error=InvalidRequest(problem, key=key.key))


def _is_no_response(failure: object) -> bool:
    return isinstance(failure, ServiceUnavailable) and failure.status is None


def _until_no_response(read: ReadKey, bucket: str) -> ReadKey:
    """Reads until one read has no response, either, after all its retries: the rest of the group is not to wait, key by
    key, for a server that hangs."""
    found: list[ClientError] = []

    def read_key(key: BatchKey) -> memoryview:
        if found:
            raise ServiceUnavailable(found[0].reason, bucket=bucket, key=key.key)
        try:
            return read(key)
        except ServiceUnavailable as error:
            if _is_no_response(error):
                found.append(error)
            raise

    return read_key


def _discard(sent: _Sent) -> None:
    """Cancels a request whose answer is not read."""
    if sent.process != os.getpid() or sent.answer.cancel():
        return

    def close(done: "Future[ObjectResponse | ClientError | None]") -> None:
        with suppress(InvalidRequest):
            answer = done.result()
            if isinstance(answer, ObjectResponse) and answer.stream is not None:
                answer.stream.close()

    sent.answer.add_done_callback(close)
