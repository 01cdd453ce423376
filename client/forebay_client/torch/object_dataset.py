"""The base of the data sets of objects: the list of the objects, and the client that reads them.

from_prefix, from_objects, from_keys, from_manifest     objects, read by a Client
from_pack                                               members of a pack, read from its shards
"""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from forebay_client.objects import checked_keys
from forebay_client.torch.dataset_client import default_client
from forebay_client.torch.packed_samples import PackedSamples
from forebay_client.torch.sample_file import SampleFile, identity
from forebay_client.torch.sample_list import (
    ManifestParser,
    SampleList,
    is_uri,
    listed_samples,
    manifest_samples,
    named_samples,
)
from forebay_client.torch.sample_reads import read_samples

if TYPE_CHECKING:
    from forebay_client.client import Client

Transform = Callable[[SampleFile], Any]


class ObjectDataset:
    """Samples that are objects. A sample is the result of `transform` for its SampleFile.

    `samples`: the list, or a function that lists them, called at the first read. `client`: by default one of the
    environment, which speaks OSS for URIs with `oss://`. `pack`: reads the samples in place of the client; they are
    then members, and have no plan.
    """

    def __init__(
        self,
        samples: SampleList | Callable[["Client"], SampleList],
        *,
        client: "Client | None" = None,
        transform: Transform = identity,
        pack: PackedSamples | None = None,
    ) -> None:
        self._samples, self._client, self._transform, self._pack = samples, client, transform, pack
        self._uri = samples.uri if isinstance(samples, SampleList) else ""
        """Decides the protocol of a client of the environment."""

    def _at_uri(self, uri: str) -> Self:
        self._uri = uri
        return self

    @classmethod
    def from_prefix(
        cls, uri: str, *, client: "Client | None" = None, transform: Transform = identity, **options: Any
    ) -> Self:
        """The objects under `s3://bucket/prefix`, in the order of their keys. `options`: of the class.

        Raises ValueError for what is no URI, and the ClientError of the listing."""
        made = cls(lambda found: listed_samples(found, uri), client=client, transform=transform, **options)
        return made._at_uri(uri)

    @classmethod
    def from_objects(
        cls,
        uris: str | Iterable[str],
        *,
        client: "Client | None" = None,
        transform: Transform = identity,
        **options: Any,
    ) -> Self:
        """The objects of these URIs. `options`: of the class. Raises ValueError for an invalid URI."""
        return cls(named_samples(uris), client=client, transform=transform, **options)

    @classmethod
    def from_keys(
        cls,
        bucket: str,
        keys: Iterable[str],
        *,
        client: "Client | None" = None,
        transform: Transform = identity,
        **options: Any,
    ) -> Self:
        """The objects of these keys in one bucket. `options`: of the class."""
        listed = checked_keys(keys)
        listed = listed if isinstance(listed, Sequence) else list(listed)
        return cls(SampleList(listed, [bucket]), client=client, transform=transform, **options)

    @classmethod
    def from_manifest(
        cls,
        location: str | Path,
        *,
        parser: ManifestParser | None = None,
        base_uri: str = "",
        client: "Client | None" = None,
        transform: Transform = identity,
        **options: Any,
    ) -> Self:
        """The objects that a manifest lists, with labels (forebay_client.torch.sample_list has its forms).

        `location`: its URI, or a path. `base_uri`: is put in front of each of its keys. `options`: of the class. Raises
        ValueError with the line that can't be read, OSError or ClientError where the manifest can't be."""
        if not is_uri(location):
            samples = manifest_samples(None, location, parser, base_uri)
            return cls(samples, client=client, transform=transform, **options)
        made = cls(
            lambda found: manifest_samples(found, location, parser, base_uri),
            client=client,
            transform=transform,
            **options,
        )
        return made._at_uri(str(location))

    @classmethod
    def from_pack(
        cls,
        uri: str,
        *,
        prefix: str = "",
        client: "Client | None" = None,
        transform: Transform = identity,
        **options: Any,
    ) -> Self:
        """The members of the pack with the index `uri` whose keys begin with `prefix`, read from its shards. `options`:
        of the class. Raises ValueError for an invalid URI, and the ClientError of reading the index."""
        pack = PackedSamples(uri, client)
        return cls(pack.samples(prefix), client=pack.client, transform=transform, pack=pack, **options)

    @property
    def client(self) -> "Client":
        """The client that reads the objects. Raises ClientConfigurationError if the environment configures none."""
        if self._client is None:
            self._client = default_client(self._uri)
        return self._client

    @property
    def samples_read(self) -> SampleList:
        """The list of the objects, which is made at the first use."""
        if not isinstance(self._samples, SampleList):
            self._samples = self._samples(self.client)
        return self._samples

    @property
    def keys(self) -> Sequence[str] | None:
        """The key of each sample; plans are made of these and `buckets`. None: the samples are members of packs."""
        return self.samples_read.keys if self._pack is None else None

    @property
    def buckets(self) -> Sequence[str]:
        """The bucket of each sample; or a single bucket, that of all."""
        return self.samples_read.buckets

    def _read(self, indices: Sequence[int]) -> list[SampleFile]:
        """Reads samples in one round trip. Raises IndexError, and the ClientError of the first that can't be read."""
        return read_samples(self._pack or self.client, self.samples_read, indices)

    def __getstate__(self) -> dict[str, Any]:
        # For spawned workers: the function that lists the samples may be one that can't be pickled.
        return {**self.__dict__, "_samples": self.samples_read}
