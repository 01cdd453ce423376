"""Data sets as objects, `/<bucket>/.forebay/datasets/<name>`: their rows of `forebay datasets`, for their readers.

    GET, HEAD     the row, as JSON
    listing       the data sets that may have objects in the bucket
    PUT, DELETE   refused: rules make data sets

A row shows how many objects there are and how they are read. So only a principal sees it that has a grant for every key
that a rule of the data set can match. A principal with its own origin credential sees none: the origin's permission is
known object by object.

The collector knows the reads, and each worker its own memory: a row is put together from all of them. A worker that
does not answer is left out.
"""

import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

from forebay.core.errors import ForebayError
from forebay.datasets.data_set_stats import DataSetStats, merged_rows
from forebay.peers.frames import Document
from forebay.peers.json_codec import from_json, to_json
from forebay.peers.owners import Peers
from forebay.peers.peer_codec import decode
from forebay.policy.grants import may_read_all_matched
from forebay.policy.path_patterns import Pattern
from forebay.policy.rules import Rules
from forebay.request.resource import ResourceDocument, ResourceEntry, ResourceKind, ResourceOwner

KIND: Final = "data_set_rows"
_READ_ONLY: Final = "Data sets are made by rules of the configuration."


class DataSetResource:
    """The rows of all workers. `local`: those of this worker; `clock`: seconds since the epoch."""

    def __init__(
        self,
        local: Callable[[], tuple[DataSetStats, ...]],
        peers: Peers,
        rules: Callable[[], Rules],
        clock: Callable[[], float],
    ) -> None:
        self.local = local
        self._peers = peers
        self._rules = rules
        self._clock = clock

    @property
    def kind(self) -> ResourceKind:
        """The operations on data sets as objects."""
        return ResourceKind(self, _READ_ONLY, _READ_ONLY)

    async def entries(self, owner: ResourceOwner) -> Sequence[ResourceEntry]:
        """The data sets that the owner may read."""
        now = self._clock()
        return [ResourceEntry(row.name, len(_document(row)), now) for row in await self._rows(owner)]

    async def read(self, owner: ResourceOwner, name: str) -> ResourceDocument | None:
        """The row of a data set."""
        found = next((row for row in await self._rows(owner) if row.name == name), None)
        return ResourceDocument(_document(found), self._clock()) if found is not None else None

    def answer(self) -> Document:
        """This worker's rows, for another one."""
        return {"rows": to_json(self.local())}

    async def _rows(self, owner: ResourceOwner) -> list[DataSetStats]:
        rules = self._rules()
        visible = [name for name in rules.data_sets if _is_visible(rules.patterns_of(name), owner)]
        if not visible:
            return []
        workers = [self.local()]
        for peer in self._peers.others.values():
            with suppress(ForebayError):
                response = await peer.call({"kind": KIND})
                workers.append(_decode_rows(response))
        return [row for row in merged_rows(workers) if row.name in visible]


def _decode_rows(response: Document) -> tuple[DataSetStats, ...]:
    return decode(lambda: from_json(tuple[DataSetStats, ...], response["rows"]))


def _is_visible(patterns: Sequence[Pattern], owner: ResourceOwner) -> bool:
    return (
        owner.identity is None
        and any(pattern.reaches_into(f"{owner.bucket}/") for pattern in patterns)
        and all(may_read_all_matched(owner.principal, pattern) for pattern in patterns)
    )


def _document(row: DataSetStats) -> bytes:
    return json.dumps(to_json(row), indent=1).encode() + b"\n"
