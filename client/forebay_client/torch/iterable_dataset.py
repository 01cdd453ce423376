"""Objects as an iterable data set: read in order or shuffled, a batch at a time.

Ranks and the workers of a loader share the objects: worker w of W of rank r of R reads every (R*W)th, from r + R*w on.
The state of an epoch can be saved in its middle and resumed, by torchdata's StatefulDataLoader in each worker.
"""

import random
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import torch.distributed
import torch.utils.data

from forebay_client.objects import index_of
from forebay_client.torch.epoch_plans import EpochPlans
from forebay_client.torch.object_dataset import ObjectDataset, Transform
from forebay_client.torch.packed_samples import PackedSamples
from forebay_client.torch.sample_file import identity
from forebay_client.torch.sample_list import SampleList

if TYPE_CHECKING:
    from forebay_client.client import Client


class ForebayIterableDataset(ObjectDataset, torch.utils.data.IterableDataset):
    """The objects of `samples`, listed once for all workers when the data set is made.

    `samples`, `client`, `transform`, `pack`: see ObjectDataset. `batch`: objects that are read in one round trip.
    `sharding`: whether ranks and workers share the objects; otherwise each reads all of them. `shuffle`: whether they
    are read in an order made from `seed` and the epoch. As with DistributedSampler, call set_epoch before each epoch;
    persistent workers count epochs themselves. `plan`: whether each epoch's order is sent as a plan before it is read.
    """

    def __init__(
        self,
        samples: SampleList | Callable[["Client"], SampleList],
        *,
        client: "Client | None" = None,
        transform: Transform = identity,
        pack: PackedSamples | None = None,
        batch: int = 64,
        sharding: bool = True,
        shuffle: bool = False,
        seed: int = 0,
        plan: bool = False,
    ) -> None:
        if index_of(batch, "batch") < 1:
            raise ValueError(f"batch is at least 1, not {batch}")
        super().__init__(samples, client=client, transform=transform, pack=pack)
        self._count = len(self.samples_read)
        self._batch, self._sharding, self._shuffle, self._seed = batch, sharding, shuffle, seed
        self._rank, self._ranks = world()
        self._plan = plan
        self._epoch = 0
        self._begun = 0
        """The epoch that is being read."""
        self._yielded = 0
        self._resumed = 0

    def set_epoch(self, epoch: int) -> None:
        """Sets the number of the next epoch, here and in every worker that is started from now on."""
        self._epoch = self._begun = epoch

    def __iter__(self) -> Iterator[Any]:
        worker = torch.utils.data.get_worker_info()
        number, workers = (worker.id, worker.num_workers) if worker is not None and self._sharding else (0, 1)
        rank, ranks = (self._rank, self._ranks) if self._sharding else (0, 1)
        self._begun, self._yielded, self._resumed = self._epoch, self._resumed, 0
        self._epoch += 1
        order = self._order(self._begun)[rank::ranks]
        if self._plan and (worker is None or worker.id == 0):
            EpochPlans(lambda: self.client, self).send(self._begun, order[self._yielded * workers :])
        return self._rest(order[number::workers], self._yielded)

    def _rest(self, order: Sequence[int], yielded: int) -> Iterator[Any]:
        """Yields the samples of `order` but for the first `yielded`."""
        for start in range(yielded, len(order), self._batch):
            for sample in self._read(order[start : start + self._batch]):
                yielded += 1
                self._yielded = yielded
                yield self._transform(sample)

    def _order(self, epoch: int) -> Sequence[int]:
        return epoch_order(self._count, self._seed, epoch) if self._shuffle else range(self._count)

    def state_dict(self) -> dict[str, Any]:
        """The epoch, and the number of its samples that this worker has yielded."""
        return {"epoch": self._begun, "yielded": self._yielded}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Makes the next iteration the rest of the epoch that was saved."""
        self._epoch, self._resumed = state["epoch"], state["yielded"]


def epoch_order(count: int, seed: int, epoch: int) -> Sequence[int]:
    """The numbers below `count`, shuffled: the same in every process."""
    return random.Random(f"{seed}-{epoch}").sample(range(count), count)  # noqa: S311 # reproducible, not secret


def world() -> tuple[int, int]:
    """Rank and number of ranks of this process: 0 and 1 outside of a process group."""
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return torch.distributed.get_rank(), torch.distributed.get_world_size()
    return 0, 1
