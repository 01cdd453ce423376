"""The loop's thread has a short slice, its helpers have not, and nothing else of either is changed."""

import os
import re
import threading
from collections.abc import Callable
from typing import TypeVar

import pytest

from forebay.server.scheduling_slice import SLICE, shorten_slice, slice_of_thread

T = TypeVar("T")
_KERNEL = tuple(map(int, re.findall(r"\d+", os.uname().release)[:2]))


def _in_a_thread(work: Callable[[], T]) -> T:
    found = list[T]()
    thread = threading.Thread(target=lambda: found.append(work()))
    thread.start()
    thread.join()
    return found[0]


@pytest.fixture(autouse=True)
def _accepted() -> None:
    if _KERNEL < (6, 12) or not _in_a_thread(shorten_slice):
        pytest.skip(f"Linux {os.uname().release} gives no thread a slice of its own here")


def test_the_thread_that_asks_has_a_short_slice() -> None:
    def work() -> tuple[int | None, bool, int | None]:
        return slice_of_thread(), shorten_slice(), slice_of_thread()

    usual = slice_of_thread()
    assert usual != SLICE
    assert _in_a_thread(work) == (usual, True, SLICE)
    assert slice_of_thread() == usual


def test_its_helpers_have_the_usual_slice() -> None:
    def work() -> int | None:
        shorten_slice()
        return _in_a_thread(slice_of_thread)

    assert _in_a_thread(work) == slice_of_thread()


def test_the_nice_value_is_kept() -> None:
    def work() -> int:
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 5)
        shorten_slice()
        return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())

    assert _in_a_thread(work) == 5


def test_a_policy_that_an_operator_has_chosen_is_left_alone() -> None:
    def work() -> tuple[bool, int]:
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
        return shorten_slice(), os.sched_getscheduler(0)

    assert _in_a_thread(work) == (False, os.SCHED_BATCH)
