"""Memory files of the memory tier that clients have descriptors of.

    an arena that is full ──> sealed and passed ──> counted here, and kept open ──> unmapped everywhere ──> closed

An arena (storage.memory.shared_blocks) shows every byte in it, so its descriptor goes only to principals that may read
all of it: those that may read everything, and those whose grants cover each object with a block there, as long as no
block was removed (`may_have`). Its memory is not free before the last client has let go of it; until then
it is kept here, and so counts against the memory tier. At most a share of the tier is passed at once: a client that
keeps descriptors takes no more from the others than that.

Only a full arena is passed: through a descriptor a client sees no block that was cached after it got the descriptor.
"""

from typing import Final

from forebay.policy.access import permit_read
from forebay.policy.grants import Principal, reads_everything
from forebay.server.shared_memory.sealed_memory import WatchedFile
from forebay.storage.memory.shared_blocks import Arena

PASSED_SHARE: Final = 2
"""One in so many bytes of the memory tier may be in files that clients have."""
MAX_FILES: Final = 1024
"""The most files: each takes a descriptor of this process."""


def may_have(reader: Principal, arena: Arena) -> bool:
    """Returns whether a principal may have the descriptor of a full arena. The bytes of a removed block are still in
    the file, and their object is not known any more."""
    if reads_everything(reader):
        return True
    names = {block.object for block in arena.blocks}
    return bool(names) and not arena.has_waste and all(permit_read(reader, name) is not None for name in names)


class PassedFile:
    """An arena that at least one client has, or had a moment ago."""

    __slots__ = ("_watched", "arena", "size")

    def __init__(self, arena: Arena) -> None:
        """Raises OSError where the arena can't be sealed."""
        self._watched = WatchedFile(arena.fd)
        self.arena, self.size = arena, arena.end

    def open_reader(self) -> int:
        """Returns a descriptor to pass on; the caller closes it. Raises OSError."""
        return self._watched.open_reader()

    def is_held(self) -> bool:
        """Returns whether a client has the file open or mapped."""
        return self._watched.is_held()

    def close(self) -> None:
        """Stops watching the file."""
        self._watched.close()


class PassedFiles:
    """The memory files of one worker that clients have."""

    def __init__(self) -> None:
        self._by_arena: dict[Arena, PassedFile] = {}
        self.size = 0
        """Bytes."""

    def __len__(self) -> int:
        """Returns the number of files."""
        return len(self._by_arena)

    def share(self, arena: Arena, limit: int) -> PassedFile | None:
        """Returns the file of an arena, to be passed to one client more; None if it can't be passed now. `limit`: bytes
        of all files that are passed."""
        passed = self._by_arena.get(arena)
        if passed is not None:
            return passed
        if not arena.is_full or self.size + arena.end > limit or len(self._by_arena) >= MAX_FILES:
            return None
        try:
            passed = PassedFile(arena)
        except OSError:
            return None
        self._by_arena[arena] = passed
        self.size += passed.size
        return passed

    def drop_released(self) -> None:
        """Closes the files that no client has."""
        for passed in [each for each in self._by_arena.values() if not each.is_held()]:
            del self._by_arena[passed.arena]
            self.size -= passed.size
            passed.close()

    def close(self) -> None:
        """Closes all files."""
        for passed in self._by_arena.values():
            passed.close()
        self._by_arena.clear()
        self.size = 0
