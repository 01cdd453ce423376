"""PlannedSampler and planned(): the plans that they send, and that training is the same with and without."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from torch.utils.data import (
    BatchSampler,
    ConcatDataset,
    DataLoader,
    Dataset,
    DistributedSampler,
    RandomSampler,
    Sampler,
    SequentialSampler,
    Subset,
    SubsetRandomSampler,
    WeightedRandomSampler,
    dataloader,
)

from forebay_client.torch import PlannedSampler, planned
from forebay_client.torch.loader_hook import observe_loaders

COUNT = 50


class Numbers(Dataset):
    """Sample i is i; objects of one bucket."""

    def __init__(self, count: int = COUNT, bucket: str = "set") -> None:
        self.bucket = bucket
        self.keys = [f"train/{number:03}" for number in range(count)]

    def __len__(self) -> int:
        return len(self.keys)

    def __getitem__(self, index: int) -> int:
        return index


class Handle:
    def __init__(self, sent: "Plans", name: str) -> None:
        self.sent, self.name, self.is_accepted = sent, name, True

    def cancel(self) -> None:
        self.sent.cancelled.append(self.name)


class Plans:
    """A client that keeps the plans."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, str, list[str]]] = []
        self.cancelled: list[str] = []

    def plan(self, bucket: str, name: str, keys: Any, *, order: Any = None) -> Handle:
        self.sent.append((bucket, name, [keys[number] for number in order]))
        return Handle(self, name)

    @property
    def orders(self) -> list[list[int]]:
        """Of each plan, as indices."""
        return [[int(key.rpartition("/")[2]) for key in keys] for _, _, keys in self.sent]


class Unreachable:
    def plan(self, *_arguments: Any, **_options: Any) -> Handle:
        raise OSError("connection refused")


def seeded(seed: int) -> torch.Generator:
    generator = torch.Generator()
    generator.manual_seed(seed)
    return generator


SAMPLERS: dict[str, Callable[[Any, torch.Generator | None], Any]] = {
    "sequential": lambda data, _: SequentialSampler(data),
    "random": lambda data, generator: RandomSampler(data, generator=generator),
    "replacement": lambda data, generator: RandomSampler(data, True, 70, generator),
    "more than once": lambda data, generator: RandomSampler(data, False, 120, generator),
    "weighted": lambda data, generator: WeightedRandomSampler([1.0 + n for n in range(len(data))], 60, True, generator),
    "subset": lambda data, generator: SubsetRandomSampler(range(5, 45), generator),
    "distributed": lambda data, _: DistributedSampler(data, 3, 1, seed=4),
    "list": lambda _data, _generator: [3, 1, 2, 3],
    "batches": lambda data, generator: BatchSampler(RandomSampler(data, generator=generator), 7, True),
}


def epochs(
    wrap: Callable[[Any], Any], make: Callable[..., Any], own: bool, workers: int = 0, bucket: str = "set"
) -> list[Any]:
    """Two epochs of a loader, with draws of the program in between, and the state of every generator afterwards."""
    torch.manual_seed(11)
    generator = seeded(5) if own else None
    data = Numbers(bucket=bucket)
    sampler = make(data, generator)
    options: dict[str, Any] = (
        {"batch_sampler": sampler} if isinstance(sampler, BatchSampler) else {"sampler": sampler, "batch_size": 4}
    )
    loader = wrap(DataLoader(data, num_workers=workers, generator=generator, **options))
    found: list[Any] = []
    for _ in range(2):
        for batch in loader:
            found.append(batch.tolist())
            found.append(torch.rand(1).item())
    found.append(torch.get_rng_state().tolist())
    if generator is not None:
        found.append(generator.get_state().tolist())
    return found


def check_the_order_and_the_generators_are_as_without() -> None:
    for name, make in SAMPLERS.items():
        for own in (False, True):
            plans = Plans()
            without = epochs(lambda loader: loader, make, own)
            with_plans = epochs(partial(planned, client=plans), make, own)
            assert with_plans == without, (name, own)
            assert plans.sent, name


