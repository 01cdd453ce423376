"""One object of a data set, read whole: the argument of a transform.

It has the methods of s3torchconnector's S3Reader and osstorchconnector's DataObject, and the bytes without a copy:

    def decode(sample):
        return torch.frombuffer(sample.view, dtype=torch.uint8)
"""

import io
from typing import Any


class SampleFile(io.BufferedIOBase):
    """A seekable file over `view`, the bytes of the object. It pickles as a copy of them."""

    def __init__(self, bucket: str, key: str, view: memoryview, label: Any = "") -> None:
        self.bucket, self.key, self.label = bucket, key, label
        self.view = view
        self._position = 0

    @property
    def size(self) -> int:
        """The size of the object in bytes."""
        return len(self.view)

    def read(self, size: int | None = -1, /) -> bytes:
        """Returns a copy of at most `size` bytes; by default of all that are left."""
        start = self._position
        end = len(self.view) if size is None or size < 0 else min(start + size, len(self.view))
        self._position = max(start, end)
        return bytes(self.view[start:end])

    def read1(self, size: int = -1, /) -> bytes:
        """Does the same as `read`."""
        return self.read(size)

    def readinto(self, buffer: Any, /) -> int:
        """Fills `buffer`; returns the number of bytes."""
        target = memoryview(buffer).cast("B")
        count = max(0, min(len(target), len(self.view) - self._position))
        target[:count] = self.view[self._position : self._position + count]
        self._position += count
        return count

    readinto1 = readinto

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        """Moves, and returns the new position, which may be behind the end."""
        origin = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: len(self.view)}
        if whence not in origin:
            raise ValueError("Seek must be passed SEEK_CUR, SEEK_SET, or SEEK_END")
        position = origin[whence] + offset
        if position < 0:
            raise ValueError(f"negative seek value {position}")
        self._position = position
        return position

    def readable(self) -> bool:
        """Yes."""
        return True

    def seekable(self) -> bool:
        """Yes."""
        return True

    def err(self) -> int:
        """Returns 0, as a DataObject without an error does. Errors of reads are exceptions."""
        return 0

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuilt, (self.bucket, self.key, bytes(self.view), self.label, self._position)


def identity(sample: Any) -> Any:
    """The transform of a data set that has none: the sample itself."""
    return sample


def _rebuilt(bucket: str, key: str, content: bytes, label: Any, position: int) -> SampleFile:
    reader = SampleFile(bucket, key, memoryview(content), label)
    reader.seek(position)
    return reader
