"""Dataset keys: finds the bucket and key of each sample of a data set, for plans.

The attributes of a data set are tried in this order. If it has none of them, its keys are unknown, and no plan is sent.

    keys, bucket                     the documented way: `keys` are the keys by index, or URIs, then without `bucket`;
                                     `buckets` instead of it: that of each
    _bucket_key_pairs                s3torchconnector's map data set, once it has listed
    _bucket_objects                  osstorchconnector's
    samples, imgs                    as of torchvision's ImageFolder: pairs that begin with a URI, or a key of `bucket`
    dataset and indices; datasets    torch.utils.data.Subset; ConcatDataset: of those above

Nothing here imports torch or lists a bucket, and no attribute is called.
"""

from array import array
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from forebay_client.object_uri import ObjectUri, split_uri


class DatasetKeys(NamedTuple):
    """The objects of a data set, by index."""

    keys: Sequence[str]
    buckets: Sequence[str]
    """The bucket of each key; or a single bucket, that of all."""
    subset: Sequence[int] | None = None
    """The number of the key that each index stands for; None: its own number."""

    def by_bucket(self, order: Iterable[int]) -> dict[str, "array[int]"]:
        """The numbers of the keys that `order` stands for, by bucket, each in that order. Raises IndexError."""
        count = len(self.keys) if self.subset is None else len(self.subset)
        numbers = array("I", [index if index >= 0 else count + index for index in order])
        if numbers and max(numbers) >= count:
            raise IndexError(f"index {max(numbers)} of a data set of {count}")
        if self.subset is not None:
            subset = self.subset
            numbers = array("I", [subset[number] for number in numbers])
        if len(self.buckets) == 1:
            return {self.buckets[0]: numbers}
        found: dict[str, array[int]] = {}
        for number in numbers:
            found.setdefault(self.buckets[number], array("I")).append(number)
        return found


def dataset_keys(dataset: Any) -> DatasetKeys | None:
    """The objects of `dataset`; None: its attributes do not name them."""
    for read in (_named_keys, _connector_keys, _labelled_samples, _subset, _concatenated):
        found = read(dataset)
        if found is not None:
            return found
    return None


def lacks_bucket(dataset: Any) -> bool:
    """Whether a data set, or the one that it is a subset of, has keys, and does not say of which bucket."""
    if hasattr(dataset, "dataset") and hasattr(dataset, "indices"):
        dataset = dataset.dataset
    keys = getattr(dataset, "keys", None)
    is_named = isinstance(keys, Sequence) and not isinstance(keys, str) and len(keys) > 0 and isinstance(keys[0], str)
    return is_named and _named_keys(dataset) is None


def _named_keys(dataset: Any) -> DatasetKeys | None:
    keys = getattr(dataset, "keys", None)
    return _of_names(dataset, keys) if isinstance(keys, Sequence) else None


def _connector_keys(dataset: Any) -> DatasetKeys | None:
    pairs = getattr(dataset, "_bucket_key_pairs", None)
    if isinstance(pairs, list) and pairs and hasattr(pairs[0], "bucket"):
        return _of_pairs([(each.bucket, each.key) for each in pairs])
    objects = getattr(dataset, "_bucket_objects", None)
    if isinstance(objects, list) and objects and isinstance(getattr(objects[0], "key", None), str):
        return _of_uris([f"oss:/{key}" if (key := each.key).startswith("/") else key for each in objects])
    return None


def _labelled_samples(dataset: Any) -> DatasetKeys | None:
    for name in ("samples", "imgs"):
        samples = getattr(dataset, name, None)
        if isinstance(samples, list) and samples and isinstance(samples[0], tuple | list):
            return _of_names(dataset, [sample[0] for sample in samples])
    return None


def _subset(dataset: Any) -> DatasetKeys | None:
    inner, indices = getattr(dataset, "dataset", None), getattr(dataset, "indices", None)
    if inner is None or not isinstance(indices, Sequence):
        return None
    found = dataset_keys(inner)
    if found is None:
        return None
    outer = found.subset
    return found._replace(subset=indices if outer is None else [outer[index] for index in indices])


def _concatenated(dataset: Any) -> DatasetKeys | None:
    datasets = getattr(dataset, "datasets", None)
    if (
        not isinstance(datasets, list)
        or not datasets
        or not isinstance(getattr(dataset, "cumulative_sizes", None), list)
    ):
        return None
    pairs: list[tuple[str, str]] = []
    for inner in datasets:
        found = dataset_keys(inner)
        if found is None:
            return None
        numbers = found.subset if found.subset is not None else range(len(found.keys))
        several = len(found.buckets) > 1
        pairs += [(found.buckets[number if several else 0], found.keys[number]) for number in numbers]
    return _of_pairs(pairs)


def _of_names(dataset: Any, names: Sequence[Any]) -> DatasetKeys | None:
    if not names or not isinstance(names[0], str):
        return None
    bucket = getattr(dataset, "bucket", None)
    if isinstance(bucket, str) and bucket:
        return DatasetKeys(names, [bucket])
    buckets = getattr(dataset, "buckets", None)
    if isinstance(buckets, Sequence) and len(buckets) in {1, len(names)}:
        return DatasetKeys(names, buckets)
    return _of_uris(names)


def _of_uris(uris: Sequence[str]) -> DatasetKeys | None:
    found = [split_uri(uri) for uri in uris]
    pairs = [(each.bucket, each.key) for each in found if isinstance(each, ObjectUri) and each.key]
    return _of_pairs(pairs) if pairs and len(pairs) == len(found) else None


def _of_pairs(pairs: Sequence[tuple[str, str]]) -> DatasetKeys:
    buckets = [bucket for bucket, _ in pairs]
    same = len(set(buckets)) == 1
    return DatasetKeys([key for _, key in pairs], buckets[:1] if same else buckets)