def check_a_plan_has_the_order_of_its_epoch() -> None:
    for name, make in SAMPLERS.items():
        if name == "distributed":
            continue
        for own in (False, True):
            plans = Plans()
            generator = seeded(1) if own else None
            data = Numbers()
            sampler = PlannedSampler(make(data, generator), data, client=plans)
            drawn: list[list[int]] = []
            for _ in range(3):
                flat: list[int] = []
                for number, unit in enumerate(sampler):
                    assert len(plans.sent) == len(drawn) + 1, "before the first index is used"
                    if number == 0 and not own:
                        torch.rand(3)
                    flat += unit if isinstance(unit, list) else [unit]
                drawn.append(flat)
            assert plans.orders == drawn, (name, own)
            assert len({plan for _, plan, _ in plans.sent}) == 3
            assert {bucket for bucket, _, _ in plans.sent} == {"set"}


def check_the_next_epoch_of_a_distributed_sampler_is_queued() -> None:
    plans, data = Plans(), Numbers()
    sampler = DistributedSampler(data, 2, 0)
    loader = planned(DataLoader(data, batch_size=5, sampler=sampler), client=plans, name="run/rank-0")
    read = []
    for epoch in range(3):
        sampler.set_epoch(epoch)
        read.append([number for batch in loader for number in batch.tolist()])
    assert [name for _, name, _ in plans.sent] == [f"run/rank-0/epoch-{epoch}" for epoch in range(4)]
    assert plans.orders[:3] == read
    assert plans.cancelled == []
    sampler.set_epoch(8)
    next(iter(loader))
    assert plans.cancelled == ["run/rank-0/epoch-3"]
    assert plans.sent[4][1] == "run/rank-0/epoch-8"
    next(iter(loader))
    assert "run/rank-0/epoch-8" in plans.cancelled, "an epoch that was left is given up"


def check_a_sampler_of_its_own_is_drawn_to_its_end() -> None:
    class Own(Sampler):
        def __iter__(self) -> Iterator[int]:
            return iter([4, 2, 4])

        def __len__(self) -> int:
            return 3

    class Endless(Sampler):
        def __iter__(self) -> Iterator[int]:
            while True:
                yield 1

    plans, data = Plans(), Numbers()
    assert list(PlannedSampler(Own(), data, client=plans)) == [4, 2, 4]
    assert plans.orders == [[4, 2, 4]]
    endless = PlannedSampler(Endless(), data, client=plans)
    drawn = iter(endless)
    assert [next(drawn) for _ in range(3)] == [1, 1, 1]
    assert (len(plans.sent), endless.counts.unknown) == (1, 1)


def check_nothing_that_fails_reaches_the_training() -> None:
    data = Numbers()
    failing = PlannedSampler(SequentialSampler(data), data, client=Unreachable())
    assert list(failing) == list(range(COUNT))
    assert (failing.counts.failed, failing.counts.sent) == (1, 0)

    class Silent(Dataset):
        def __len__(self) -> int:
            return 3

    silent = PlannedSampler(SequentialSampler(Silent()), Silent(), client=Plans())
    assert list(silent) == [0, 1, 2]
    assert silent.counts.unknown == 1


def check_subsets_and_several_buckets_are_mapped() -> None:
    plans = Plans()
    data = ConcatDataset([Subset(Numbers(), [7, 9]), Numbers(3, "other")])
    assert list(PlannedSampler(SequentialSampler(data), data, client=plans)) == [0, 1, 2, 3, 4]
    assert [(bucket, keys) for bucket, _, keys in plans.sent] == [
        ("set", ["train/007", "train/009"]),
        ("other", ["train/000", "train/001", "train/002"]),
    ]


