from forebay.core.heads import NamedHead
from forebay.core.names import ObjectName
from forebay.storage.ssd.write_queue import (
    MAX_HEADS,
    ORDER_OVERHEAD,
    AdmitBlock,
    FlushQueue,
    ForgetObject,
    PurgePrefix,
    PutHead,
    WriteQueue,
)
from harness.ssd_rig import head_for

A, B = b"a" * 16, b"b" * 16


def admission(address: bytes = A, size: int = 100) -> AdmitBlock:
    return AdmitBlock(address + bytes(12), memoryview(bytes(size)))


def test_orders_are_returned_in_order_of_arrival() -> None:
    backlog = WriteQueue(10_000, 1_000)
    settled: list[int] = []
    name, head = head_for("a")
    admit, put = admission(), PutHead(name, A, head)
    assert backlog.offer(admit)
    assert backlog.offer(put)
    forget = ForgetObject(ObjectName("bucket", "a"), A, None, settled.append)
    assert backlog.submit(forget)
    batch = backlog.get_batch(60, 60)
    assert batch == [admit, put, forget]
    assert settled == []
    backlog.settle(batch, {forget: 7})
    assert settled == [7]


def test_an_awaited_removal_makes_the_queue_urgent() -> None:
    backlog = WriteQueue(10_000, 1_000)
    backlog.offer(admission())
    seen = [backlog.is_urgent]
    backlog.submit(PurgePrefix("bucket", "", print))
    seen.append(backlog.is_urgent)
    backlog.get_batch(60, 60)
    assert [*seen, backlog.is_urgent] == [False, True, False]


def test_a_flush_is_carried_out_at_once_and_not_urgent() -> None:
    """A flush waits for the admissions before it: they must not be given up for it."""
    backlog = WriteQueue(10_000, 1_000)
    admit = admission()
    backlog.offer(admit)
    flush = FlushQueue(print)
    backlog.submit(flush)
    assert not backlog.is_urgent
    assert backlog.get_batch(3600, 3600) == [admit, flush]


def test_the_queue_is_full_until_its_orders_are_settled() -> None:
    size = 100 + ORDER_OVERHEAD
    backlog = WriteQueue(2 * size, 1)
    assert backlog.offer(admission())
    assert backlog.offer(admission())
    assert not backlog.offer(admission())
    batch = backlog.get_batch(60, 60)
    assert batch is not None
    assert not backlog.offer(admission())
    backlog.settle(batch, {})
    assert backlog.offer(admission())


def test_queued_heads_have_a_bound_of_their_own() -> None:
    backlog = WriteQueue(1, 1)
    name, head = head_for("a")
    assert all(backlog.offer(PutHead(name, A, head)) for _ in range(MAX_HEADS))
    assert not backlog.offer(PutHead(name, A, head))


def test_an_object_is_pending_until_its_last_order_is_settled() -> None:
    backlog = WriteQueue(10_000, 1)
    backlog.offer(admission(A))
    first = backlog.get_batch(60, 60)
    assert first is not None
    backlog.offer(admission(A))
    assert backlog.has_pending(A)
    assert not backlog.has_pending(B)
    backlog.settle(first, {})
    assert backlog.has_pending(A)
    second = backlog.get_batch(60, 60)
    assert second is not None
    backlog.settle(second, {})
    assert not backlog.has_pending(A)


def test_the_queue_ends_when_it_is_closed_and_empty() -> None:
    backlog = WriteQueue(10_000, 1)
    backlog.offer(admission())
    backlog.close()
    assert not backlog.offer(admission())
    assert not backlog.submit(FlushQueue(print))
    assert backlog.get_batch(60, 60) != []
    assert backlog.get_batch(60, 60) is None


def test_an_idle_queue_returns_an_empty_batch() -> None:
    assert WriteQueue(10, 1).get_batch(0, 0) == []


def test_an_admission_with_a_head_counts_within_both_bounds() -> None:
    backlog = WriteQueue(1 << 30, 1 << 30)
    name, head = head_for("a")
    admit = admission()._replace(head=NamedHead(name, head))
    assert all(backlog.offer(PutHead(name, A, head)) for _ in range(MAX_HEADS - 1))
    assert backlog.offer(admit)
    assert not backlog.offer(admit)
    assert backlog.offer(admission())
    batch = backlog.get_batch(0, 0)
    assert batch is not None
    backlog.settle(batch, {})
    assert not backlog.has_pending(A)
    assert all(backlog.offer(admit) for _ in range(MAX_HEADS))
    small = WriteQueue(ORDER_OVERHEAD, 1)
    assert not small.offer(admit)
    assert small.offer(PutHead(name, A, head))
