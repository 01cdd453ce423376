"""Upload expiry: aborts uploads of the journal that their clients have abandoned, because they take room that others
need.

    idle: no part accepted, and none being received in any worker, nor sent on to the origin for `max_age`
    idle for `max_age`                                        ──> aborted
    all unfinished uploads above half of the journal, and
    idle for IDLE_SECONDS, the longest first                  ──> aborted, until they take less

Within a run the idle time is measured by the node's clock, which nobody can set. The idle time before this run is known
only by the system's clock, as it was set at both times. It counts once the run is IDLE_SECONDS or `max_age` old, so
that clients that waited for the restart can continue.

The draining worker aborts them, with a line of the log for each, and a metric. A client that continues such an upload
gets NoSuchUpload, as after a bucket's own rule for unfinished uploads.
"""

import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final, NamedTuple

from cachetools import FIFOCache

from forebay.core.units import format_size
from forebay.peers.frames import Document
from forebay.peers.owners import Peers
from forebay.peers.peer_codec import decode
from forebay.storage.journal.log_writer import JournalFailed
from forebay.storage.journal.node_clock import run_of, seconds_between
from forebay.write.back.pending.pending_uploads import PendingUpload, PendingUploads

IDLE_SECONDS: Final = 3600.0
"""Seconds that an idle upload is left alone, however much room the uploads take."""
MOST_MOVED: Final = 10_000
"""Uploads at the origin whose use is remembered."""
SHARE: Final = 0.5
"""The share of the journal that unfinished uploads may take."""

_log = logging.getLogger(__name__)


class IdleUpload(NamedTuple):
    """An upload, and the seconds since its last part."""

    upload: PendingUpload
    seconds: float


def expired_uploads(uploads: Iterable[IdleUpload], max_age: float, bound: float) -> list[IdleUpload]:
    """Returns the uploads that have expired, the longest idle first. `bound`: bytes of all uploads."""
    waiting = sorted(uploads, key=lambda each: -each.seconds)
    size = sum(each.upload.size for each in waiting)
    found = []
    for each in waiting:
        if each.seconds < max_age and (size <= bound or each.seconds < IDLE_SECONDS):
            continue
        found.append(each)
        size -= each.upload.size
    return found


class UploadExpiry:
    """The expiry of one worker. `stamp`: the time on the node's clock; `clock`: seconds since the epoch."""

    def __init__(
        self,
        uploads: PendingUploads,
        peers: Peers,
        abort: Callable[[PendingUpload], Awaitable[None]],
        stamp: Callable[[], int],
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
        self._stamp = stamp
        self._max_age = max_age
        self._bound = size * SHARE
        self._on_expired = on_expired
        self._receiving: Counter[str] = Counter()
        self._started, self._started_at = stamp(), clock()
        self._used: FIFOCache[str, int] = FIFOCache(MOST_MOVED)
        """The time on the node's clock at which an upload that goes on at the origin was used here."""

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
        self._used[upload_id] = self._stamp()

    def _is_used(self, upload_id: str) -> bool:
        """Whether such a request is known; those of an earlier run are not."""
        return self._seconds_since(self._used.get(upload_id, self._started)) < self._max_age

    def _seconds_since(self, time: int) -> float:
        """Seconds since a time on the node's clock; of an earlier run, since this one began here."""
        now = self._stamp()
        found = seconds_between(time, now)
        return (now - self._started) / 1e9 if found is None else found

    def _idle(self, upload: PendingUpload) -> IdleUpload:
        seconds = self._seconds_since(upload.changed)
        is_earlier = run_of(upload.changed) != run_of(self._started)
        if is_earlier and seconds >= min(IDLE_SECONDS, self._max_age):
            seconds += max(0.0, self._started_at - upload.accepted_at)
        return IdleUpload(upload, seconds)

    async def expire(self) -> None:
        """Aborts the expired uploads."""
        expired = expired_uploads(map(self._idle, self._uploads.by_id.values()), self._max_age, self._bound)
        found = [
            each for each in expired if not each.upload.origin_id or not self._is_used(each.upload.upload.upload_id)
        ]
        busy = await self._busy([each.upload.upload.upload_id for each in found]) if found else set()
        if busy is None:
            return  # a worker that doesn't answer may be receiving a part
        for each, seconds in found:
            name, upload_id = each.upload.name, each.upload.upload_id
            if upload_id in busy or upload_id in self._receiving or upload_id not in self._uploads.by_id:
                continue
            try:
                await self._abort(each)
            except JournalFailed as failure:
                _log.error("an unfinished upload of %s can't be aborted: %s", name.path, failure)
                return
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
