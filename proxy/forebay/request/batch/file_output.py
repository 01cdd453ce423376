"""An output of batches that takes entries where they lie: in files of the memory tier, which the client maps."""

from abc import ABC, abstractmethod
from collections.abc import Sequence

from forebay.policy.access import Principal
from forebay.storage.memory.shared_blocks import SharedExtent


class FileOutput(ABC):
    """What a BatchOutput is beside, if it does. By inheritance: asking a Protocol at each batch takes 100 us."""

    __slots__ = ()

    @abstractmethod
    def put_in_files(self, index: int, reader: Principal, extents: Sequence[SharedExtent], size: int) -> bool:
        """Appends a whole entry of `size` bytes. False: nothing was done, as `reader` may not have one of the files, or
        it can't be passed now."""
