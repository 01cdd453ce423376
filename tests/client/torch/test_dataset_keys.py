"""Which objects the samples of a data set are."""

from array import array
from types import SimpleNamespace
from typing import Any

import pytest

from forebay_client.torch.dataset_keys import DatasetKeys, dataset_keys, lacks_bucket


def orders(dataset: Any, *order: int) -> dict[str, list[str]]:
    """The keys that indices stand for, by bucket."""
    found = dataset_keys(dataset)
    assert found is not None
    return {bucket: [found.keys[number] for number in numbers] for bucket, numbers in found.by_bucket(order).items()}


class WithMethod:
    def keys(self) -> list[str]:
        raise AssertionError("nothing is called")


NAMED = SimpleNamespace(bucket="set", keys=["a", "b", "c"])
OURS = SimpleNamespace(buckets=["set"], keys=["a", "b", "c"])
URIS = SimpleNamespace(keys=["s3://one/a", "oss://two/b", "forebay://one/c"])
PAIRS = [SimpleNamespace(bucket="set", key=key) for key in "abc"]
S3_CONNECTOR = SimpleNamespace(_bucket_key_pairs=PAIRS)
OSS_CONNECTOR = SimpleNamespace(_bucket_objects=[SimpleNamespace(key=f"/set/{key}") for key in "abc"])
IMAGES = SimpleNamespace(samples=[("s3://set/a", 0), ("s3://set/b", 1), ("s3://set/c", 1)], imgs=[])
SUBSET = SimpleNamespace(dataset=SimpleNamespace(dataset=NAMED, indices=[2, 0, 1]), indices=[0, 2, 1])


@pytest.mark.parametrize("dataset", [NAMED, OURS, S3_CONNECTOR, OSS_CONNECTOR, IMAGES])
def test_indices_become_keys(dataset: Any) -> None:
    assert orders(dataset, 2, 0, 2, -2) == {"set": ["c", "a", "c", "b"]}


def test_several_buckets_have_an_order_each() -> None:
    assert orders(URIS, 2, 1, 0) == {"one": ["c", "a"], "two": ["b"]}


def test_each_key_may_have_its_bucket() -> None:
    assert orders(SimpleNamespace(buckets=["x", "y"], keys=["a", "b"]), 1, 0) == {"y": ["b"], "x": ["a"]}


def test_a_subset_of_a_subset_is_followed() -> None:
    assert orders(SUBSET, 0, 1, 2) == {"set": ["c", "b", "a"]}


def test_concatenated_sets_count_on() -> None:
    inner = SimpleNamespace(dataset=NAMED, indices=[2])
    both = SimpleNamespace(datasets=[inner, URIS], cumulative_sizes=[1, 4])
    assert orders(both, 0, 3, 2) == {"set": ["c"], "one": ["c"], "two": ["b"]}


@pytest.mark.parametrize(
    "dataset",
    [
        SimpleNamespace(),
        WithMethod(),
        {"a": 1},
        SimpleNamespace(keys=["no bucket"]),
        SimpleNamespace(keys=["s3://set/a", "half"]),
        SimpleNamespace(samples=[("/data/a.jpg", 0)]),
        SimpleNamespace(samples=[]),
        SimpleNamespace(_bucket_key_pairs=None),
        SimpleNamespace(datasets=[NAMED, SimpleNamespace()], cumulative_sizes=[3, 4]),
        SimpleNamespace(dataset=SimpleNamespace(), indices=[1]),
    ],
)
def test_what_is_not_understood_is_none(dataset: Any) -> None:
    assert dataset_keys(dataset) is None


def test_an_index_outside_is_an_error() -> None:
    for order in ([3], [-4]):
        with pytest.raises((IndexError, OverflowError)):
            DatasetKeys(["a", "b", "c"], ["set"]).by_bucket(order)


def test_one_bucket_costs_four_bytes_an_entry() -> None:
    numbers = DatasetKeys(["a"] * 10, ["set"]).by_bucket(range(10))["set"]
    assert (numbers, numbers.itemsize) == (array("I", range(10)), 4)


@pytest.mark.parametrize(
    ("dataset", "lacks"),
    [
        (SimpleNamespace(keys=["a"]), True),
        (SimpleNamespace(keys=["a"], bucket=None), True),
        (SimpleNamespace(dataset=SimpleNamespace(keys=["a"]), indices=[0]), True),
        (NAMED, False),
        (OURS, False),
        (URIS, False),
        (WithMethod(), False),
        (SimpleNamespace(keys=[]), False),
        (SimpleNamespace(keys=[1, 2]), False),
        (SimpleNamespace(keys="ab"), False),
        (SimpleNamespace(samples=[("/local/a.jpg", 0)]), False),
        (object(), False),
    ],
)
def test_keys_without_a_bucket_are_recognised(dataset: Any, *, lacks: bool) -> None:
    assert lacks_bucket(dataset) is lacks
