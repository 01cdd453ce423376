"""A sampler that sends the order of each epoch as a plan before its first index is used.

    loader = planned(DataLoader(dataset, batch_size=256, shuffle=True, num_workers=8))

    sampler = PlannedSampler(DistributedSampler(dataset), dataset)
    loader = DataLoader(dataset, batch_size=256, sampler=sampler)

PlannedSampler yields the indices of the sampler within, drawn at the same time from the same generators: with the same
seed, training is the same with and without plans (see sampler_preview). If the sampler within is of another type than
PyTorch's own and has a length, all its indices are drawn before the first one is used.

The state of an epoch can be saved in its middle and resumed, here and by torchdata's StatefulDataLoader. The plan then
has the rest of the order.
"""

from collections.abc import Callable, Iterator
from typing import Any, Final, TypeVar

import torch

from forebay_client.torch.epoch_plans import EpochPlans, PlanCounts
from forebay_client.torch.sampler_preview import (
    SamplerPreview,
    at_epoch,
    distributed_sampler,
    draws_early,
    flat_indices,
    generator_of,
    preview,
)

_Loader = TypeVar("_Loader")
_VERSION: Final = 1


class PlannedSampler(torch.utils.data.Sampler):
    """Yields the indices of a sampler, or the batches of a batch sampler, and sends their order as a plan.

    `dataset`: the data set of the indices; by default the sampler's own. `client`: sends the plans; by default the data
    set's own client, or one of the environment. `name`: the name of the series of plans; by default made of host,
    command line, rank and data set. `next_epoch`: whether each plan is followed by that of the next epoch, where its
    order is known: that of a DistributedSampler. `quiet`: a data set whose objects are unknown is not logged.
    """

    def __init__(
        self,
        sampler: Any,
        dataset: Any = None,
        *,
        client: Any = None,
        name: str | None = None,
        next_epoch: bool = True,
        quiet: bool = False,
    ) -> None:
        self.sampler = sampler
        self._dataset = dataset if dataset is not None else _dataset_of(sampler)
        self._next_epoch = next_epoch
        self._plans = EpochPlans(_connection(client, self._dataset), self._dataset, name, quiet=quiet)
        self._epoch = 0
        """The number of the latest epoch that was begun: the sampler's own number, or a count."""
        self._queued: int | None = None
        """The epoch whose plan was sent ahead."""
        self._before: dict[str, Any] = {}
        """The states of generators and samplers, from which the order of the current epoch can be drawn again."""
        self._yielded = 0
        self._is_open = False
        self._resumed: dict[str, Any] | None = None

    @property
    def counts(self) -> PlanCounts:
        """The numbers of plans that were sent, ignored or failed."""
        return self._plans.counts

    def __getattr__(self, name: str) -> Any:
        # A training loop may use batch_size, drop_last, set_epoch and other attributes of the sampler within.
        if name.startswith("__") or name == "sampler":
            raise AttributeError(name)
        return getattr(self.sampler, name)

    def __len__(self) -> int:
        return len(self.sampler)

    def __iter__(self) -> Iterator[Any]:
        if self._resumed is not None:
            return self._rest_of_epoch()
        if draws_early(self.sampler):
            before, order = self._state_before(), preview(self.sampler)
            return self._whole_epoch(before, order, iter(self.sampler))
        return self._whole_epoch()

    def state_dict(self, yielded: int | None = None) -> dict[str, Any]:
        """The state of the current epoch, for load_state_dict.

        `yielded`: the number of indices or batches of the epoch that the job has used. It differs from the default, the
        number that were drawn, where a loader draws ahead. StatefulDataLoader counts itself."""
        if self._resumed is not None:
            return self._resumed
        is_within = self._is_open or (yielded is not None and 0 < yielded < self._yielded)
        before = self._before if is_within else self._state_before()
        count = self._yielded if yielded is None else yielded
        return {"version": _VERSION, "yielded": count if is_within else 0, "epoch": self._epoch, "before": before}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Makes the next iteration the rest of the epoch that was saved."""
        if state.get("version") != _VERSION:
            raise ValueError(f"not a state of PlannedSampler, or of another version of it: {state.get('version')}")
        self._restore(state["before"])
        self._resumed = state

    def _whole_epoch(
        self,
        before: dict[str, Any] | None = None,
        order: SamplerPreview | None = None,
        units: Iterator[Any] | None = None,
    ) -> Iterator[Any]:
        """A generator, as the iterators of PyTorch's samplers: nothing is drawn before the first index is requested.
        The arguments describe a sampler that has drawn already."""
        self._begin(before if before is not None else self._state_before())
        if order is None:
            order = preview(self.sampler)
        if units is None:
            units = iter(self.sampler)
        if order is not None:
            self._send(order.indices)
        elif hasattr(self.sampler, "__len__"):
            whole = list(units)
            self._send(flat_indices(whole))
            units = iter(whole)
        else:
            self._plans.skip("its sampler has no length")
        yield from self._counted(units)

    def _rest_of_epoch(self) -> Iterator[Any]:
        """The rest of an epoch whose state was saved. The state is used up with the first index: a DataLoader with
        workers makes two iterators, and uses the second."""
        state, self._resumed = self._resumed, None
        if state is None:
            yield from self._whole_epoch()
            return
        before = state["before"]
        self._restore(before)
        order = preview(self.sampler, before["global"])
        generator = generator_of(self.sampler)
        if generator is not None and order is not None and order.generator_state is not None:
            generator.set_state(order.generator_state)  # as it is behind this epoch, so that the next has its own order
        units = order.units if order is not None else list(self.sampler)
        self._epoch = state["epoch"] - 1
        self._begin(before)
        rest, self._yielded = units[state["yielded"] :], state["yielded"]
        self._send(flat_indices(rest))
        yield from self._counted(iter(rest))

    def _counted(self, units: Iterator[Any]) -> Iterator[Any]:
        for unit in units:
            self._yielded += 1
            yield unit
        self._is_open = False
        self._plans.forget(self._epoch)

    def _state_before(self) -> dict[str, Any]:
        """The states from which the order of the epoch that begins now can be drawn again."""
        generator, distributed = generator_of(self.sampler), distributed_sampler(self.sampler)
        before: dict[str, Any] = {"global": torch.get_rng_state()}
        if generator is not None:
            before["generator"] = generator.get_state()
        if distributed is not None:
            before["epoch"] = distributed.epoch
        elif hasattr(self.sampler, "state_dict"):
            before["sampler"] = self.sampler.state_dict()
        return before

    def _restore(self, before: dict[str, Any]) -> None:
        """Restores the sampler's own state. The global generator belongs to the program, and is left alone."""
        generator, distributed = generator_of(self.sampler), distributed_sampler(self.sampler)
        if generator is not None:
            generator.set_state(before["generator"])
        if distributed is not None:
            distributed.set_epoch(before["epoch"])
        elif "sampler" in before:
            self.sampler.load_state_dict(before["sampler"])

    def _begin(self, before: dict[str, Any]) -> None:
        if self._is_open:
            self._plans.cancel(self._epoch)
        distributed = distributed_sampler(self.sampler)
        self._epoch = distributed.epoch if distributed is not None else self._epoch + 1
        if self._queued is not None and self._queued != self._epoch:
            self._plans.cancel(self._queued)
            self._queued = None
        self._before, self._yielded, self._is_open = before, 0, True

    def _send(self, indices: list[int]) -> None:
        if self._queued == self._epoch:
            self._queued = None  # It was sent with the epoch before.
        else:
            self._plans.send(self._epoch, indices)
        if self._next_epoch and distributed_sampler(self.sampler) is not None:
            following = preview(at_epoch(self.sampler, self._epoch + 1))
            if following is not None and self._plans.send(self._epoch + 1, following.indices):
                self._queued = self._epoch + 1


