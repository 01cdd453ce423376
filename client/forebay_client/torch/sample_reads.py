"""Samples by index, in one batch for each bucket."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Protocol

from forebay_client.objects import index_of
from forebay_client.torch.sample_file import SampleFile
from forebay_client.torch.sample_list import SampleList


class BatchClient(Protocol):
    """The method of a Client that is used here."""

    def get_many(self, bucket: str, keys: Iterable[Any], *, ordered: bool = True) -> Iterator[Any]:
        """Many objects of a bucket."""


def read_samples(client: BatchClient, samples: SampleList, indices: Sequence[int]) -> list[SampleFile]:
    """Reads samples, in the order of `indices`. Raises IndexError, and the ClientError of one that can't be read."""
    count = len(samples)
    numbers = [index_of(index, "an index of a data set") for index in indices]
    wanted = [number + (count if number < 0 else 0) for number in numbers]
    if any(not 0 <= index < count for index in wanted):
        raise IndexError(f"an index of {indices} is outside of a data set of {count}")
    if len(samples.buckets) == 1:
        groups = {samples.buckets[0]: list(range(len(wanted)))}
    else:
        groups = {}
        for at, index in enumerate(wanted):
            groups.setdefault(samples.bucket(index), []).append(at)
    found: dict[int, SampleFile] = {}
    for bucket, positions in groups.items():
        keys = [samples.keys[wanted[at]] for at in positions]
        for item in client.get_many(bucket, keys, ordered=False):
            at = positions[item.index]
            found[at] = SampleFile(bucket, keys[item.index], item.content(), samples.label(wanted[at]))
    return [found[at] for at in range(len(wanted))]
