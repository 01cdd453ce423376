"""Attachments: values that a reader of the memory tier derives from a head and keeps beside it for its next read.

The tier counts their bytes and drops them with the head that they were made from. It does not interpret them: a reader
has its own typed table, and looks up in `by_key`, a plain dict, at the cost of a `dict.get`.

A key may come to name another object, under another configuration. The later attachment then replaces the earlier one
under that key; it is dropped with either head, and made again when it is needed.
"""

from typing import Any, Final, Generic, Protocol, TypeVar

from forebay.core.heads import Head
from forebay.core.names import ObjectName
from forebay.storage.memory.memory_heads import MemoryHeads

MAX_ATTACHMENTS: Final = 8
"""Attachments of one head in one table. One more drops those before it."""


class HeadAttachment(Protocol):
    """A value that can be attached to a head."""

    @property
    def cost(self) -> int:
        """Bytes that count against the tier, without the key."""
        ...


class HeadOwner(Protocol):
    """The part of the memory tier that a table uses."""

    attachments: "list[HeadAttachments[Any]]"

    @property
    def heads(self) -> MemoryHeads:
        """The heads that count against the tier."""
        ...

    def count_attached(self, name: ObjectName, size: int) -> None:
        """Counts `size` bytes more (or fewer) for the attachments of a head, and evicts heads beyond the bound."""
        ...


A = TypeVar("A", bound=HeadAttachment)


class HeadAttachments(Generic[A]):
    """One reader's attachments to the heads of `owner`."""

    def __init__(self, owner: HeadOwner) -> None:
        self._owner = owner
        self.by_key: dict[bytes, A] = {}
        """The attachments. Read-only for others."""
        self._costs: dict[ObjectName, dict[bytes, int]] = {}
        """The keys of each head's attachments, and the bytes that were counted for them."""
        owner.attachments.append(self)

    def attach(self, name: ObjectName, head: Head, key: bytes, attachment: A) -> None:
        """Keeps an attachment made from `head` until that head is replaced, forgotten or evicted.

        Nothing is kept if `head` is not the one that the tier keeps. Memory for it may evict others, the head included.
        """
        if self._owner.heads.peek(name) is not head:
            return
        costs = self._costs.setdefault(name, {})
        if key not in costs and len(costs) >= MAX_ATTACHMENTS:
            self.drop(name)
            costs = self._costs.setdefault(name, {})
        cost = len(key) + attachment.cost
        more = cost - costs.get(key, 0)
        costs[key] = cost
        self.by_key[key] = attachment
        self._owner.count_attached(name, more)

    def drop(self, name: ObjectName) -> None:
        """Drops all attachments of an object's head."""
        costs = self._costs.pop(name, None)
        if costs is None:
            return
        for key in costs:
            self.by_key.pop(key, None)
        self._owner.count_attached(name, -sum(costs.values()))
