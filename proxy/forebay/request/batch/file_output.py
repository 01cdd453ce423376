"""An output of batches that takes entries where they lie: in files of the memory tier, which the client
maps or the kernel sends from."""

from abc import ABC, abstractmethod

from forebay.policy.grants import Principal
from forebay.protocol.batch.batch_request import BatchEntry
from forebay.request.batch.cached_entries import EntryInFiles


class FileOutput(ABC):
    """The interface of a BatchOutput that takes files, besides its own. By inheritance: asking a Protocol at each batch
    takes 100 us."""

    __slots__ = ()

    @property
    @abstractmethod
    def least_in_file(self) -> int | None:
        """The size from which on an entry of one block is better passed as a file than from memory; one of several
        blocks always is. None: this output takes no files."""

    @abstractmethod
    def put_in_files(self, index: int, entry: BatchEntry, found: EntryInFiles, reader: Principal) -> bool:
        """Appends a whole entry. False: nothing was done, as `reader` may not have one of the files, or it can't be
        passed now."""
