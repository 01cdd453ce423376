"""Distributed checkpoints in a bucket: storage for torch.distributed.checkpoint.

    dcp.save(state, storage_writer=ForebayStorageWriter("s3://ckpts/run-7/step-100"))
    dcp.load(state, storage_reader=ForebayStorageReader("s3://ckpts/run-7/step-100"))

The files are those of PyTorch's FileSystemWriter: s3torchconnector and osstorchconnector read them, and theirs are read
here. An object appears whole when it is closed; `.metadata` appears last, and completes the checkpoint. A load reads
only the items of its plan, in large pieces in parallel. Bytes go straight into tensors of the state that have the
layout of the saved ones.
"""

import io
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from torch.distributed.checkpoint.filesystem import FileSystemBase, FileSystemReader, FileSystemWriter
from torch.futures import Future

from forebay_client.client_errors import ObjectNotFound
from forebay_client.torch.checkpoint_reads import read_items
from forebay_client.torch.dataset_client import default_client
from forebay_client.torch.sample_list import parse_sample_uri

if TYPE_CHECKING:
    from forebay_client.client import Client


class ForebayFileSystem(FileSystemBase):
    """Objects as the files of a checkpoint. `client`: by default one of the environment, for what `path` names."""

    def __init__(self, client: "Client | None" = None, path: str = "") -> None:
        self.client = client if client is not None else default_client(path)

    @contextmanager
    def create_stream(self, path: str | os.PathLike[str], mode: str) -> Iterator[io.IOBase]:
        """Opens an object for reading ("rb") or writing ("wb"). An exception discards what was written."""
        bucket, key = parse_sample_uri(str(path))
        if mode == "wb":
            with self.client.create(bucket, key) as written:
                yield written
        elif mode == "rb":
            with self.client.open(bucket, key) as opened:
                yield opened
        else:
            raise ValueError(f"the mode is rb or wb, not {mode}")

    def concat_path(self, path: str | os.PathLike[str], suffix: str) -> str:
        """The path of a file of the checkpoint."""
        return f"{str(path).rstrip('/')}/{suffix}"

    def init_path(self, path: str | os.PathLike[str]) -> str:
        """Checks a path, and returns it as text."""
        parse_sample_uri(str(path))
        return str(path)

    def rename(self, path: str | os.PathLike[str], new_path: str | os.PathLike[str]) -> None:
        """Writes the object under the new name, and deletes the old one. Only `.metadata` is renamed: it is small."""
        bucket, key = parse_sample_uri(str(path))
        self.client.put(*parse_sample_uri(str(new_path)), self.client.get(bucket, key))
        self.client.delete(bucket, key)

    def mkdir(self, path: str | os.PathLike[str]) -> None:
        """Does nothing: a bucket has no folders."""

    def exists(self, path: str | os.PathLike[str]) -> bool:
        """Whether the object exists."""
        try:
            self.client.head(*parse_sample_uri(str(path)))
        except ObjectNotFound:
            return False
        return True

    def rm_file(self, path: str | os.PathLike[str]) -> None:
        """Deletes an object."""
        self.client.delete(*parse_sample_uri(str(path)))

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: str | os.PathLike[str]) -> bool:
        """Whether it is a URI."""
        try:
            parse_sample_uri(str(checkpoint_id))
        except ValueError:
            return False
        return True


class ForebayStorageWriter(FileSystemWriter):
    """Writes a checkpoint below `path`, a URI.

    `flush`: whether `finish` waits until the checkpoint is at the origin, if Forebay acknowledges writes from its
    journal. `options`: those of torch's FileSystemWriter, for example `thread_count`.
    """

    def __init__(self, path: str, *, client: "Client | None" = None, flush: bool = False, **options: Any) -> None:
        super().__init__(path, sync_files=False, **options)
        self.fs = ForebayFileSystem(client, str(path))
        self.path = self.fs.init_path(path)
        self._flush = flush

    def finish(self, metadata: Any, results: Any) -> None:
        """Writes the metadata, which completes the checkpoint."""
        super().finish(metadata, results)
        if self._flush:
            bucket, prefix = parse_sample_uri(str(self.path))
            self.fs.client.flush(bucket, prefix)

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: str | os.PathLike[str]) -> bool:
        """Whether it is a URI."""
        return ForebayFileSystem.validate_checkpoint_id(checkpoint_id)


class ForebayStorageReader(FileSystemReader):
    """Reads a checkpoint below `path`, a URI. `width`: requests in parallel at most."""

    def __init__(self, path: str, *, client: "Client | None" = None, width: int = 8) -> None:
        super().__init__(path)
        self.fs = ForebayFileSystem(client, str(path))
        self.path = self.fs.init_path(path)
        self._width = width

    def read_data(self, plan: Any, planner: Any) -> Future:
        """Reads the items of `plan`."""
        rest = read_items(self.fs.client, str(self.path), plan.items, self.storage_data, planner, self._width)
        if rest:  # what an extension of the writer has transformed
            plan.items[:] = rest
            super().read_data(plan, planner)
        done: Future = Future()
        done.set_result(None)
        return done

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: str | os.PathLike[str]) -> bool:
        """Whether it is a URI."""
        return ForebayFileSystem.validate_checkpoint_id(checkpoint_id)
