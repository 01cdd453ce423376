"""The contract of Forebay's own resources, the keys below `.forebay/` of every bucket.

    /<bucket>/.forebay/<kind>/<name>        kind: "plans", "recordings", ...; name: anything, slashes included

A `ResourceKind` says for each kind what can be done with it, and by which object; forebay.request.resource_router calls
that, in both dialects and both lanes. The router owns HTTP: admission, the form and the verification of bodies,
conditions, ranges, listings, refusals. A resource owns the meaning.

The router guarantees that the principal was authenticated, is not anonymous, and may read some key in the bucket. The
resource itself checks which keys its owner may read, and shows no other owner's resources.
"""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from forebay.core.buffers import Piece
from forebay.core.heads import HeaderPairs
from forebay.origin.origin_identity import OriginIdentity
from forebay.policy.grants import Principal


@dataclass(frozen=True, slots=True)
class ResourceOwner:
    """The principal that a resource is read or changed by, and the bucket."""

    bucket: str
    principal: Principal
    identity: OriginIdentity | None
    """The identity whose credential requests to the origin carry; None: Forebay's own."""
    uses_checksums: bool = False
    """Whether the request came with a checksum of S3's: an SDK that sends them asks for them when it reads."""


@dataclass(frozen=True, slots=True)
class ResourceDocument:
    """The content of one resource."""

    content: bytes | Path
    """A file's content must not change; it may be removed while it is being read."""
    modified_at: float
    """Seconds since the epoch."""
    content_type: str = "application/json"
    headers: HeaderPairs = field(default=())
    """Further headers of the response."""


@dataclass(frozen=True, slots=True)
class ResourceEntry:
    """One resource in a listing."""

    name: str
    size: int
    modified_at: float
    etag: str = ""
    """Quoted; empty: not known without reading it, and a listing makes one."""


class ResourceReader(Protocol):
    """Resources that can be read. A method may raise S3Error, Throttled, and OriginError; so may those below."""

    async def entries(self, owner: ResourceOwner) -> Sequence[ResourceEntry]:
        """The owner's resources in the bucket, in any order."""
        ...

    async def read(self, owner: ResourceOwner, name: str) -> ResourceDocument | None:
        """The resource; None: there is none of that name for this owner."""
        ...


class ResourceWriter(Protocol):
    """Resources that can be sent."""

    largest_body: int
    """Bytes of a PUT's body."""

    async def write(self, owner: ResourceOwner, name: str, body: AsyncIterator[Piece]) -> HeaderPairs:
        """Makes or replaces the resource. Returns further headers of the response.

        `body` raises S3Error before its last piece if it is not the one that was signed, or broke off: the resource may
        be changed only once it has ended.
        """
        ...


class ResourceRemover(Protocol):
    """Resources that can be removed."""

    async def remove(self, owner: ResourceOwner, name: str) -> None:
        """Removes the resource, if there is one."""
        ...


@dataclass(frozen=True, slots=True)
class ResourceKind:
    """The operations on all resources of one kind. A text is the reason why they can't be sent, or removed: the message
    of the refusal, MethodNotAllowed, for which no body is read."""

    reader: ResourceReader | None
    """None: there is never anything to read."""
    writer: ResourceWriter | str
    remover: ResourceRemover | str
