"""Upload expiry: uploads of the journal that their clients have left are aborted, as they take room that others need.

    idle: no part accepted, and none being received in any worker, nor sent on to the origin for `max_age`
    idle for `max_age`                                        ──> aborted
    all unfinished uploads above half of the journal, and
    idle for IDLE_SECONDS, the longest first                  ──> aborted, until they take less

The draining worker does it, in sight: a line of the log for each, and a metric. A client that goes on with such an
upload is answered NoSuchUpload, as after its bucket's own rule for unfinished uploads.
"""

import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from forebay.core.units import format_size
from forebay.peers.frames import Document
from forebay.peers.owners import Peers
from forebay.peers.peer_codec import decode
from forebay.storage.journal.log_writer import JournalFailed
from forebay.write.back.pending.pending_uploads import PendingUpload, PendingUploads

IDLE_SECONDS: Final = 3600.0
"""How long an upload is left alone, however much the uploads take."""
SHARE: Final = 0.5
"""Of the journal, that unfinished uploads may take."""

_log = logging.getLogger(__name__)


def idle_uploads(uploads: Iterable[PendingUpload], now: float, max_age: float, bound: float) -> list[PendingUpload]:
    """Returns the uploads that have expired at `now`, the longest idle first. `bound`: bytes of all uploads."""
    waiting = sorted(uploads, key=lambda each: each.changed_at)
    size = sum(each.size for each in waiting)
    found = []
    for each in waiting:
        idle = now - each.changed_at
        if idle < max_age and (size <= bound or idle < IDLE_SECONDS):
            continue
        found.append(each)
        size -= each.size
    return found


class UploadExpiry:
    """The expiry of one worker. `clock`: seconds since the epoch."""

    def __init__(
        self,
        uploads: PendingUploads,
        peers: Peers,
        abort: Callable[[PendingUpload], Awaitable[None]],
        clock: Callable[[], float],
        *,
        max_age: float,
        size: int,
        on_expired: Callable[[], None] = lambda: None,
    ) -> None:
        """`abort`: raises JournalFailed. `max_age`: seconds; `size`: bytes of the journal."""
        self._uploads = uploads
        self._peers = peers
        self._abort = abort
        self._clock = clock
        self._max_age = max_age
        self._bound = size * SHARE
        self._on_expired = on_expired
        self._receiving: Counter[str] = Counter()
        self._started = clock()
        self._used: dict[str, float] = {}
        """When an upload that goes on at the origin was used here."""

    @contextmanager
    def receiving(self, upload_id: str) -> Iterator[None]:
        """A part of the upload is being received here."""
        self._receiving[upload_id] += 1
        try:
            yield
        finally:
            self._receiving[upload_id] -= 1
            if not self._receiving[upload_id]:
                del self._receiving[upload_id]

    def touch(self, upload_id: str) -> None:
        """A request of an upload that goes on at the origin was sent there."""
        self._used[upload_id] = self._clock()

    def _is_used(self, upload_id: str) -> bool:
        """Whether there was such a request, as far as is known: what an earlier run has sent is not."""
        return self._clock() - max(self._used.get(upload_id, 0.0), self._started) < self._max_age

    async def expire(self) -> None:
        """Aborts what has expired."""
        self._used = {upload: used for upload, used in self._used.items() if upload in self._uploads.by_id}
        idle = idle_uploads(self._uploads.by_id.values(), self._clock(), self._max_age, self._bound)
        found = [each for each in idle if not each.origin_id or not self._is_used(each.upload.upload_id)]
        busy = await self._busy([each.upload.upload_id for each in found]) if found else set()
        if busy is None:
            return  # a worker that doesn't answer may be receiving a part
        for each in found:
            name, upload_id = each.upload.name, each.upload.upload_id
            if upload_id in busy or upload_id in self._receiving or upload_id not in self._uploads.by_id:
                continue
            try:
                await self._abort(each)
            except JournalFailed as failure:
                _log.error("an unfinished upload of %s can't be aborted: %s", name.path, failure)
                return
            seconds = self._clock() - each.changed_at
            _log.warning(
                "the upload %s of %s, of %d parts in %s, was unfinished for %.0f s without a new part: it is aborted",
                upload_id,
                name.path,
                len(each.parts),
                format_size(each.size),
                seconds,
            )
            self._on_expired()

    def receive(self, request: Document) -> Document:
        """Answers another worker: which of its uploads get a part here. Raises PeerUnavailable."""
        asked_for = decode(lambda: [str(each) for each in request["uploads"]])
        return {"busy": [each for each in asked_for if each in self._receiving or self._was_used(each)]}

    def _was_used(self, upload_id: str) -> bool:
        return upload_id in self._used and self._is_used(upload_id)

    async def _busy(self, upload_ids: Sequence[str]) -> set[str] | None:
        """Returns which of the uploads get a part in another worker; None: not all of them have answered."""
        responses = await self._peers.call_all({"kind": "upload_parts", "uploads": list(upload_ids)})
        if len(responses) < len(self._peers.others):
            return None
        return {str(each) for response in responses.values() for each in response.get("busy", ())}
