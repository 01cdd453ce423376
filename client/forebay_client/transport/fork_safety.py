"""State that must be made anew in a child after a fork: a connection shared with the parent would mix up two dialogues,
and a lock that another thread holds at the fork is never released in the child.

PyTorch's DataLoader forks its workers while the parent's client is in use. On systems without fork nothing is done.
"""

import os
from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

_renewals: WeakKeyDictionary[Any, set[str]] = WeakKeyDictionary()
"""The names of the methods to be called, by their objects. No WeakMethods: those complain when the interpreter ends."""


def renew_after_fork(renew: Callable[[], None]) -> None:
    """Has a bound method called in each child, before anything else runs there, as long as its object lives."""
    owner = getattr(renew, "__self__", None)
    if owner is None:
        raise TypeError("what is renewed is a bound method")
    _renewals.setdefault(owner, set()).add(renew.__name__)


def _renew_all() -> None:
    for owner, names in list(_renewals.items()):  # a renewal may drop what is to be renewed, too
        for name in names:
            getattr(owner, name)()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_all)
