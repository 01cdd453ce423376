"""Finds the elements of a tensor in the file of torch.save, so that they can be read straight into another tensor.

    local header  archive/data.pkl       what the tensor is: type, shape, strides; ends with STOP
    descriptor    its length
    local header  archive/.format_version, .storage_alignment, byteorder ...
    local header  archive/data/0         <── the elements, uncompressed, as they are in memory

https://pkware.cachefly.net/webdocs/casestudies/APPNOTE.TXT, sections 4.3.7 and 4.3.9. The pickle is read by an
Unpickler that finds only the names of a plain tensor. A file of another form is left to torch.load.
"""

import io
import pickle
import struct
import sys
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

HEAD_SIZE: Final = 4096
"""Bytes of the beginning of a saved tensor that are enough to find its elements."""
_DTYPES: Final = {
    "FloatStorage": "float32",
    "DoubleStorage": "float64",
    "HalfStorage": "float16",
    "BFloat16Storage": "bfloat16",
    "LongStorage": "int64",
    "IntStorage": "int32",
    "ShortStorage": "int16",
    "CharStorage": "int8",
    "ByteStorage": "uint8",
    "BoolStorage": "bool",
}
_LOCAL: Final = b"PK\x03\x04"
_DESCRIPTOR: Final = b"PK\x07\x08"


class SavedTensor(NamedTuple):
    """A tensor whose elements lie one behind the other."""

    start: int
    """The offset of the first element in the file."""
    dtype: str
    """The name of the type in torch."""
    size: tuple[int, ...]


def saved_tensor(head: memoryview) -> SavedTensor | None:
    """The tensor in the file that begins with `head`; None: it is not contiguous, not alone, or of another form."""
    try:
        records = _records(bytes(head))
        tensor = _Tensor.read(records["data.pkl"])
        is_ours = records.get("byteorder", b"little").decode() == sys.byteorder == "little"
    except (
        ValueError,
        KeyError,
        struct.error,
        pickle.UnpicklingError,
        EOFError,
        AttributeError,
        TypeError,
        IndexError,
    ):
        return None
    if not is_ours or tensor.offset != 0 or not _is_contiguous(tensor.size, tensor.strides):
        return None
    count = 1
    for length in tensor.size:
        count *= length
    if count != tensor.storage[1]:
        return None
    return SavedTensor(int(records["data/0"]), tensor.dtype, tensor.size)


def _records(head: bytes) -> dict[str, Any]:
    """The contents of the records before `data/0`, by name, and the offset of `data/0`. Raises ValueError."""
    found: dict[str, Any] = {}
    position = 0
    while head[position : position + 4] == _LOCAL:
        method, length, extra = struct.unpack_from("<H16xHH", head, position + 8)
        name = head[position + 30 : position + 30 + length].decode().partition("/")[2]
        start = position + 30 + length + extra
        if name == "data/0":
            found[name] = start
            return found
        if method != 0:
            raise ValueError("compressed")
        end = _end_of(head, start)
        found[name] = head[start:end]
        # Of four, or with zip64 of eight, bytes a length.
        position = end + 16 if head[end + 16 : end + 20] == _LOCAL else end + 24
    raise ValueError("no elements")


def _end_of(head: bytes, start: int) -> int:
    """The end of a record: the descriptor with its length. Raises ValueError."""
    end = head.index(_DESCRIPTOR, start)
    while int.from_bytes(head[end + 8 : end + 12], "little") != end - start:
        end = head.index(_DESCRIPTOR, end + 1)
    return end


class _Tensor(NamedTuple):
    """The arguments of torch._utils._rebuild_tensor_v2."""

    storage: tuple[str, int]
    offset: int
    size: tuple[int, ...]
    strides: tuple[int, ...]

    @property
    def dtype(self) -> str:
        return self.storage[0]

    @classmethod
    def read(cls, content: bytes) -> "_Tensor":
        found = _TensorUnpickler(io.BytesIO(content)).load()
        if not isinstance(found, cls):
            raise pickle.UnpicklingError("no tensor")
        return found


def _rebuild(storage: Any, offset: int, size: Sequence[int], strides: Sequence[int], *_rest: Any) -> _Tensor:
    return _Tensor(storage, offset, tuple(size), tuple(strides))


class _TensorUnpickler(pickle.Unpickler):
    """Reads the pickle of one tensor."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == ("torch._utils", "_rebuild_tensor_v2"):
            return _rebuild
        if (module, name) == ("collections", "OrderedDict"):
            return OrderedDict
        if module == "torch" and name in _DTYPES:
            return _DTYPES[name]
        raise pickle.UnpicklingError(f"{module}.{name} is no part of a plain tensor")

    def persistent_load(self, pid: Any) -> Any:
        kind, dtype, key, _location, count = pid
        if kind != "storage" or key != "0" or not isinstance(dtype, str):
            raise pickle.UnpicklingError("no storage")
        return dtype, count


def _is_contiguous(size: Sequence[int], strides: Sequence[int]) -> bool:
    expected = 1
    for length, stride in zip(reversed(size), reversed(strides), strict=True):
        if length != 1 and stride != expected:
            return False
        expected *= max(length, 1)
    return True
