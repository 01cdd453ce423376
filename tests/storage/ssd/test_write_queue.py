from forebay.core.names import ObjectName
from forebay.storage.ssd.write_queue import (
    MAX_HEADS,
    ORDER_OVERHEAD,
    AdmitBlock,
    Backlog,
    Flush,
    Forget,
    Purge,
    PutHead,
)
from harness.ssd_rig import head_for

A, B = b"a" * 16, b"b" * 16


def admission(address: bytes = A, size: int = 100) -> AdmitBlock:
    return AdmitBlock(address + bytes(12), memoryview(bytes(size)))


def test_orders_come_out_as_they_went_in() -> None:
    backlog = Backlog(10_000, 1_000)
    settled: list[int] = []
    name, head = head_for("a")
    admit, put = admission(), PutHead(name, A, head)
    assert backlog.offer(admit)
    assert backlog.offer(put)
    forget = Forget(ObjectName("bucket", "a"), A, None, settled.append)
    assert backlog.demand(forget)
    taken = backlog.take(60, 60)
    assert taken == [admit, put, forget]
    assert settled == []
    backlog.settled(taken, {forget: 7})
    assert settled == [7]


def test_it_is_urgent_while_somebody_waits_for_a_removal() -> None:
    backlog = Backlog(10_000, 1_000)
    backlog.offer(admission())
    seen = [backlog.urgent]
    backlog.demand(Purge("bucket", "", print))
    seen.append(backlog.urgent)
    backlog.take(60, 60)
    assert [*seen, backlog.urgent] == [False, True, False]


def test_a_flush_is_not_urgent_and_yet_not_kept_waiting() -> None:
    """Who waits for it waits for the admissions before it: they must not be given up for it."""
    backlog = Backlog(10_000, 1_000)
    admit = admission()
    backlog.offer(admit)
    flush = Flush(print)
    backlog.demand(flush)
    assert not backlog.urgent
    assert backlog.take(3600, 3600) == [admit, flush]


def test_it_is_bounded_until_what_was_taken_is_settled() -> None:
    size = 100 + ORDER_OVERHEAD
    backlog = Backlog(2 * size, 1)
    assert backlog.offer(admission())
    assert backlog.offer(admission())
    assert not backlog.offer(admission())
    taken = backlog.take(60, 60)
    assert taken is not None
    assert not backlog.offer(admission())
    backlog.settled(taken, {})
    assert backlog.offer(admission())


def test_heads_have_a_bound_of_their_own() -> None:
    backlog = Backlog(1, 1)
    name, head = head_for("a")
    assert all(backlog.offer(PutHead(name, A, head)) for _ in range(MAX_HEADS))
    assert not backlog.offer(PutHead(name, A, head))


def test_an_object_is_pending_until_its_last_order_is_settled() -> None:
    backlog = Backlog(10_000, 1)
    backlog.offer(admission(A))
    first = backlog.take(60, 60)
    assert first is not None
    backlog.offer(admission(A))
    assert backlog.pending(A)
    assert not backlog.pending(B)
    backlog.settled(first, {})
    assert backlog.pending(A)
    second = backlog.take(60, 60)
    assert second is not None
    backlog.settled(second, {})
    assert not backlog.pending(A)


def test_it_ends_when_it_is_closed_and_empty() -> None:
    backlog = Backlog(10_000, 1)
    backlog.offer(admission())
    backlog.close()
    assert not backlog.offer(admission())
    assert not backlog.demand(Flush(print))
    assert backlog.take(60, 60) != []
    assert backlog.take(60, 60) is None


def test_an_idle_one_returns_empty_handed() -> None:
    assert Backlog(10, 1).take(0, 0) == []
