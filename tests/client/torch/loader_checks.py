"""Loaders with workers, forked and spawned, torchdata's stateful one, and the data sets of s3torchconnector."""

import io
from functools import partial
from typing import Any

import s3torchconnector
import torch
from torch.utils.data import DataLoader, RandomSampler
from torchdata.stateful_dataloader import StatefulDataLoader

import forebay_client.torch as ours
from client.torch.contents import CONTENTS, COUNT, PREFIX, URIS
from client.torch.sampler_checks import SAMPLERS, Numbers, Plans, epochs, seeded
from client.torch.torch_checks import Checks
from forebay_client import Client
from forebay_client.torch import planned


def named(sample: Any) -> tuple[str, int, bytes]:
    """A transform: what a training script does with a reader of any kind."""
    assert sample.bucket == "bucket"
    first = sample.read(1)
    sample.seek(-2, io.SEEK_END)
    assert sample.tell() == len(CONTENTS[sample.key]) - 2
    last = sample.read()
    sample.seek(0)
    return sample.key, len(sample.read()), first + last


def tensor_of(sample: Any) -> torch.Tensor:
    return torch.frombuffer(bytearray(sample.read()), dtype=torch.uint8)[:50]


def first_byte(sample: Any) -> int:
    return int(sample.view[0])


EXPECTED = [(key, len(content), content[:1] + content[-2:]) for key, content in CONTENTS.items()]


def check_the_workers_of_a_loader_change_nothing() -> None:
    make = SAMPLERS["random"]
    plans = Plans()
    without = epochs(lambda loader: loader, make, True)
    assert epochs(partial(planned, client=plans), make, True, workers=2)[:-2] == without[:-2]
    assert len(plans.sent) == 2


def shuffled_loader(workers: int, own: bool, sent: Plans) -> Any:
    generator = seeded(2) if own else None
    data = Numbers()
    loader = StatefulDataLoader(data, batch_size=5, shuffle=True, num_workers=workers, generator=generator)
    return planned(loader, client=sent)


def check_a_stateful_loader_resumes_in_mid_epoch() -> None:
    for workers in (0, 2):
        for own in (False, True):
            torch.manual_seed(5)
            first = shuffled_loader(workers, own, Plans())
            reading = iter(first)
            for _ in range(3):
                next(reading)
            state = first.state_dict()
            rest = [batch.tolist() for batch in reading]
            torch.manual_seed(77)
            again = Plans()
            second = shuffled_loader(workers, own, again)
            second.load_state_dict(state)
            assert [batch.tolist() for batch in second] == rest, (workers, own)
            assert again.orders[0] == [index for batch in rest for index in batch]


def check_a_loader_reads_each_sample_once(checks: Checks) -> None:
    client = Client(checks.endpoint)
    client.get("bucket", "train/00.bin")  # so that there is a connection, and a thread, that no worker may use
    for workers, start in ((0, None), (2, "fork"), (2, "spawn")):
        dataset = ours.ForebayMapDataset.from_prefix(PREFIX, client=client, transform=tensor_of)
        loader = DataLoader(
            dataset, 7, sampler=RandomSampler(dataset), num_workers=workers, multiprocessing_context=start
        )
        batches = list(loader)
        assert [len(batch) for batch in batches] == [7] * 5 + [5]
        assert sorted(int(row[0]) for batch in batches for row in batch) == list(range(COUNT)), start


def check_the_workers_of_a_loader_share_an_iterable(checks: Checks) -> None:
    client = Client(checks.endpoint)
    for kind in (ours.ForebayIterableDataset, ours.S3IterableDataset):
        where = (
            {"client": client}
            if kind is ours.ForebayIterableDataset
            else {"endpoint": checks.endpoint, "enable_sharding": True}
        )
        found = kind.from_prefix(PREFIX, transform=first_byte, **where)
        assert sorted(DataLoader(found, batch_size=None, num_workers=2)) == list(range(COUNT))
    each = ours.S3IterableDataset.from_prefix(PREFIX, transform=first_byte, endpoint=checks.endpoint)
    assert sorted(DataLoader(each, batch_size=None, num_workers=2)) == sorted([*range(COUNT), *range(COUNT)])


def check_a_stateful_loader_resumes_an_iterable(checks: Checks) -> None:
    client = Client(checks.endpoint)

    def loader() -> Any:
        data = ours.ForebayIterableDataset.from_prefix(
            PREFIX, client=client, transform=first_byte, shuffle=True, batch=3
        )
        return StatefulDataLoader(data, batch_size=4, num_workers=2)

    first = loader()
    reading = iter(first)
    begun = [next(reading).tolist() for _ in range(4)]
    state = first.state_dict()
    rest = [batch.tolist() for batch in reading]
    second = loader()
    second.load_state_dict(state)
    assert [batch.tolist() for batch in second] == rest
    assert sorted(number for batch in begun + rest for number in batch) == list(range(COUNT))


def check_the_same_code_runs_with_the_connector_and_without(checks: Checks) -> None:
    # The last: where s3torchconnector has read, a fork may hang, as it says itself.
    config = s3torchconnector.S3ClientConfig(force_path_style=True)
    where = {"region": "us-east-1", "endpoint": checks.endpoint, "s3client_config": config}
    for kind, iterable in (
        (s3torchconnector.S3MapDataset, s3torchconnector.S3IterableDataset),
        (ours.S3MapDataset, ours.S3IterableDataset),
    ):
        by_prefix = kind.from_prefix(PREFIX, transform=named, **where)
        assert (len(by_prefix), [by_prefix[i] for i in range(COUNT)]) == (COUNT, EXPECTED)
        assert by_prefix[-1] == EXPECTED[-1]
        by_name = kind.from_objects(URIS, transform=named, **where)
        assert [by_name[i] for i in (3, 1)] == [EXPECTED[3], EXPECTED[1]]
        assert list(iterable.from_prefix(PREFIX, transform=named, **where)) == EXPECTED
        assert list(iterable.from_objects(URIS[:3], transform=named, **where)) == EXPECTED[:3]
        sample = kind.from_objects(URIS[4:5], **where)[0]
        buffer = bytearray(10)
        assert (sample.key, sample.readinto(buffer), bytes(buffer)) == ("train/04.bin", 10, bytes([4]) * 10)
