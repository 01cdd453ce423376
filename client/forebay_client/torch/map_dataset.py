"""Objects as a map data set: sample i is the object of key i, and a batch is one round trip.

    dataset = ForebayMapDataset.from_prefix("s3://datasets/train/", transform=decode)
    loader = planned(DataLoader(dataset, batch_size=256, shuffle=True, num_workers=8))

The workers of a loader may be forked or spawned; each has connections of its own. With `batch_size=None` a loader asks
for one sample at a time, and then each is a round trip.
"""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import torch.utils.data

from forebay_client.torch.dataset_client import default_client
from forebay_client.torch.packed_samples import PackedSamples
from forebay_client.torch.sample_file import SampleFile, identity
from forebay_client.torch.sample_list import (
    ManifestParser,
    SampleList,
    listed_samples,
    manifest_samples,
    named_samples,
)
from forebay_client.torch.sample_reads import read_samples

if TYPE_CHECKING:
    from forebay_client.client import Client

Transform = Callable[[SampleFile], Any]


class ForebayMapDataset(torch.utils.data.Dataset):
    """The objects of `samples`, each as what `transform` makes of its SampleFile.

    `samples`: or what lists them, called when the length, or a sample, is wanted first. `client`: by default one of the
    environment.
    """

    def __init__(
        self,
        samples: SampleList | Callable[["Client"], SampleList],
        *,
        client: "Client | None" = None,
        transform: Transform = identity,
    ) -> None:
        self._samples = samples
        self._transform = transform
        self._client = client
        self._pack: PackedSamples | None = None
        """What the samples are read with, if not with the client."""

    @classmethod
    def from_prefix(cls, uri: str, *, client: "Client | None" = None, transform: Transform = identity) -> Self:
        """The objects under `s3://bucket/prefix`."""
        return cls(lambda found: listed_samples(found, uri), client=client, transform=transform)

    @classmethod
    def from_objects(
        cls, uris: str | Iterable[str], *, client: "Client | None" = None, transform: Transform = identity
    ) -> Self:
        """The objects of these URIs."""
        return cls(named_samples(uris), client=client, transform=transform)

    @classmethod
    def from_keys(
        cls, bucket: str, keys: Sequence[str], *, client: "Client | None" = None, transform: Transform = identity
    ) -> Self:
        """The objects of these keys in one bucket."""
        return cls(SampleList(keys, [bucket]), client=client, transform=transform)

    @classmethod
    def from_manifest(
        cls,
        location: str | Path,
        *,
        parser: ManifestParser | None = None,
        base_uri: str = "",
        client: "Client | None" = None,
        transform: Transform = identity,
    ) -> Self:
        """The objects that a manifest lists, with labels (forebay_client.torch.sample_list has its forms)."""
        return cls(
            lambda found: manifest_samples(lambda: found, location, parser, base_uri),
            client=client,
            transform=transform,
        )

    @classmethod
    def from_pack(
        cls, uri: str, *, prefix: str = "", client: "Client | None" = None, transform: Transform = identity
    ) -> Self:
        """The members of the pack with the index `uri` whose keys begin with `prefix`, read from its shards."""
        pack = PackedSamples(uri, client)
        made = cls(pack.samples(prefix), client=pack.client, transform=transform)
        made._pack = pack
        return made

    @property
    def client(self) -> "Client":
        """What the objects are read with."""
        if self._client is None:
            self._client = default_client()
        return self._client

    @property
    def samples_read(self) -> SampleList:
        """The objects; listed when they are wanted first."""
        if not isinstance(self._samples, SampleList):
            self._samples = self._samples(self.client)
        return self._samples

    @property
    def keys(self) -> Sequence[str] | None:
        """Of each sample, by index; with `buckets`, what plans are made of. None: they are no objects."""
        return self.samples_read.keys if self._pack is None else None

    @property
    def buckets(self) -> Sequence[str]:
        """Of each sample, or a single one."""
        return self.samples_read.buckets

    def __len__(self) -> int:
        return len(self.samples_read)

    def __getitem__(self, index: int) -> Any:
        return self.__getitems__([index])[0]

    def __getitems__(self, indices: Sequence[int]) -> list[Any]:
        # What a loader's worker calls with a batch. Raises the ClientError of the first sample that can't be read.
        reader = self._pack or self.client
        return [self._transform(sample) for sample in read_samples(reader, self.samples_read, indices)]

    def __getstate__(self) -> dict[str, Any]:
        # For spawned workers: what lists may be a function that can't be pickled.
        return {**self.__dict__, "_samples": self.samples_read}
