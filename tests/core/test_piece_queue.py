"""Piece queues: in order, in batches that grow while the thread is busy, and nothing after a failure."""

import asyncio
import threading
from collections.abc import Sequence

import pytest

from forebay.core.buffers import Buffer
from forebay.core.piece_queue import PieceQueue

PIECE = bytes(8192)


class Consumer:
    """Consumes in a thread once it is let: each batch waits for `turn`."""

    def __init__(self, *, free: bool = True) -> None:
        self.turn = threading.Event()
        self.batches: list[list[bytes]] = []
        self.failure: Exception | None = None
        if free:
            self.turn.set()

    def consume(self, pieces: Sequence[bytes | Buffer]) -> None:
        assert self.turn.wait(60)
        if self.failure is not None:
            raise self.failure
        self.batches.append([bytes(piece) for piece in pieces])


async def test_what_comes_while_the_thread_is_busy_is_one_batch() -> None:
    consumer = Consumer(free=False)
    queue = PieceQueue(consumer.consume, batch=8192, limit=1 << 20)
    for number in range(5):
        queue.put((bytes([number]) * 8192,))
    assert queue.waiting == 4 * 8192
    consumer.turn.set()
    await queue.finish()
    assert [[piece[0] for piece in batch] for batch in consumer.batches] == [[0], [1, 2, 3, 4]]


async def test_less_than_a_batch_is_consumed_at_the_end_only() -> None:
    consumer = Consumer()
    queue = PieceQueue(consumer.consume, batch=1 << 20, limit=1 << 20)
    queue.put((PIECE, b"end"))
    await queue.wait_for_room()
    assert (queue.waiting, consumer.batches) == (8195, [])
    await queue.finish()
    assert consumer.batches == [[PIECE, b"end"]]


async def test_small_pieces_are_joined() -> None:
    consumer = Consumer()
    queue = PieceQueue(consumer.consume, batch=1 << 20, limit=1 << 20)
    queue.put([b"a"] * 1000 + [PIECE] + [b"b", b"c"])
    await queue.finish()
    assert consumer.batches == [[b"a" * 1000, PIECE, b"bc"]]


async def test_a_full_queue_waits_for_the_thread() -> None:
    consumer = Consumer(free=False)
    queue = PieceQueue(consumer.consume, batch=1, limit=8192)
    queue.put((PIECE, PIECE))  # one batch, under way
    queue.put((PIECE,))
    await queue.wait_for_room()
    queue.put((b"x",))
    waiting = asyncio.ensure_future(queue.wait_for_room())  # noqa: TID251 # awaited below
    await asyncio.sleep(0)
    assert not waiting.done()
    consumer.turn.set()
    await waiting
    assert queue.waiting == 0
    await queue.finish()
    assert len(consumer.batches) == 2


async def test_nothing_is_consumed_after_a_failure() -> None:
    consumer = Consumer()
    consumer.failure = OSError("full")
    queue = PieceQueue(consumer.consume, batch=1, limit=0)
    queue.put((PIECE,))
    with pytest.raises(OSError, match="full"):
        await queue.finish()
    consumer.failure = None
    queue.put((PIECE,))
    await queue.finish()
    assert consumer.batches == []


async def test_stop_waits_for_the_thread_and_drops_the_rest() -> None:
    consumer = Consumer(free=False)
    queue = PieceQueue(consumer.consume, batch=1, limit=1 << 20)
    queue.put((b"first",))
    queue.put((b"second",))
    stopping = asyncio.ensure_future(queue.stop())  # noqa: TID251 # awaited below
    await asyncio.sleep(0)
    assert not stopping.done()
    consumer.turn.set()
    await stopping
    assert consumer.batches == [[b"first"]]
