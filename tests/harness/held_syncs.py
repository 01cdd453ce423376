"""A disk of the journal whose syncs wait until they are released: records are written and not durable for as long.

files = HeldSyncs()
rig.journal_files = files
files.hold()
...                     # a request that appends a record is under way
files.release()
"""

from threading import Event

from forebay.storage.journal.journal_files import JournalFiles


class HeldSyncs(JournalFiles):
    """See the module."""

    def __init__(self) -> None:
        super().__init__()
        self._released = Event()
        self._released.set()
        self.held = 0
        """Syncs that wait, or have waited."""

    def hold(self) -> None:
        self._released.clear()

    def release(self) -> None:
        self._released.set()

    def sync(self, fd: int) -> None:
        if not self._released.is_set():
            self.held += 1
            self._released.wait()
        super().sync(fd)
