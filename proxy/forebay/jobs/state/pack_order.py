"""The order of a pack job, and where a pack lies. It outlives the process with its job (jobs.state.job_store)."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Final, Self

from forebay.core.pack_actions import DEFAULT_INTO, PACK_ACTIONS, PackAction
from forebay.protocol.packs.pack_index import INDEX_SUFFIX, REFERENCES_SUFFIX

DEFAULT_SHARD: Final = 1 << 30
PART_SUFFIX: Final = ".part"
"""The suffix of the key of one shard's index, which exists until the index of the pack does."""


@dataclass(frozen=True, slots=True)
class PackOrder:
    """The order of a job about the pack of the keys under a prefix."""

    bucket: str
    prefix: str
    into: str = DEFAULT_INTO
    """The prefix of the keys of packs."""
    shard_size: int = DEFAULT_SHARD
    """Bytes after which a shard ends."""
    action: PackAction = "pack"
    only: str = ""
    """The members that are taken out or made objects: those whose keys begin so."""

    @property
    def base(self) -> str:
        """The prefix of the keys of this pack."""
        folder = self.prefix.strip("/")
        return f"{self.into}{folder}/" if folder else self.into

    @property
    def index_key(self) -> str:
        """The key of the index."""
        return f"{self.base}index{INDEX_SUFFIX}"

    @property
    def references_key(self) -> str:
        """The key of the references."""
        return f"{self.base}index{REFERENCES_SUFFIX}"

    def shard_key(self, job_id: str, number: int) -> str:
        """Returns the key of a shard, which no other job writes."""
        return f"{self.base}{job_id}-{number:05}.tar"

    def to_document(self) -> dict[str, Any]:
        """Returns this order as JSON."""
        return asdict(self)

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Self:
        """Returns the order that `to_document` wrote. Raises KeyError, TypeError, ValueError."""
        order = cls(**{field.name: document[field.name] for field in fields(cls)})
        if order.action not in PACK_ACTIONS:
            raise ValueError(order.action)
        return order
