"""What must be made anew in a child after a fork: a connection shared with the parent would mix up two dialogues, and
a lock that another thread holds at the fork is never released in the child.

PyTorch's DataLoader forks its workers while the parent's client is in use. On systems without fork nothing is done.
"""

import os
from collections.abc import Callable
from typing import Any
from weakref import WeakMethod

_renewals: list[WeakMethod[Callable[[], None]]] = []


def renew_after_fork(renew: Callable[[], None]) -> None:
    """Has a bound method called in each child, before anything else runs there, as long as its object lives."""
    _renewals.append(WeakMethod(renew, _forget))


def _forget(gone: Any) -> None:
    if gone in _renewals:
        _renewals.remove(gone)


def _renew_all() -> None:
    for reference in tuple(_renewals):  # a renewal may drop what is to be renewed, too
        renew = reference()
        if renew is not None:
            renew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_all)
