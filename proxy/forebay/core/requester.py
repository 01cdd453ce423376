"""The requester: the principal that the current task works for. Turns at the origin are shared fairly by it.

The gateway sets it for each request that reaches the full lane. A task inherits it from the one that spawned it: a
fetch counts for the reader that began it. It affects the order of turns only, never a credential or a grant.
"""

from contextvars import ContextVar
from typing import Final

requester: Final[ContextVar[str]] = ContextVar("requester", default="")
"""A principal's id. Empty: Forebay itself, which fetches for other workers. BACKGROUND: no client waits yet."""

BACKGROUND: Final = "\0background"
"""The requester of background reads. No principal's id has a NUL."""
