"""Checkpoints: written and read by ours and by others, and what a torn one looks like."""

import io
import sys
import types
from abc import ABC
from typing import Any

import torch
import torch.distributed.checkpoint as dcp

import forebay_client.torch as ours
from client.torch.torch_checks import Checks, raised
from forebay_client import Client, ObjectNotFound
from forebay_client.torch.saved_tensor import HEAD_SIZE, SavedTensor, saved_tensor


def state(fill: float | None = None) -> dict[str, Any]:
    """Tensors of many kinds; `fill`: the same with other values, to be loaded into."""
    generator = torch.Generator().manual_seed(1)
    tensors = {
        "large": torch.rand(700, 500, generator=generator),
        "pieces": torch.rand(5_000_000, generator=generator),
        "bf16": torch.rand(400, 500, generator=generator).to(torch.bfloat16),
        "transposed": torch.rand(300, 400, generator=generator).t(),
        "bool": torch.rand(900, 900, generator=generator) > 0.5,
        "long": torch.arange(100_000),
        "small": torch.rand(3, generator=generator),
        "scalar": torch.tensor(7.0),
        "empty": torch.zeros(0, 4),
        "float8": torch.rand(400_000, generator=generator).to(torch.float8_e4m3fn),
    }
    if fill is not None:
        tensors = {name: torch.full_like(tensor, fill) for name, tensor in tensors.items()}
    return {"model": tensors, "step": 100 if fill is None else 0, "names": ["a", "b"] if fill is None else []}