def planned(
    loader: _Loader,
    *,
    client: Any = None,
    name: str | None = None,
    next_epoch: bool = True,
) -> _Loader:
    """Makes `loader` send the order of each epoch as a plan, and returns it. Its batches are unchanged.

    A loader of an iterable data set has no sampler, and is returned unchanged. `client`, `name`, `next_epoch`: see
    PlannedSampler."""
    plain: Any = loader
    if isinstance(plain.dataset, torch.utils.data.IterableDataset):
        return loader
    attribute = "sampler" if plain.batch_sampler is None else "batch_sampler"
    if not isinstance(getattr(plain, attribute), PlannedSampler):
        sampler = PlannedSampler(
            getattr(plain, attribute), plain.dataset, client=client, name=name, next_epoch=next_epoch
        )
        # DataLoader refuses another sampler, because it would not notice: this one has the same order.
        object.__setattr__(plain, attribute, sampler)
    return loader


def _dataset_of(sampler: Any) -> Any:
    """The data set that a sampler was made with."""
    while (inner := getattr(sampler, "sampler", None)) is not None:
        sampler = inner
    for name in ("dataset", "data_source"):
        if (dataset := getattr(sampler, name, None)) is not None:
            return dataset
    raise ValueError("the sampler does not know its data set: PlannedSampler(sampler, dataset)")


def _connection(client: Any, dataset: Any) -> Callable[[], Any]:
    """A function that returns the client of the plans: `client`, the data set's own, or one of the environment."""

    def connect() -> Any:
        if client is not None:
            return client
        from forebay_client.torch.dataset_client import client_for  # noqa: PLC0415 # only where a plan is sent

        return client_for(dataset)

    return connect
