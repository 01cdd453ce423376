"""A batch as parallel GETs: what any server of S3 can do.

    keys ──> at most `width` reads at once, and as many outcomes waiting ──> items in order, or as they come

The keys may come from a generator: they are drawn as the items are.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait

from forebay_client.client_errors import ClientError
from forebay_client.objects import BatchItem, BatchKey

ReadKey = Callable[[BatchKey], memoryview]


def as_batch_key(key: str | BatchKey) -> BatchKey:
    """The read that a key means."""
    return key if isinstance(key, BatchKey) else BatchKey(key)


def parallel_gets(
    read: ReadKey, keys: Iterable[str | BatchKey], executor: Executor, width: int, *, ordered: bool
) -> Iterator[BatchItem]:
    """The outcomes of the reads. An iterator that is dropped before its end cancels what has not begun."""
    numbered = enumerate(map(as_batch_key, keys))
    pending: deque[Future[BatchItem]] = deque()

    def read_item(index: int, key: BatchKey) -> BatchItem:
        try:
            return BatchItem(index, key.key, read(key))
        except ClientError as error:
            return BatchItem(index, key.key, error=error)

    def refill() -> None:
        while len(pending) < 2 * width:
            following = next(numbered, None)
            if following is None:
                return
            pending.append(executor.submit(read_item, *following))

    try:
        refill()
        while pending:
            if ordered:
                item = pending.popleft().result()
            else:
                done = next(iter(wait(pending, return_when=FIRST_COMPLETED).done))
                pending.remove(done)
                item = done.result()
            refill()
            yield item
    finally:
        for future in pending:
            future.cancel()