def bytes_of(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.contiguous().flatten().view(torch.uint8)


def equal(found: dict[str, Any], expected: dict[str, Any]) -> None:
    for name, tensor in expected["model"].items():
        left, right = found["model"][name], tensor
        assert (left.dtype, left.shape) == (right.dtype, right.shape), name
        assert torch.equal(bytes_of(left), bytes_of(right)), name
    assert (found["step"], found["names"]) == (100, ["a", "b"])


def loaded(reader: Any) -> dict[str, Any]:
    target = state(fill=0)
    dcp.load(target, storage_reader=reader, no_dist=True)
    return target


def check_a_distributed_checkpoint_is_what_was_saved(checks: Checks) -> None:
    client = Client(checks.endpoint)
    for options in ({}, {"thread_count": 3}, {"single_file_per_rank": False, "flush": True}):
        path = f"s3://bucket/dcp/{len(options)}-{len(str(options))}"
        dcp.save(state(), storage_writer=ours.ForebayStorageWriter(path, client=client, **options), no_dist=True)
        equal(loaded(ours.ForebayStorageReader(path, client=client)), state())
        keys = [getattr(found, "key", "") for found in client.list("bucket", path.removeprefix("s3://bucket/"))]
        names = [key.rpartition("/")[2] for key in keys]
        assert ".metadata" in names
        assert ".metadata.tmp" not in names
    dcp.save(state(fill=3), storage_writer=ours.ForebayStorageWriter(path, client=client), no_dist=True)
    assert loaded(ours.ForebayStorageReader(path, client=client))["model"]["large"][0, 0] == 3, "overwritten"


def check_others_files_are_read_and_others_read_ours(checks: Checks) -> None:
    client = Client(checks.endpoint)
    local = checks.directory / "local"
    dcp.save(state(), storage_writer=dcp.FileSystemWriter(local), no_dist=True)
    for file in local.iterdir():
        client.put_file("bucket", f"local/{file.name}", file)
    equal(loaded(ours.ForebayStorageReader("s3://bucket/local/", client=client)), state())

    dcp.save(state(), storage_writer=ours.ForebayStorageWriter("s3://bucket/ours", client=client), no_dist=True)
    back = checks.directory / "back"
    back.mkdir()
    for found in client.list("bucket", "ours/"):
        assert hasattr(found, "key")
        (back / found.key.rpartition("/")[2]).write_bytes(client.get("bucket", found.key))
    equal(loaded(dcp.FileSystemReader(back)), state())


def check_a_part_of_a_checkpoint_is_read_alone(checks: Checks) -> None:
    client = Client(checks.endpoint)
    dcp.save(state(), storage_writer=ours.ForebayStorageWriter("s3://bucket/part", client=client), no_dist=True)
    target = {"model": {"bf16": torch.zeros(400, 500, dtype=torch.float32)}}
    dcp.load(target, storage_reader=ours.ForebayStorageReader("s3://bucket/part", client=client), no_dist=True)
    assert torch.equal(target["model"]["bf16"], state()["model"]["bf16"].float()), "of another type"


def check_a_save_that_fails_leaves_no_checkpoint(checks: Checks) -> None:
    client = Client(checks.endpoint)

    class Unsaveable:
        def __reduce__(self) -> Any:
            raise RuntimeError("no")

    with raised(Exception, ""):
        ours.save({"weights": torch.zeros(3_000_000), "last": Unsaveable()}, "s3://bucket/torn.pt", client=client)
    with raised(ObjectNotFound, "torn"):
        client.head("bucket", "torn.pt")


def check_files_of_torch_save_are_mapped(checks: Checks) -> None:
    client = Client(checks.endpoint)
    ours.save(state(), "s3://bucket/file.pt", client=client, flush=True)
    for mmap in (True, False):
        equal(ours.load("s3://bucket/file.pt", client=client, mmap=mmap), state())
    plain = torch.load(io.BytesIO(client.get("bucket", "file.pt")), weights_only=True)
    equal(plain, state())


def check_lightning_finds_its_interface(checks: Checks) -> None:
    class CheckpointIO(ABC):  # noqa: B024 # as Lightning's, as far as isinstance looks
        pass

    name = "lightning.fabric.plugins.io.checkpoint_io"
    module = types.ModuleType(name)
    module.CheckpointIO = CheckpointIO  # type: ignore[attr-defined] # as above
    sys.modules[name] = module
    try:
        plugin = ours.ForebayCheckpointIO(client=Client(checks.endpoint))
    finally:
        del sys.modules[name]
    assert isinstance(plugin, CheckpointIO)
    plugin.save_checkpoint(state(), "forebay://bucket/lightning/last.ckpt")  # as fsspec knows it, which Lightning uses
    equal(plugin.load_checkpoint("s3://bucket/lightning/last.ckpt", weights_only=True), state())
    plugin.remove_checkpoint("s3://bucket/lightning/last.ckpt")
    with raised(ObjectNotFound, "last.ckpt"):
        plugin.load_checkpoint("s3://bucket/lightning/last.ckpt")
    with raised(TypeError, "storage_options"):
        plugin.save_checkpoint({}, "s3://bucket/x", storage_options={})
    plugin.teardown()


def check_a_saved_tensor_is_found_in_its_head() -> None:
    def head_of(value: Any) -> memoryview:
        file = io.BytesIO()
        torch.save(value, file)
        return memoryview(file.getvalue())

    for tensor in (torch.rand(100, 30), torch.arange(9), torch.zeros(5, 1, 2, dtype=torch.bfloat16), torch.tensor(1.0)):
        content = head_of(tensor)
        found = saved_tensor(content[:HEAD_SIZE])
        assert found is not None
        assert (found.dtype, found.size) == (str(tensor.dtype).removeprefix("torch."), tuple(tensor.shape))
        raw = bytes(content[found.start : found.start + tensor.numel() * tensor.element_size()])
        assert raw == bytes(bytes_of(tensor).tolist())
    for other in (
        torch.rand(4, 5).t(),
        torch.rand(10)[3:],
        {"a": torch.rand(3)},
        [torch.rand(2)],
        7,
        torch.rand(4).to(torch.complex64),
    ):
        assert saved_tensor(head_of(other)[:HEAD_SIZE]) is None, other
    whole = head_of(torch.rand(3))
    for end in range(0, 900, 7):
        found = saved_tensor(whole[:end])
        assert found is None or found == saved_tensor(whole), end
    damaged = bytearray(whole)
    damaged[70:90] = bytes(20)
    assert saved_tensor(memoryview(damaged)) is None
    assert SavedTensor(1, "float32", (2,)).start == 1
