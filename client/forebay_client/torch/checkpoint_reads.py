"""Reads the items of a load plan, in large pieces in parallel.

    items ── small, or no plain tensor ──> whole, in one batch                      torch.load
        └── large ──> their heads, in one batch ──> where the elements lie          (saved_tensor)
                                               └──> pieces of 16 MiB, `width` at once, into the tensors of the state

Where a tensor of the state is not laid out as the saved one (another type, a part of it, not contiguous, not in main
memory), the elements go into a tensor of their own first, which is copied.
"""

import ctypes
import io
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import torch
from torch.distributed._shard._utils import narrow_tensor_by_index
from torch.distributed.checkpoint.planner import LoadItemType

from forebay_client.client_errors import BodyCorrupt
from forebay_client.objects import BatchKey
from forebay_client.torch.sample_list import parse_sample_uri
from forebay_client.torch.saved_tensor import HEAD_SIZE, SavedTensor, saved_tensor
from forebay_client.transport.client_threads import ClientThreads

if TYPE_CHECKING:
    from forebay_client.client import Client

SMALL: Final = 256 << 10
"""Bytes up to which an item is read whole."""
PIECE: Final = 16 << 20


class _Item(NamedTuple):
    """A requested item, and the bytes of the object that it was saved in."""

    request: Any
    key: str
    start: int
    length: int

    def part(self, length: int) -> BatchKey:
        return BatchKey(self.key, self.start, self.start + length)


class _Piece(NamedTuple):
    """Bytes of an object, and the memory that they are read into."""

    key: str
    start: int
    target: memoryview


def read_items(
    client: "Client", path: str, requests: Sequence[Any], stored: Any, planner: Any, width: int
) -> list[Any]:
    """Reads and commits the items. Returns those that were transformed when they were written. Raises ClientError."""
    bucket, prefix = parse_sample_uri(path)
    small: list[_Item] = []
    large: list[_Item] = []
    transformed: list[Any] = []
    for request in requests:
        info = stored[request.storage_index]
        if info.transform_descriptors:
            transformed.append(request)
            continue
        item = _Item(request, f"{prefix.rstrip('/')}/{info.relative_path}".lstrip("/"), info.offset, info.length)
        is_large = item.length > SMALL and request.type != LoadItemType.BYTE_IO
        (large if is_large else small).append(item)
    if large:
        small += _read_large(client, bucket, large, planner, width)
    for item, content in _batch(client, bucket, [(item, item.length) for item in small]):
        _commit_content(planner, item, content)
    return transformed


def _batch(client: "Client", bucket: str, wanted: list[tuple[_Item, int]]) -> Any:
    """Yields each item with its first bytes."""
    keys = [item.part(length) for item, length in wanted]
    for found in client.get_many(bucket, keys, ordered=False):
        item, length = wanted[found.index]
        content = found.content()
        _check(bucket, item.key, len(content), length)
        yield item, content


def _read_large(client: "Client", bucket: str, items: list[_Item], planner: Any, width: int) -> list[_Item]:
    """Reads plain tensors into those of the state. Returns the other items."""
    others: list[_Item] = []
    pieces: list[_Piece] = []
    finished: list[tuple[_Item, torch.Tensor, torch.Tensor]] = []
    for item, head in _batch(client, bucket, [(item, HEAD_SIZE) for item in items]):
        saved = saved_tensor(head)
        if saved is None:
            others.append(item)
            continue
        target = planner.resolve_tensor(item.request).detach()
        source = _destination(target, saved, item.request)
        finished.append((item, source, target))
        memory = _memory(source)
        first = item.start + saved.start
        pieces += [_Piece(item.key, first + at, memory[at : at + PIECE]) for at in range(0, len(memory), PIECE)]

    def read(piece: _Piece) -> None:
        count = client.get_into(bucket, piece.key, piece.target, piece.start)
        _check(bucket, piece.key, count, len(piece.target))

    with ClientThreads(width, thread_name_prefix="forebay-checkpoint") as threads:
        for _ in threads.map(read, pieces):
            pass
    for item, source, target in finished:
        if source is not target:
            _copy(source, target, item.request)
        planner.commit_tensor(item.request, target)
    return others


def _destination(target: torch.Tensor, saved: SavedTensor, request: Any) -> torch.Tensor:
    """`target`, if it has the layout of the saved tensor; else a new tensor that has it."""
    dtype = getattr(torch, saved.dtype)
    is_same = (
        target.dtype == dtype
        and tuple(target.size()) == saved.size == tuple(request.lengths)
        and target.device.type == "cpu"
        and target.is_contiguous()
        and not any(request.storage_offsets)
    )
    return target if is_same else torch.empty(saved.size, dtype=dtype)


def _memory(tensor: torch.Tensor) -> memoryview:
    size = tensor.numel() * tensor.element_size()
    return memoryview((ctypes.c_char * size).from_address(tensor.data_ptr())).cast("B") if size else memoryview(b"")


def _commit_content(planner: Any, item: _Item, content: memoryview) -> None:
    file = io.BytesIO(content)
    if item.request.type == LoadItemType.BYTE_IO:
        planner.load_bytes(item.request, file)
        return
    tensor = torch.load(file, map_location="cpu", weights_only=True)
    target = planner.resolve_tensor(item.request).detach()
    _copy(tensor, target, item.request)
    planner.commit_tensor(item.request, target)


def _copy(source: torch.Tensor, target: torch.Tensor, request: Any) -> None:
    part = narrow_tensor_by_index(source, request.storage_offsets, request.lengths)
    if part.size() != target.size():
        raise ValueError(f"{request.storage_index}: {tuple(part.size())} was saved, {tuple(target.size())} is wanted")
    target.copy_(part)


def _check(bucket: str, key: str, count: int, expected: int) -> None:
    if count != expected:
        raise BodyCorrupt(f"{count} bytes came of {expected}: the file was replaced", bucket=bucket, key=key)
