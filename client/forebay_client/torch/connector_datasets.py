"""Data sets with the names and arguments of s3torchconnector's and osstorchconnector's: an import is all that changes.

    from forebay_client.torch import S3MapDataset          # instead of: from s3torchconnector import S3MapDataset
    dataset = S3MapDataset.from_prefix("s3://datasets/train/", region="us-east-1", endpoint=..., transform=decode)

The differences: a batch is one round trip. An iterable data set lists when it is made, once for all workers. The bytes
of a sample are in memory when its transform is called, so `reader_constructor` is ignored. A missing object raises
ObjectNotFound, where osstorchconnector calls the transform with None. Of `s3client_config` only the profile, `unsigned`
and `max_attempts` are used. Buckets are addressed by path.
"""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Self

from forebay_client.torch.dataset_client import oss_client, s3_client
from forebay_client.torch.iterable_dataset import ForebayIterableDataset
from forebay_client.torch.map_dataset import ForebayMapDataset
from forebay_client.torch.object_dataset import Transform
from forebay_client.torch.sample_file import SampleFile, identity
from forebay_client.torch.sample_list import (
    ManifestParser,
    SampleList,
    listed_samples,
    manifest_samples,
    named_samples,
)

if TYPE_CHECKING:
    from forebay_client.client import Client


class _S3Dataset:
    """The attributes of both data sets of s3torchconnector."""

    region: str | None = None
    """The region that the constructor was given; None: that of the environment."""
    endpoint: str | None = None
    """The endpoint that the constructor was given; None: that of the environment."""

    def _at(self, region: str | None, endpoint: str | None) -> Self:
        self.region, self.endpoint = region, endpoint
        return self


class S3MapDataset(_S3Dataset, ForebayMapDataset):
    """Replaces s3torchconnector.S3MapDataset."""

    @classmethod
    def from_prefix(  # type: ignore[override] # the arguments are s3torchconnector's
        cls,
        s3_uri: str,
        *,
        region: str | None = None,
        endpoint: str | None = None,
        transform: Transform = identity,
        s3client_config: Any = None,
        reader_constructor: Any = None,
    ) -> Self:
        """A data set of the objects whose keys begin with the prefix of `s3_uri`, `s3://bucket/prefix`, by
        s3torchconnector's arguments. `transform`: called with the SampleFile of each. `reader_constructor` is ignored.

        Raises ValueError for what is no URI, and the ClientError of the listing."""
        client = s3_client(region, endpoint, s3client_config)
        made = cls(lambda found: listed_samples(found, s3_uri), client=client, transform=transform)
        return made._at(region, endpoint)

    @classmethod
    def from_objects(  # type: ignore[override] # as above
        cls,
        object_uris: str | Iterable[str],
        *,
        region: str | None = None,
        endpoint: str | None = None,
        transform: Transform = identity,
        s3client_config: Any = None,
        reader_constructor: Any = None,
    ) -> Self:
        """A data set of the objects that URIs name, `s3://bucket/key`, in their order, by s3torchconnector's arguments.
        `transform`: called with each sample's SampleFile. `reader_constructor` is ignored.

        Raises ValueError for what is no URI."""
        client = s3_client(region, endpoint, s3client_config)
        made = cls(named_samples(object_uris), client=client, transform=transform)
        return made._at(region, endpoint)


class S3IterableDataset(_S3Dataset, ForebayIterableDataset):
    """Replaces s3torchconnector.S3IterableDataset."""

    @classmethod
    def from_prefix(  # type: ignore[override] # as above
        cls,
        s3_uri: str,
        *,
        region: str | None = None,
        endpoint: str | None = None,
        transform: Transform = identity,
        s3client_config: Any = None,
        enable_sharding: bool = False,
        reader_constructor: Any = None,
    ) -> Self:
        """A data set of the objects whose keys begin with the prefix of `s3_uri`, `s3://bucket/prefix`, by
        s3torchconnector's arguments. `transform`: called with the SampleFile of each. `reader_constructor` is ignored.

        Raises ValueError for what is no URI, and the ClientError of the listing."""
        client = s3_client(region, endpoint, s3client_config)
        made = cls(listed_samples(client, s3_uri), client=client, transform=transform, sharding=enable_sharding)
        return made._at(region, endpoint)

    @classmethod
    def from_objects(  # type: ignore[override] # as above
        cls,
        object_uris: str | Iterable[str],
        *,
        region: str | None = None,
        endpoint: str | None = None,
        transform: Transform = identity,
        s3client_config: Any = None,
        enable_sharding: bool = False,
        reader_constructor: Any = None,
    ) -> Self:
        """A data set of the objects that URIs name, `s3://bucket/key`, in their order, by s3torchconnector's arguments.
        `transform`: called with each sample's SampleFile. `reader_constructor` is ignored.

        Raises ValueError for what is no URI."""
        client = s3_client(region, endpoint, s3client_config)
        made = cls(named_samples(object_uris), client=client, transform=transform, sharding=enable_sharding)
        return made._at(region, endpoint)


