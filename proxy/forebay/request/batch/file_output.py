"""An output of batches that takes entries where they lie: in files of the memory tier, which the client
maps or the kernel sends from."""

from abc import ABC, abstractmethod

from forebay.policy.access import Principal
from forebay.protocol.batch.batch_request import BatchEntry
from forebay.request.batch.cached_entries import EntryInFiles


class FileOutput(ABC):
    """What a BatchOutput is beside, if it does. By inheritance: asking a Protocol at each batch takes 100 us."""

    __slots__ = ()

    @property
    @abstractmethod
    def least_in_file(self) -> int | None:
        """Bytes from which on an entry of one block is better taken from a file than from memory; those of several
        blocks always are. None: this one takes no files."""

    @abstractmethod
    def put_in_files(self, index: int, entry: BatchEntry, found: EntryInFiles, reader: Principal) -> bool:
        """Appends a whole entry. False: nothing was done, as `reader` may not have one of the files, or it can't be
        passed now."""
