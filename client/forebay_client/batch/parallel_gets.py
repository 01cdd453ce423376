"""A batch as parallel GETs, which any server of S3 can answer.

    keys ──> at most `width` reads at once, and as many outcomes waiting ──> items in order, or as they come

The keys may come from a generator: they are drawn as the items are.
"""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from forebay_client.client_errors import ClientError
from forebay_client.objects import BatchItem, BatchKey

if TYPE_CHECKING:
    from concurrent.futures import Executor, Future

ReadKey = Callable[[BatchKey], memoryview]


class _Read(NamedTuple):
    """A read that was begun."""

    item: "Future[BatchItem]"
    position: int
    key: BatchKey


def as_batch_key(key: str | BatchKey) -> BatchKey:
    """The read that a key means."""
    return key if isinstance(key, BatchKey) else BatchKey(key)


def parallel_gets(
    read: ReadKey, keys: Iterable[str | BatchKey], executor: "Callable[[], Executor]", width: int, *, ordered: bool
) -> Iterator[BatchItem]:
    """The outcomes of the reads. An iterator that is dropped before its end cancels the reads that have not begun.
    `executor`: of this process."""
    from concurrent.futures import FIRST_COMPLETED, wait  # noqa: PLC0415 # it imports logging

    numbered = enumerate(map(as_batch_key, keys))
    pending: deque[_Read] = deque()
    process = os.getpid()

    def read_item(index: int, key: BatchKey) -> BatchItem:
        try:
            return BatchItem(index, key.key, read(key))
        except ClientError as error:
            return BatchItem(index, key.key, error=error)

    def begin(index: int, key: BatchKey) -> None:
        pending.append(_Read(executor().submit(read_item, index, key), index, key))

    def refill() -> None:
        while len(pending) < 2 * width:
            following = next(numbered, None)
            if following is None:
                return
            begin(*following)

    try:
        refill()
        while pending:
            if process != os.getpid():  # the parent's threads complete nothing here
                process, lost = os.getpid(), list(pending)
                pending.clear()
                for each in lost:
                    begin(each.position, each.key)
            if ordered:
                item = pending.popleft().item.result()
            else:
                done = next(iter(wait([each.item for each in pending], return_when=FIRST_COMPLETED).done))
                pending.remove(next(each for each in pending if each.item is done))
                item = done.result()
            refill()
            yield item
    finally:
        if process == os.getpid():
            for each in pending:
                each.item.cancel()