def check_an_epoch_is_resumed_in_its_middle() -> None:
    for name, make in SAMPLERS.items():
        for own in (False, True):
            torch.manual_seed(3)
            data, generator = Numbers(), seeded(9) if own else None
            sampler = PlannedSampler(make(data, generator), data, client=Plans())
            list(sampler)
            drawn = iter(sampler)
            begun = [next(drawn) for _ in range(2)]
            state = sampler.state_dict()
            rest = list(drawn)
            following = list(sampler) if own else None

            torch.manual_seed(77)
            plans = Plans()
            other = seeded(1) if own else None
            resumed = PlannedSampler(make(data, other), data, client=plans)
            resumed.load_state_dict(state)
            assert list(resumed) == rest, name
            flat = [index for unit in rest for index in (unit if isinstance(unit, list) else [unit])]
            assert plans.orders[0] == flat, "the plan is of what is left"
            assert len(begun) == 2
            if following is not None:
                assert list(resumed) == following, name
            assert sampler.state_dict(yielded=len(begun) + len(rest))["yielded"] == 0, "the epoch is over"


def check_an_epoch_that_workers_have_drawn_ahead_is_resumed() -> None:
    """A loader with workers iterates twice before it draws, and draws to the end before the job is there."""
    for name, make in SAMPLERS.items():
        torch.manual_seed(3)
        data = Numbers()
        sampler = PlannedSampler(make(data, seeded(9)), data, client=Plans())
        units = list(sampler)
        for used in (1, len(units) - 1):
            resumed = PlannedSampler(make(data, seeded(1)), data, client=Plans())
            resumed.load_state_dict(sampler.state_dict(yielded=used))
            iter(resumed)
            assert list(resumed) == units[used:], name
        assert sampler.state_dict(yielded=len(units))["yielded"] == 0, "the epoch is over"


def check_attributes_of_the_sampler_within_are_there() -> None:
    data = Numbers()
    distributed = DistributedSampler(data, 2, 1)
    loader = planned(DataLoader(data, batch_size=4, sampler=distributed, drop_last=True), client=Plans())
    assert loader.sampler is distributed
    assert (loader.batch_sampler.batch_size, loader.batch_sampler.drop_last, len(loader)) == (4, True, 6)
    assert planned(loader).batch_sampler is loader.batch_sampler
    wrapped = PlannedSampler(distributed, client=Plans())
    wrapped.set_epoch(5)
    assert (distributed.epoch, len(wrapped)) == (5, 25)


class Observed:
    """DataLoader with the hook of `forebay run`, for a while."""

    def __enter__(self) -> None:
        self.plain = dataloader.DataLoader._index_sampler  # noqa: SLF001 # what the hook replaces
        observe_loaders(dataloader)

    def __exit__(self, *_error: object) -> None:
        dataloader.DataLoader._index_sampler = self.plain  # noqa: SLF001 # as above


def check_an_observed_loader_draws_as_without() -> None:
    for name, make in SAMPLERS.items():
        for own in (False, True):
            plain = epochs(lambda loader: loader, make, own)
            with Observed():  # of a data set that does not say its bucket, so that nothing is sent
                assert epochs(lambda loader: loader, make, own, bucket="") == plain, name


def check_only_what_is_understood_is_observed() -> None:
    class Own(Sampler):
        def __iter__(self) -> Iterator[int]:
            return iter([1])

    class Similar(RandomSampler):
        pass

    def index_sampler(loader: Any) -> Any:
        return loader._index_sampler  # noqa: SLF001 # as above

    data, plans = Numbers(), Plans()
    with Observed():
        loader = DataLoader(data, shuffle=True)
        assert type(index_sampler(loader)) is PlannedSampler
        assert index_sampler(loader) is index_sampler(loader)
        assert (type(loader.batch_sampler), type(loader.sampler)) == (BatchSampler, RandomSampler)
        assert len(loader) == COUNT
        for sampler in (Own(), Similar(data), PlannedSampler(RandomSampler(data), client=plans)):
            assert type(index_sampler(DataLoader(data, sampler=sampler))) is BatchSampler
        assert type(index_sampler(DataLoader([1, 2]))) is PlannedSampler
        assert list(DataLoader([1, 2], batch_size=None)) == [1, 2], "its samples are no objects"
