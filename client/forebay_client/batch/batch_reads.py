"""Batches: many reads as few requests, where the server is a Forebay; else as GETs.

    keys ──groups of GROUP──> a read channel ──────frames──> items    the next group's request is sent meanwhile
                                 │ none, declined, broken off: what is missing
                                 └──> POST .forebay/batch ──TAR──> items
                                         ├── a server that knows no batches ──────────> GETs, from then on
                                         └── refused, failed, or broken off ──────────> GETs of what is missing

An entry that is marked with what a repetition may help is read by a GET.

What a server answers that knows no batches differs (405, 404, 501, 400, or 200 with something else), so anything but a
TAR is taken for that: the GETs then say what is wrong, if anything is. Every such group is counted in the client's
`stats`, under `batch`.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from forebay.core.names import BATCH_KEY
from forebay.protocol.batch.batch_request import BatchEntry, BatchRequest, batch_document
from forebay.protocol.batch.tar_entries import CODE, INDEX, KEY, MESSAGE, STATUS
from forebay_client.batch.local_batches import LocalBatches, LocalTransport, NumberedKey
from forebay_client.batch.parallel_gets import ReadKey, parallel_gets
from forebay_client.batch.tar_stream import TarBroken, TarEntry, TarStream
from forebay_client.client_errors import ClientError, InvalidRequest, error_of_response
from forebay_client.client_stats import ClientStats
from forebay_client.objects import BatchItem, BatchKey
from forebay_client.transport.object_request import ObjectRequest, ObjectResponse, SendRequest
from forebay_client.transport.retry_policy import is_worth_retrying

GROUP: Final = 512
"""Keys of one request: enough that a round trip is nothing to them, few enough that a failure repeats little."""
TAR: Final = "application/x-tar"
_ENTRIES: Final = "x-forebay-batch-entries"
_UNKNOWN: Final = frozenset({400, 404, 405, 501})
"""Statuses of servers that know no batches."""

_GROUP_TEXT: Final = 48 << 10
"""Characters of the keys of one request, so that a read channel carries it."""
_EXTRA_TEXT: Final = 8
"""Characters in a document beside each key."""

_Keys = Sequence[NumberedKey]
_Sent = Future["ObjectResponse | None"]


@dataclass(frozen=True, slots=True)
class BatchWays:
    """How a client reads: `send` a request, `read` one key by GETs, in threads of `executor()`, `width` at once, and
    `local`, where there may be a read channel."""

    send: SendRequest
    read: ReadKey
    executor: Callable[[], Executor]
    width: int
    local: LocalTransport | None = None


class BatchReads:
    """The batches of one client. Used by many threads at once."""

    def __init__(self, stats: ClientStats) -> None:
        self._stats = stats
        self.is_known_unsupported = False
        """Whether the server has shown that it knows no batches."""

    def items(
        self, ways: BatchWays, bucket: str, keys: Iterable[str | BatchKey], *, ordered: bool
    ) -> Iterator[BatchItem]:
        """The outcomes of the reads, in the order of the keys or as they come. Drops what was begun when it is closed.
        Raises ValueError for a key that can't be read by anybody."""
        groups = _groups(keys)
        frames = ways.local.batches() if ways.local is not None else None
        local = None
        if ways.local is not None and frames is not None:
            local = LocalBatches(ways.local, frames, bucket, self._stats)
        following = next(groups, None)
        sent = self._sent(ways, bucket, following, local, ordered=ordered)
        try:
            while following is not None:
                group, answer = following, sent
                following, sent = next(groups, None), None
                sent = self._sent(ways, bucket, following, local, ordered=ordered)
                yield from self._items_of(ways, bucket, group, answer, ordered=ordered)
        finally:
            if local is not None:
                local.close()
            if isinstance(sent, Future):
                _discard(sent)

    def _sent(
        self, ways: BatchWays, bucket: str, group: "_Keys | None", local: LocalBatches | None, *, ordered: bool
    ) -> "LocalBatches | _Sent | None":
        """The request of a group under way; None: it is read by GETs."""
        if group is None or len(group) == 1:
            return None
        document, count = _document_of(group, ordered=ordered)
        if not count:
            return None
        if local is not None and local.send(document):
            return local
        if self.is_known_unsupported:
            return None
        headers = {"content-type": "application/json"}
        request = ObjectRequest("POST", bucket, BATCH_KEY, headers=headers, content=document, is_streamed=True)
        return ways.executor().submit(self._answer, ways, request, count)

    def _answer(self, ways: BatchWays, request: ObjectRequest, count: int) -> ObjectResponse | None:
        """The response, its body to be read; None: it is no TAR."""
        try:
            response = ways.send(request)
        except ClientError as error:
            if error.status in _UNKNOWN:
                self.is_known_unsupported = True
                self._stats.count_fallback("batch", "the server knows none")
            else:
                self._stats.count_fallback("batch", error.code or "no response")
            return None
        is_tar = response.headers.get("content-type") == TAR and response.headers.get(_ENTRIES) == str(count)
        if response.stream is not None and is_tar:
            return response
        if response.stream is not None:
            response.stream.close()
        self.is_known_unsupported = True
        self._stats.count_fallback("batch", "the server knows none")
        return None

    def _items_of(
        self, ways: BatchWays, bucket: str, group: "_Keys", sent: "LocalBatches | _Sent | None", *, ordered: bool
    ) -> Iterator[BatchItem]:
        left = dict(enumerate([each for each in group if not _is_empty(each[1])]))
        empty = {index: key for index, key in group if _is_empty(key)} if len(left) < len(group) else {}
        if isinstance(sent, LocalBatches):
            items = _read_again(ways.read, sent.items(left, ordered=ordered), group)
            yield from items if not empty else _with_empty(items, empty)
            rest = list(left.values())
            sent = self._sent(ways, bucket, rest, None, ordered=ordered) if rest else None
            left = dict(enumerate(rest))
        answer = sent.result() if isinstance(sent, Future) else None
        if answer is not None and answer.stream is not None:
            items = self._items_in(ways, bucket, left, TarStream(answer.stream), ordered=ordered)
            yield from items if not empty else _with_empty(items, empty)
        if left:  # the batch was not to be had, or broke off
            numbers, keys = zip(*sorted([*left.values(), *empty.items()]), strict=True)
            for item in parallel_gets(ways.read, keys, ways.executor(), ways.width, ordered=ordered):
                yield BatchItem(numbers[item.index], item.key, item.data, item.error)
        elif empty:
            for index, key in empty.items():
                yield _empty_item(index, key)

    def _items_in(
        self, ways: BatchWays, bucket: str, left: dict[int, NumberedKey], tar: TarStream, *, ordered: bool
    ) -> Iterator[BatchItem]:
        """The items of a TAR. Takes each out of `left`, by its position in the request."""
        position = 0
        try:
            for entry in tar:
                if not ordered:
                    position = int(entry.records.get(INDEX, "-1"))
                index, key = left[position]
                item = _item(bucket, index, key, entry)
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


