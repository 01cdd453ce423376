"""The members of a pack as the samples of a data set: read from its shards by a PackReader, without a rule, and without
Forebay.

A data set of members has no plan: without a `packed` rule its keys are not objects, and a plan would look up each of
them for nothing. Under such a rule, data sets of keys and prefixes read members, and have plans.
"""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from forebay_client.packs import PackReader
from forebay_client.torch.dataset_client import default_client
from forebay_client.torch.sample_list import SampleList, parse_sample_uri

if TYPE_CHECKING:
    from forebay_client.client import Client


class PackedSamples:
    """Reads batches of members. Pickles as its arguments, and reads the index anew."""

    def __init__(self, uri: str, client: "Client | None") -> None:
        """`uri`: of the pack's index, `s3://bucket/packed/train/index.fbpack`. Raises ClientError."""
        self.client = client if client is not None else default_client(uri)
        self.bucket, index_key = parse_sample_uri(uri)
        self._reader = PackReader(self.client, self.bucket, index_key)

    def samples(self, prefix: str) -> SampleList:
        """The members whose keys begin with `prefix`, in the order of their keys."""
        return SampleList(list(self._reader.keys(prefix)), [self.bucket])

    def get_many(self, _bucket: str, keys: Iterable[Any], *, ordered: bool = True) -> Iterator[Any]:
        """See BatchClient."""
        return self._reader.get_many(keys, ordered=ordered)
