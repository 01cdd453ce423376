"""The orders of pack jobs as the admin port receives them."""

from dataclasses import dataclass
from typing import Annotated, Final

from forebay.core.pack_actions import DEFAULT_INTO, PACK_ACTIONS
from forebay.core.units import parse_size
from forebay.server.admin.schema.admin_schema import check_bucket, check_key

LEAST_SHARD: Final = 1 << 20
MOST_SHARD: Final = 48 << 40


def check_action(value: object, name: str) -> str:
    """Checks the action of a pack job."""
    if not isinstance(value, str) or value not in PACK_ACTIONS:
        raise ValueError(f"{name!r} must be one of {', '.join(PACK_ACTIONS)}.")
    return value


def check_shard_size(value: object, name: str) -> str | None:
    """A size, as text."""
    if value is None:
        return None
    try:
        if isinstance(value, str) and LEAST_SHARD <= parse_size(value) <= MOST_SHARD:
            return value
    except ValueError:
        pass
    raise ValueError(f'{name!r} must be a size from 1MiB to 48TiB, such as "1GiB".')


@dataclass(frozen=True, slots=True)
class PackRequest:
    """POST /v1/packs: write a pack of the objects under a prefix, or do something with the one that is there."""

    bucket: Annotated[str, check_bucket]
    prefix: Annotated[str, check_key] = ""
    """The prefix of the objects that are packed, or were; empty: the whole bucket."""
    into: Annotated[str, check_key] = DEFAULT_INTO
    """The prefix of the keys of packs."""
    shard_size: Annotated[str | None, check_shard_size] = None
    action: Annotated[str, check_action] = "pack"
    only: Annotated[str, check_key] = ""
    """The members that are taken out or made objects: those whose keys begin so."""

    def __post_init__(self) -> None:
        if not self.into:
            raise ValueError("'into' must not be empty: packs have a prefix of their own.")
        if self.prefix.startswith(self.into):
            raise ValueError(f"Objects under {self.into!r} are packs themselves.")
        if self.only and not self.only.startswith(self.prefix):
            raise ValueError("'only' must begin with 'prefix'.")
        if self.only and self.action not in {"delete", "unpack"}:
            raise ValueError("'only' belongs to the actions delete and unpack.")
        if self.action == "delete" and not self.only:
            raise ValueError("'only' is needed: a prefix of the keys of the members to take out.")