def _groups(keys: Iterable[str | BatchKey]) -> Iterator[list[NumberedKey]]:
    """The keys in groups of one request each. Raises ValueError for a key that can't be read by anybody."""
    group: list[NumberedKey] = []
    size = 0
    for index, listed in enumerate(keys):
        key = BatchKey(listed) if isinstance(listed, str) else _checked(listed)
        group.append((index, key))
        size += len(key.key) + _EXTRA_TEXT
        if len(group) == GROUP or size >= _GROUP_TEXT:
            yield group
            group, size = [], 0
    if group:
        yield group


def _document_of(group: _Keys, *, ordered: bool) -> tuple[bytes, int]:
    """The request of a group, and how many entries it has."""
    entries = tuple([BatchEntry(*key) for _, key in group if not _is_empty(key)])
    return batch_document(BatchRequest(entries, as_they_come=not ordered)), len(entries)


def _checked(checked: BatchKey) -> BatchKey:
    if checked.start < 0 or (checked.end is not None and checked.end < checked.start):
        raise ValueError(f"no range: {checked.start}-{checked.end}")
    return checked


def _is_empty(key: BatchKey) -> bool:
    """Whether no byte is wanted: nothing is requested."""
    return key.start == key.end


def _empty_item(index: int, key: BatchKey) -> BatchItem:
    return BatchItem(index, key.key, memoryview(b""))


def _with_empty(items: Iterator[BatchItem], empty: dict[int, BatchKey]) -> Iterator[BatchItem]:
    """The items, and in front of each the empty ones whose turn it is. Takes those out of `empty`."""
    for item in items:
        while empty and (index := next(iter(empty))) < item.index:
            yield _empty_item(index, empty.pop(index))
        yield item


def _item(bucket: str, index: int, key: BatchKey, entry: TarEntry) -> BatchItem | None:
    """The item that an entry stands for; None: it is that of another key."""
    records = entry.records
    name = key.key if key.member is None else f"{key.key}/{key.member}"
    if records.get(KEY, entry.name) != name:
        return None
    if STATUS in records:
        status, code, message = int(records[STATUS]), records.get(CODE, ""), records.get(MESSAGE, "")
        return BatchItem(index, key.key, error=error_of_response(status, code, message, bucket, key.key, None))
    if key.end is not None and len(entry.data) > key.end - key.start:
        return None
    return BatchItem(index, key.key, entry.data)


def _may_be_had(error: ClientError) -> bool:
    """Whether a GET can read what the server has marked: the mark is of its moment, or of what a batch can't do."""
    return error.status == 501 or is_worth_retrying(error.status or 0, error.code or "")


def _read_again(read: ReadKey, items: Iterator[BatchItem], group: _Keys) -> Iterator[BatchItem]:
    """The items, with those that a GET may read read by one."""
    first = group[0][0]
    for item in items:
        if item.error is not None and _may_be_had(item.error):
            yield _read_alone(read, item.index, group[item.index - first][1])
        else:
            yield item


def _read_alone(read: ReadKey, index: int, key: BatchKey) -> BatchItem:
    try:
        return BatchItem(index, key.key, read(key))
    except ClientError as error:
        return BatchItem(index, key.key, error=error)


def _discard(sent: _Sent) -> None:
    """Gives up a request whose answer nobody reads."""
    if sent.cancel():
        return

    def close(done: "_Sent") -> None:
        with suppress(InvalidRequest):
            answer = done.result()
            if answer is not None and answer.stream is not None:
                answer.stream.close()

    sent.add_done_callback(close)
