"""torch.save and torch.load for objects.

    save(model.state_dict(), "s3://ckpts/run-7/last.pt")
    state = load("s3://ckpts/run-7/last.pt", map_location="cpu")

A load reads the object in parallel into memory of its own and maps it: tensors are not copied again. A save streams,
and the object appears whole or not at all.
"""

from typing import TYPE_CHECKING, Any

import torch

from forebay_client.local_path import path
from forebay_client.torch.dataset_client import default_client
from forebay_client.torch.sample_list import parse_sample_uri

if TYPE_CHECKING:
    from forebay_client.client import Client


def save(value: Any, uri: str, *, client: "Client | None" = None, flush: bool = False, **options: Any) -> None:
    """Calls torch.save with the object of `uri` as its file.

    `flush`: wait until the object is at the origin, if Forebay acknowledges writes from its journal. `options`: of
    torch.save. Raises ClientError."""
    bucket, key = parse_sample_uri(uri)
    client = client if client is not None else default_client(uri)
    with client.create(bucket, key) as file:
        torch.save(value, file, **options)
    if flush:
        client.flush(bucket, key)


def load(
    uri: str,
    map_location: Any = None,
    *,
    client: "Client | None" = None,
    weights_only: bool = True,
    mmap: bool = True,
    **options: Any,
) -> Any:
    """Calls torch.load with the object of `uri` as its file.

    `mmap`: map the bytes instead of copying them; needs the file format of torch.save since PyTorch 1.6. `options`:
    of torch.load. Raises ClientError."""
    with path(uri, client=client) as name:
        return torch.load(name, map_location, weights_only=weights_only, mmap=mmap, **options)
