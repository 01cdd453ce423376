"""Checkpoints of Lightning in a bucket.

    Trainer(plugins=[ForebayCheckpointIO()], default_root_dir="forebay://ckpts/run-7")

Lightning itself looks at the folder by fsspec, which knows this library by `forebay://`.
It has the methods of lightning.pytorch.plugins.io.CheckpointIO, and is one for isinstance wherever Lightning, of either
name, is imported before it is made. Lightning itself is not needed.
"""

import sys
from typing import TYPE_CHECKING, Any, Final

from forebay_client.torch.dataset_client import default_client
from forebay_client.torch.sample_list import parse_sample_uri
from forebay_client.torch.saved_files import load, save

if TYPE_CHECKING:
    from forebay_client.client import Client

_HOMES: Final = ("lightning.fabric.plugins.io.checkpoint_io", "lightning_fabric.plugins.io.checkpoint_io")
"""Where the abstract class is, of the two packages that have it."""


class ForebayCheckpointIO:
    """Saves, loads and removes checkpoints whose paths are URIs. `flush`: a save returns when it is at the origin."""

    def __init__(self, *, client: "Client | None" = None, flush: bool = False) -> None:
        self._client, self._flush = client, flush
        for home in _HOMES:
            if (module := sys.modules.get(home)) is not None:
                module.CheckpointIO.register(type(self))

    @property
    def client(self) -> "Client":
        """What is used."""
        if self._client is None:
            self._client = default_client()
        return self._client

    def save_checkpoint(self, checkpoint: dict[str, Any], path: str, storage_options: Any = None) -> None:
        """Writes a checkpoint. `storage_options`: there are none."""
        if storage_options is not None:
            raise TypeError("ForebayCheckpointIO has no storage_options")
        save(checkpoint, str(path), client=self.client, flush=self._flush)

    def load_checkpoint(self, path: str, map_location: Any = None, weights_only: bool | None = None) -> dict[str, Any]:
        """Reads a checkpoint. `weights_only` None: whatever was pickled, as Lightning's own does."""
        loaded: dict[str, Any] = load(str(path), map_location, client=self.client, weights_only=bool(weights_only))
        return loaded

    def remove_checkpoint(self, path: str) -> None:
        """Deletes a checkpoint: the object, and every object below it (of a distributed one)."""
        bucket, key = parse_sample_uri(str(path))
        self.client.delete(bucket, key)
        for found in list(self.client.list(bucket, f"{key.rstrip('/')}/")):
            self.client.delete(bucket, getattr(found, "key", ""))

    def teardown(self) -> None:
        """Closes the connections."""
        if self._client is not None:
            self._client.close()
