"""The objects of a data set, in the order of their indices: listed under a prefix, named one by one, or in a manifest.

A manifest is a file, or an object, of

    text         a key or URI on each line, optionally a tab and a label
    JSON lines   an object on each line: {"key": "train/7.jpg", "label": 3}; recognised by its first byte, {

or of another form, for which the caller passes a parser.
"""

import io
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from forebay_client.object_uri import SCHEMES, split_uri
from forebay_client.objects import ObjectInfo

ManifestParser = Callable[[Any], Iterable[tuple[str, Any]]]
"""Reads a binary file, returns keys with their labels."""


class ListingClient(Protocol):
    """The methods of a Client that are used here."""

    def get(self, bucket: str, key: str) -> memoryview:
        """A whole object."""

    def list(self, bucket: str, prefix: str = "") -> Iterator[Any]:
        """The objects under a prefix."""


@dataclass(frozen=True, slots=True)
class SampleList:
    """Keys by index."""

    keys: Sequence[str]
    buckets: Sequence[str]
    """The bucket of each key; or a single bucket, that of all."""
    labels: Sequence[Any] = ()
    """The label of each key; empty: there are no labels."""
    uri: str = ""
    """The URI of the first object; empty: objects were named by their keys."""

    def __len__(self) -> int:
        return len(self.keys)

    def bucket(self, index: int) -> str:
        """The bucket of one sample."""
        return self.buckets[0] if len(self.buckets) == 1 else self.buckets[index]

    def label(self, index: int) -> Any:
        """The label of one sample; empty if there is none."""
        return self.labels[index] if self.labels else ""


def listed_samples(client: ListingClient, uri: str) -> SampleList:
    """The objects whose keys begin with the prefix of `uri`, in the listing's order."""
    bucket, prefix = parse_sample_uri(uri)
    return SampleList([found.key for found in client.list(bucket, prefix) if isinstance(found, ObjectInfo)], [bucket])


def named_samples(uris: str | Iterable[str], labels: Sequence[Any] = ()) -> SampleList:
    """The objects of these URIs."""
    named = [uris] if isinstance(uris, str) else list(uris)
    pairs = [parse_sample_uri(uri) for uri in named]
    buckets = [bucket for bucket, _ in pairs]
    single = buckets[:1] if len(set(buckets)) == 1 else buckets
    return SampleList([key for _, key in pairs], single, labels, "".join(named[:1]))


def manifest_samples(
    client: ListingClient | None, location: str | Path, parser: ManifestParser | None = None, base_uri: str = ""
) -> SampleList:
    """The objects that a manifest lists. `location`: a URI, or a path, which needs no client. `base_uri`: a prefix for
    each key."""
    if client is not None and is_uri(location):
        content = bytes(client.get(*parse_sample_uri(str(location))))
    else:
        content = Path(location).read_bytes()
    rows = list((parser or parse_manifest)(io.BytesIO(content)))
    return named_samples([base_uri + key for key, _ in rows], [label for _, label in rows])


def parse_manifest(file: Any) -> Iterator[tuple[str, Any]]:
    """Yields the keys and labels of a manifest in one of the forms above. Raises ValueError with a line number."""
    for number, line in enumerate(file.read().decode().splitlines(), 1):
        if not line.strip():
            continue
        if line.startswith("{"):
            try:
                row = json.loads(line)
                yield row["key"], row.get("label", "")
            except (ValueError, KeyError, TypeError) as error:
                raise ValueError(f"line {number} of the manifest: {error!r}") from error
        else:
            key, _, label = line.partition("\t")
            yield key, label


def is_uri(location: str | Path) -> bool:
    """Whether a location is a URI, not a path."""
    return isinstance(location, str) and location.startswith(SCHEMES)


def parse_sample_uri(uri: str) -> tuple[str, str]:
    """Bucket and key, or prefix, of `s3://bucket/key`. Raises ValueError."""
    found = split_uri(uri)
    if found is None:
        raise ValueError(f"a URI is s3://BUCKET/KEY, with oss:// or forebay:// alike, not {uri!r}")
    return found.bucket, found.key
