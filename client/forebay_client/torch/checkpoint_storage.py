"""Distributed checkpoints in a bucket: storage for torch.distributed.checkpoint.

    dcp.save(state, storage_writer=ForebayStorageWriter("s3://ckpts/run-7/step-100"))
    dcp.load(state, storage_reader=ForebayStorageReader("s3://ckpts/run-7/step-100"))

What is written is what PyTorch's FileSystemWriter writes, and what s3torchconnector's and osstorchconnector's readers
read, and the reverse. An object appears whole when it is closed, and `.metadata` behind all others, which makes the
checkpoint. A load reads only what its plan wants, in large pieces at once, and straight into the tensors of the state
where these lie in memory as they were saved.
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
    """Objects as the files of a checkpoint. `client`: by default one of the environment."""

    def __init__(self, client: "Client | None" = None) -> None:
        self.client = client if client is not None else default_client()

    @contextmanager
    def create_stream(self, path: str | os.PathLike[str], mode: str) -> Iterator[io.IOBase]:
        """An object that is read ("rb") or written ("wb"). One that is left by an exception is not there."""
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
        """The path, checked."""
        parse_sample_uri(str(path))
        return str(path)

    def rename(self, path: str | os.PathLike[str], new_path: str | os.PathLike[str]) -> None:
        """Writes the object anew and removes the old one: the metadata, which is small, in one request."""
        bucket, key = parse_sample_uri(str(path))
        self.client.put(*parse_sample_uri(str(new_path)), self.client.get(bucket, key))
        self.client.delete(bucket, key)

    def mkdir(self, path: str | os.PathLike[str]) -> None:
        """Nothing: a bucket has no folders."""

    def exists(self, path: str | os.PathLike[str]) -> bool:
        """Whether there is such an object."""
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

    `flush`: whether `finish` returns only when all of it is at the origin, where Forebay acknowledges writes from its
    journal. `options`: of torch's FileSystemWriter, as `thread_count`.
    """

    def __init__(self, path: str, *, client: "Client | None" = None, flush: bool = False, **options: Any) -> None:
        super().__init__(path, sync_files=False, **options)
        self.fs = ForebayFileSystem(client)
        self.path = self.fs.init_path(path)
        self._flush = flush

    def finish(self, metadata: Any, results: Any) -> None:
        """Writes the metadata, which makes the checkpoint."""
        super().finish(metadata, results)
        if self._flush:
            bucket, prefix = parse_sample_uri(str(self.path))
            self.fs.client.flush(bucket, prefix)

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: str | os.PathLike[str]) -> bool:
        """Whether it is a URI."""
        return ForebayFileSystem.validate_checkpoint_id(checkpoint_id)


class ForebayStorageReader(FileSystemReader):
    """Reads a checkpoint below `path`, a URI. `width`: requests at once."""

    def __init__(self, path: str, *, client: "Client | None" = None, width: int = 8) -> None:
        super().__init__(path)
        self.fs = ForebayFileSystem(client)
        self.path = self.fs.init_path(path)
        self._width = width

    def read_data(self, plan: Any, planner: Any) -> Future:
        """Reads what `plan` wants."""
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
