"""The judge of an origin's history: what it lets pass, and what not."""

import pytest

from harness.origin_history import AcknowledgedWrite, Effect, check_history

A, B, C = ("a", b"1"), ("b", b"2"), ("a", b"3")
WRITES = [AcknowledgedWrite(A, 0.0, 1.0), AcknowledgedWrite(B, 0.5, 3.0), AcknowledgedWrite(C, 2.0, 4.0)]


@pytest.mark.parametrize("history", [[A, B, C], [B, A, C], [A, C, B], [A, A, B, C, C], [B, A, C, B]])
def test_any_order_of_what_overlaps_will_do(history: list[Effect]) -> None:
    check_history(WRITES, history)


@pytest.mark.parametrize(
    ("history", "complaint"),
    [
        ([A, B], "lost"),
        ([A, B, C, ("d", None)], "nobody has sent"),
        ([B, C, A], "overtook"),
        ([A, B, C, A], "came again"),
    ],
)
def test_what_is_lost_or_foreign_or_late_is_noticed(history: list[Effect], complaint: str) -> None:
    with pytest.raises(AssertionError, match=complaint):
        check_history(WRITES, history)


def test_what_nobody_was_acknowledged_may_be_there_or_not() -> None:
    for history in ([A, B, C], [A, ("d", None), B, C]):
        check_history(WRITES, history, [("d", None)])


def test_one_of_two_writes_at_the_same_time_is_replaced_at_once() -> None:
    beside = AcknowledgedWrite(("a", b"4"), 3.5, 5.0)
    check_history([*WRITES, beside], [A, B, beside.effect])
    after = AcknowledgedWrite(("a", b"5"), 4.5, 6.0)
    with pytest.raises(AssertionError, match="lost"):
        check_history([*WRITES, after], [A, B, after.effect])
