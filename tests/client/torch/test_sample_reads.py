"""Samples by index, a batch for each bucket."""

from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from forebay_client.client_errors import ObjectNotFound
from forebay_client.objects import BatchItem
from forebay_client.torch.sample_list import named_samples
from forebay_client.torch.sample_reads import read_samples


class Batches:
    """A client whose objects hold their names, and come in any order."""

    def __init__(self) -> None:
        self.batches: list[tuple[str, list[str]]] = []

    def get_many(self, bucket: str, keys: Iterable[Any], *, ordered: bool = True) -> Iterator[BatchItem]:
        found = list(keys)
        self.batches.append((bucket, found))
        assert not ordered
        for index, key in reversed(list(enumerate(found))):
            if key == "gone":
                yield BatchItem(index, key, error=ObjectNotFound("gone", bucket=bucket, key=key))
            else:
                yield BatchItem(index, key, memoryview(f"{bucket}/{key}".encode()))


SAMPLES = named_samples(["s3://a/1", "s3://b/2", "s3://a/3"])


def test_a_batch_is_one_call_a_bucket() -> None:
    client = Batches()
    found = read_samples(client, SAMPLES, [2, 1, 0, -1, 2])
    assert [sample.read() for sample in found] == [b"a/3", b"b/2", b"a/1", b"a/3", b"a/3"]
    assert client.batches == [("a", ["3", "1", "3", "3"]), ("b", ["2"])]


def test_an_index_outside_is_an_error() -> None:
    for index in (3, -4):
        with pytest.raises(IndexError):
            read_samples(Batches(), SAMPLES, [0, index])


def test_the_error_of_a_sample_is_raised() -> None:
    with pytest.raises(ObjectNotFound):
        read_samples(Batches(), named_samples(["s3://a/1", "s3://a/gone"]), [0, 1])


def test_labels_come_along() -> None:
    samples = named_samples(["s3://a/1", "s3://a/2"], ["one", "two"])
    assert [sample.label for sample in read_samples(Batches(), samples, [1, 0])] == ["two", "one"]
