"""Settlement: the steps after the origin has taken a write.

    blocks and head into the tiers ──> settled in the journal ──> forgotten in every worker ──> bodies removed

In this order, so that the object can be read here at every moment, and a kill at any of them is harmless. For the
drainer.
"""

import logging
from collections.abc import Callable, Sequence

from forebay.core.heads import Head
from forebay.core.names import ObjectName
from forebay.metadata.staged_objects import StagedBody
from forebay.storage.journal.body_file import BodyDamaged
from forebay.storage.journal.log_writer import RecordId
from forebay.storage.journal.pending_objects import BodyPart
from forebay.write.back.drain.persist_outcome import PersistOutcome, unsettled_reason
from forebay.write.back.drain.staging_reader import StagingReader
from forebay.write.back.pending.accepted_write import AcceptedWrite
from forebay.write.back.pending.shown_records import ShownRecords
from forebay.write.back.record_exchange import RecordExchange
from forebay.write.back.write_back_context import CachedState, JournalState

_log = logging.getLogger(__name__)


class Settlement:
    """Settles writes. `on_persisted(write)` is called for each that the origin has, `on_removed(size)` with
    the bytes of bodies that are removed."""

    def __init__(
        self,
        state: JournalState,
        cached: CachedState,
        shown: ShownRecords,
        exchange: RecordExchange,
        on_persisted: Callable[[AcceptedWrite], None],
        on_removed: Callable[[int], None],
    ) -> None:
        self._journal = state.journal
        self._pending = state.pending
        self._shown = shown
        self._exchange = exchange
        self._tiers = cached.tiers
        self._staged = cached.staged
        self._invalidator = cached.invalidator
        self._on_persisted = on_persisted
        self._on_removed = on_removed

    async def persisted(self, write: AcceptedWrite, record: RecordId, outcome: PersistOutcome) -> None:
        """The origin has a write. Raises OSError: it can't be settled now, and all workers know."""
        current = self._pending.current(write.name)
        if current is not None and current.record == record and current.head is not None:
            etag = outcome.etag or current.head.version.etag
            if not outcome.is_staged:
                await self._stage(write.name, current.head, current.parts)
            await self._install(write.name, current.head, etag)
        try:
            await self.settle(self._shown.with_upload(record), is_persisted=True)
        except OSError as error:
            self._exchange.announce_unsettled(record, unsettled_reason(error))
            raise
        self._on_persisted(write)

    async def given_up(self, write: AcceptedWrite, record: RecordId) -> None:
        """A person has given a write up. It is in doubt: the origin may still carry out an attempt whose answer was
        lost. Raises OSError: it stays pending."""
        self._invalidator.mark_in_doubt((write.name,))
        await self._invalidator.invalidate((write.name,))
        await self.settle(self._shown.with_upload(record))

    async def settle(self, records: Sequence[RecordId], *, is_persisted: bool = False) -> None:
        """Settles records, the first of them first, and removes their bodies. Raises OSError: none of it is done.
        `is_persisted`: the origin has the write; otherwise a person gave it up, or nothing needs it."""
        await self._journal.settle(records, is_carried_out=is_persisted)
        bodies = [body for record in records for body in self._shown.bodies_of(record)]
        await self._exchange.forget(records, is_persisted=is_persisted)
        failures = await self._journal.remove_bodies(bodies)
        for body, error in failures.items():
            _log.warning("the body %s can't be removed now, and nothing needs it: %s", body.id, error.strerror)
        self._on_removed(sum(body.size for body in bodies if body not in failures))

    async def _stage(self, name: ObjectName, head: Head, parts: tuple[BodyPart, ...]) -> None:
        """Puts the blocks into the tiers. `parts`: the object's bytes."""
        try:
            async for _ in StagingReader(self._pending, self._tiers.stage, name, head, parts).read():
                pass
        except (OSError, BodyDamaged) as error:
            _log.warning("%s is at the origin, but is not cached: %s", name.path, error)

    async def _install(self, name: ObjectName, head: Head, etag: str) -> None:
        """Puts the head that the origin has into the tiers, behind the blocks."""
        self._staged.install(name, StagedBody(head.generation, head.block_size, head.size, etag))
        await self._staged.wait_installed(name)
