"""The spool: all bodies that are kept for a while to finish a client's request.

Small parts are spooled until their upload is completed, bodies of unknown length until their end, the starts of others
until their turn at the origin. The spool is no tier: nothing is evicted, nothing survives the process.

    Spool ──creates──> SpooledBody ──reserves──> SpoolSpace        bytes, in memory and in all
                           └──────────spills───> SpoolDirectory    files, private to this process
"""

from pathlib import Path

from forebay.core.fair_semaphore import FairSemaphore
from forebay.storage.spool_directory import SpoolDirectory
from forebay.storage.spool_space import SpoolSpace
from forebay.storage.spooled_body import SpooledBody


class Spool:
    """All spooled bodies. `limit`: bytes, in memory and files together. `share`: of them in memory. `wait`: seconds to
    wait for memory. `parent`: see SpoolDirectory."""

    def __init__(
        self, limit: int, budget: FairSemaphore, *, share: int, wait: float, parent: Path | None = None
    ) -> None:
        self._space = SpoolSpace(limit, budget, share=share, wait=wait)
        self._directory = SpoolDirectory(parent)
        self._bodies: set[SpooledBody] = set()

    def __len__(self) -> int:
        """Returns the number of bodies that are not released."""
        return len(self._bodies)

    @property
    def limit(self) -> int:
        """Bytes, in memory and files together."""
        return self._space.limit

    @property
    def in_use(self) -> int:
        """Bytes that were reserved and not yet released."""
        return self._space.in_use

    @property
    def in_memory(self) -> int:
        """The spooled bytes that are in memory."""
        return self._space.in_memory

    def has_space(self, size: int) -> bool:
        """Returns whether `size` bytes more are within the limit."""
        return self._space.has(size)

    def create(self) -> SpooledBody:
        """Returns a new body, empty."""
        body = SpooledBody(self._space, self._directory, self._bodies.discard)
        self._bodies.add(body)
        return body

    def remove_abandoned(self) -> None:
        """Removes the files of killed processes, also if no body is spooled for long. In a thread."""
        self._directory.remove_abandoned()

    def close(self) -> None:
        """Releases all bodies and removes the directory."""
        for body in list(self._bodies):
            body.release()
        self._directory.remove()
