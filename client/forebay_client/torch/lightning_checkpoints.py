"""Checkpoints of Lightning in a bucket.

    Trainer(plugins=[ForebayCheckpointIO()], default_root_dir="forebay://ckpts/run-7")

Lightning lists the folder by fsspec, which knows this library as `forebay://`. ForebayCheckpointIO has the methods of
lightning.pytorch.plugins.io.CheckpointIO. It is an instance of that class if Lightning, under either of its names, was
imported before; Lightning itself is not needed.
"""

import sys
from typing import TYPE_CHECKING, Any, Final

from forebay_client.torch.dataset_client import default_client
from forebay_client.torch.sample_list import parse_sample_uri
from forebay_client.torch.saved_files import load, save

if TYPE_CHECKING:
    from forebay_client.client import Client

_HOMES: Final = ("lightning.fabric.plugins.io.checkpoint_io", "lightning_fabric.plugins.io.checkpoint_io")
"""The modules with the abstract class, in the two packages that have it."""


class ForebayCheckpointIO:
    """Saves, loads and removes checkpoints whose paths are URIs. `flush`: a save waits until it is at the origin."""

    def __init__(self, *, client: "Client | None" = None, flush: bool = False) -> None:
        self._client, self._flush = client, flush
        for home in _HOMES:
            if (module := sys.modules.get(home)) is not None:
                module.CheckpointIO.register(type(self))

    def save_checkpoint(self, checkpoint: dict[str, Any], path: str, storage_options: Any = None) -> None:
        """Writes a checkpoint. `storage_options` must be None."""
        if storage_options is not None:
            raise TypeError("ForebayCheckpointIO has no storage_options")
        save(checkpoint, str(path), client=self._client_of(path), flush=self._flush)

    def load_checkpoint(self, path: str, map_location: Any = None, weights_only: bool | None = None) -> dict[str, Any]:
        """Reads a checkpoint. `weights_only` None: any pickled object, as Lightning's own class."""
        loaded: dict[str, Any] = load(
            str(path), map_location, client=self._client_of(path), weights_only=bool(weights_only)
        )
        return loaded

    def remove_checkpoint(self, path: str) -> None:
        """Deletes a checkpoint: its object, and for a distributed one every object below it."""
        bucket, key = parse_sample_uri(str(path))
        client = self._client_of(path)
        client.delete(bucket, key)
        for found in list(client.list(bucket, f"{key.rstrip('/')}/")):
            client.delete(bucket, getattr(found, "key", ""))

    def _client_of(self, path: str) -> "Client":
        """The client; by default one of the environment, in the protocol of the first path."""
        if self._client is None:
            self._client = default_client(str(path))
        return self._client

    def teardown(self) -> None:
        """Closes the connections."""
        if self._client is not None:
            self._client.close()
