"""Lists of keys that were sent for jobs to come: each is used by one job, and the oldest are dropped.

The admin port reads a list (server.admin.key_list) and adds its entries here, some at a time.
"""

import secrets
from collections.abc import Iterable
from typing import Final

from forebay.core.errors import OrderRefused
from forebay.jobs.state.inventory import Inventory, InventoryEntry

MAX_WAITING: Final = 16
"""Lists that no job has used yet. One more drops the oldest: its job is refused, and its client sends it again."""


class KeyLists:
    """The lists that no job has used yet."""

    def __init__(self) -> None:
        self._waiting: dict[str, Inventory] = {}

    def extend(self, list_id: str, entries: Iterable[InventoryEntry]) -> tuple[str, int] | None:
        """Adds entries to a list, a new one if `list_id` is empty. Returns its id and its length; None: it is
        unknown, or was dropped."""
        if not list_id:
            list_id = secrets.token_hex(8)
            self._waiting[list_id] = Inventory()
            if len(self._waiting) > MAX_WAITING:
                del self._waiting[next(iter(self._waiting))]
        inventory = self._waiting.get(list_id)
        if inventory is None:
            return None
        for entry in entries:
            inventory.add(entry)
        return list_id, len(inventory)

    def pop(self, list_ids: Iterable[str]) -> list[Inventory]:
        """Returns these lists, which are not waiting any more. Raises OrderRefused if one is unknown, or was dropped:
        the others wait on then."""
        unique = dict.fromkeys(list_ids)
        for list_id in unique:
            if list_id not in self._waiting:
                problem = f"There is no list {list_id} (any more): each is used by one job. Send it again."
                raise OrderRefused("no_such_list", problem)
        return [self._waiting.pop(list_id) for list_id in unique]
