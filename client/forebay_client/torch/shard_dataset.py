"""WebDataset shards as an iterable data set: TAR archives, each read from its beginning to its end.

    dataset = ShardDataset("s3://datasets/imagenet-{000000..001281}.tar", transform=decode)

Members whose names agree up to the first dot of the last segment are one sample, as in
https://github.com/webdataset/webdataset: a dict of the rest of the name to the bytes, with `__key__` and `__url__`.
Ranks and workers share whole shards, so there should be at least as many as workers of all ranks.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import torch.utils.data

from forebay_client.torch.dataset_client import default_client
from forebay_client.torch.iterable_dataset import epoch_order, world
from forebay_client.torch.sample_file import identity
from forebay_client.torch.sample_list import named_samples
from forebay_client.torch.shard_samples import expand_braces, shard_samples

if TYPE_CHECKING:
    from forebay_client.client import Client


class ShardDataset(torch.utils.data.IterableDataset):
    """The samples of `shards`. A sample is the result of `transform` for its dict.

    `shards`: URIs, or one with braces, `{000..127}` or `{a,b}`. `shuffle`: whether the shards are read in an order made
    from `seed` and the epoch (set_epoch); samples keep the order of their shard. `read_ahead`: bytes of a shard that
    are fetched ahead.
    """

    def __init__(
        self,
        shards: str | Iterable[str],
        *,
        client: "Client | None" = None,
        transform: Callable[[dict[str, Any]], Any] = identity,
        shuffle: bool = False,
        seed: int = 0,
        read_ahead: int = 8 << 20,
    ) -> None:
        self.shards = expand_braces(shards) if isinstance(shards, str) else list(shards)
        self._names = named_samples(self.shards)
        self._client, self._transform = client, transform
        self._shuffle, self._seed, self._read_ahead = shuffle, seed, read_ahead
        self._rank, self._ranks = world()
        self._epoch = 0
        self._position = {"epoch": 0, "shard": 0, "yielded": 0}
        self._resumed: dict[str, int] | None = None

    @property
    def client(self) -> "Client":
        """The client that reads the shards."""
        if self._client is None:
            self._client = default_client(self.shards[0] if self.shards else "")
        return self._client

    def set_epoch(self, epoch: int) -> None:
        """Sets the number of the next epoch, here and in every worker that is started from now on."""
        self._epoch = self._position["epoch"] = epoch

    def __iter__(self) -> Iterator[Any]:
        worker = torch.utils.data.get_worker_info()
        number, workers = (worker.id, worker.num_workers) if worker is not None else (0, 1)
        resumed, self._resumed = self._resumed, None
        self._position = dict(resumed) if resumed is not None else {"epoch": self._epoch, "shard": 0, "yielded": 0}
        self._epoch = self._position["epoch"] + 1
        order = self._order(self._position["epoch"])
        return self._rest(order[self._rank :: self._ranks][number::workers], self._position)

    def _rest(self, order: Sequence[int], position: dict[str, int]) -> Iterator[Any]:
        while position["shard"] < len(order):
            index = order[position["shard"]]
            bucket, key = self._names.bucket(index), self._names.keys[index]
            with self.client.open(bucket, key, read_ahead=self._read_ahead) as file:
                for sample in shard_samples(file, self.shards[index], skip=position["yielded"]):
                    position["yielded"] += 1
                    yield self._transform(sample)
            position["shard"], position["yielded"] = position["shard"] + 1, 0

    def _order(self, epoch: int) -> Sequence[int]:
        return epoch_order(len(self.shards), self._seed, epoch) if self._shuffle else range(len(self.shards))

    def state_dict(self) -> dict[str, int]:
        """The epoch, the position among this worker's shards, and the number of samples that the shard has yielded."""
        return dict(self._position)

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Makes the next iteration the rest of the epoch that was saved."""
        self._resumed = dict(state)