class _OssDataset:
    """The constructors that both of osstorchconnector's data sets have."""

    @classmethod
    def from_prefix(cls, oss_uri: str, endpoint: str, *, transform: Transform = identity, **options: Any) -> Any:
        """A data set of the objects whose keys begin with the prefix of `oss_uri`, `oss://bucket/prefix`, by
        osstorchconnector's arguments: `options` are `cred_path`, `cred_provider`, `config_path` and `region`.

        Raises ValueError for what is no URI, and the ClientError of the listing."""
        return cls._of(lambda client: listed_samples(client, _oss_uri(oss_uri)), endpoint, transform, **options)

    @classmethod
    def from_objects(
        cls, object_uris: str | Iterable[str], endpoint: str, *, transform: Transform = identity, **options: Any
    ) -> Any:
        """A data set of the objects that URIs name, `oss://bucket/key`, in their order. `options`: see from_prefix.

        Raises ValueError for what is no URI."""
        uris = [object_uris] if isinstance(object_uris, str) else object_uris
        return cls._of(lambda _: named_samples(map(_oss_uri, uris)), endpoint, transform, **options)

    @classmethod
    def from_manifest_file(
        cls,
        manifest_file_path: str,
        manifest_parser: ManifestParser,
        oss_base_uri: str,
        endpoint: str,
        *,
        transform: Transform = identity,
        **options: Any,
    ) -> Any:
        """A data set of the objects that a manifest lists, with their labels. `manifest_parser`: called with the open
        file, yields keys with labels; `oss_base_uri` is put in front of each key. `options`: see from_prefix."""

        def parse(file: Any) -> Iterable[tuple[str, Any]]:
            return [(_oss_uri(oss_base_uri + key), label) for key, label in manifest_parser(file)]

        def read(client: "Client") -> SampleList:
            return manifest_samples(client, manifest_file_path, parse)

        return cls._of(read, endpoint, transform, **options)

    @classmethod
    def _of(
        cls,
        read: Callable[["Client"], SampleList],
        endpoint: str,
        transform: Transform,
        *,
        cred_path: str = "",
        cred_provider: Any = None,
        config_path: str = "",
        region: str = "",
    ) -> Any:
        # config_path: of the threads and logs of osstorchconnector's own library, which is not used here.
        client = oss_client(endpoint, cred_path=cred_path, cred_provider=cred_provider, region=region)
        return cls(read(client), client=client, transform=_OssTransform(transform))  # type: ignore[call-arg] # of the data set beside it


class OssMapDataset(_OssDataset, ForebayMapDataset):  # type: ignore[misc] # the arguments are osstorchconnector's
    """Replaces osstorchconnector.OssMapDataset, without `from_tar`."""


class OssIterableDataset(_OssDataset, ForebayIterableDataset):  # type: ignore[misc] # as above
    """Replaces osstorchconnector.OssIterableDataset, without `from_tar`: ShardDataset reads archives."""

    def __init__(self, samples: SampleList, **options: Any) -> None:
        super().__init__(samples, **options)
        self._rank, self._ranks = 0, 1  # the workers of a loader share the objects, ranks do not


def _oss_uri(uri: str) -> str:
    """`oss://bucket/key`, also of `/bucket/key`, the form in which the connector names objects."""
    return f"oss:/{uri}" if uri.startswith("/") else uri


class _OssTransform:
    """Calls a transform with a sample whose key has osstorchconnector's form, /BUCKET/KEY."""

    def __init__(self, transform: Transform) -> None:
        self._transform = transform

    def __call__(self, sample: SampleFile) -> Any:
        sample.key = f"/{sample.bucket}/{sample.key}"
        return self._transform(sample)
