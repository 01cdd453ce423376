"""Lookup requests: the object, version and freshness that one reader demands of the resolver."""

from typing import Literal, NamedTuple

from forebay.core.byte_ranges import Span
from forebay.core.names import ObjectName
from forebay.origin.origin_identity import OriginIdentity
from forebay.policy.rules import Decision


class LookupRequest(NamedTuple):
    """One reader's request for a version."""

    name: ObjectName
    decision: Decision
    span: Span | None
    """The first bytes to read, from a block border on, if the origin must be asked anyway; None: the head only."""
    checksums: bool = False
    """Whether the object's checksums are wanted as well (metadata.object_checksums)."""
    no_cache: bool = False
    identity: OriginIdentity | None = None
    """The identity that signs the requests to the origin; None: Forebay's own."""
    version_id: str | None = None
    """None: the current version."""

    @property
    def method(self) -> Literal["GET", "HEAD"]:
        """The method of the request that opens the object."""
        return "GET" if self.span is not None else "HEAD"
