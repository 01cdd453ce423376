"""Recovery: opens and closes the directory, and decides which of its content is trusted, and which is discarded.

    claim the directory -> is the content ours, and all there? -> else discard it and begin empty
                        -> is the index sound? -> else rebuild it (index_repair.py)
                        -> open the index -> how full are the segments

After a clean end one row is read per segment, and a bounded number of blocks and heads, so opening does not depend on
how much is cached. A process that joins others reads none, unless it finds that one of them has died.

STATE says how the directory was left. It is written when the directory is opened and when it is closed:

    closed_by        the run that closed it in order, with everything on the disk; empty while it is open
    unclean_starts   openings in a row without a clean end, since the index was last rebuilt
    trusted_from     heads validated before this time (seconds since the epoch) must be revalidated

Its heads are trusted if it was closed in order and no run has served since (storage.run_record). Otherwise the removal
of a head whose object has been overwritten since may be missing: a machine that went down lost the last moments of the
index, a file system that turned read-only lost more, and a run without the directory never had them. Then no earlier
head is trusted until the origin has validated it again. That never ends, as a head that is not read is not revalidated.

Damage under LMDB's memory map kills the process (SIGBUS) where it is touched. Such an end is an unclean one, so the
next start checks all pages and rebuilds the index. Should that find nothing three times in a row, the index is rebuilt
all the same. Neither a crash nor damage discards content that is whole.
"""

import json
import logging
import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Final

from forebay.core.errors import IndexDamaged, SsdUnusable
from forebay.core.events import Observe, TierFailed
from forebay.core.units import format_size
from forebay.storage.cache_origin import CacheOrigins
from forebay.storage.durable_files import replace_file
from forebay.storage.run_record import NodeRun
from forebay.storage.ssd.directory_format import LAYOUT, DirectoryFormat
from forebay.storage.ssd.index.index import INDEX_ERRORS, Index
from forebay.storage.ssd.index.index_check import check_shared_index
from forebay.storage.ssd.index.index_repair import repair_index
from forebay.storage.ssd.reference_bits import DISOWNED, SUSPECT, ReferenceBits, read_mark
from forebay.storage.ssd.segments.addressing import Addressing
from forebay.storage.ssd.segments.segments import Segments
from forebay.storage.ssd.segments.space_accounting import MIB, SpaceAccounting
from forebay.storage.ssd.ssd_directory import SsdDirectory

MAX_UNCLEAN_STARTS: Final = 3

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ShutdownState:
    """The state in which the directory was left: the fields of STATE, in their order."""

    closed_by: str
    """The id of a run; empty while the directory is open, and after an unclean end."""
    unclean_starts: int
    trusted_from: float

    @property
    def is_suspect(self) -> bool:
        """Whether so many runs in a row ended uncleanly that the content may be the reason."""
        return self.unclean_starts >= MAX_UNCLEAN_STARTS

    def doubt(self, run: NodeRun) -> str | None:
        """Returns why `run` may not trust the heads of a directory that was left in this state; None: it may."""
        return run.doubt_about(self.closed_by) if self.closed_by else "it was not closed in order"

    def while_open(self, now: float, *, trusted: bool) -> "ShutdownState":
        """Returns the state while a directory is open that was left in this one. `trusted`: whether its heads are."""
        return ShutdownState(
            closed_by="",
            unclean_starts=1 if self.closed_by else self.unclean_starts + 1,
            trusted_from=self.trusted_from if trusted else max(self.trusted_from, now),
        )

    def rebuilt(self, now: float) -> "ShutdownState":
        """Returns the state while a directory is open whose index was rebuilt, perhaps with heads that had been
        removed."""
        return replace(self, unclean_starts=1, trusted_from=max(self.trusted_from, now))

    def closed(self, run: str) -> "ShutdownState":
        """Returns the state after closing, by the run with this id."""
        return replace(self, closed_by=run, unclean_starts=0)


EMPTY: Final = ShutdownState(closed_by="", unclean_starts=0, trusted_from=0.0)
"""The state of a directory without content."""


def read_state(path: Path, now: float) -> ShutdownState:
    """Reads STATE. If it is missing or damaged nothing is certain, so no head from before `now` is trusted."""
    try:
        fields = json.loads(path.read_bytes())
        trusted_from = float(fields["trusted_from"])
        if not math.isfinite(trusted_from):
            trusted_from = now
        return ShutdownState(str(fields["closed_by"]), int(fields["unclean_starts"]), trusted_from)
    except (OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return ShutdownState("", unclean_starts=0, trusted_from=now)


def write_state(path: Path, state: ShutdownState) -> None:
    """Writes STATE. Raises OSError."""
    replace_file(path, json.dumps(asdict(state)).encode())


@dataclass(frozen=True, slots=True)
class SsdOptions:
    """Options that hardly anybody needs to change."""

    queue_bytes: int = 64 * MIB
    """Blocks that may wait to be written."""
    batch_bytes: int = 8 * MIB
    """Bytes that are written at once, without waiting for more."""
    segment_floor: int = MIB // 2
    """Bytes of a segment at least, of a capacity that fits several."""


@dataclass(slots=True)
class OpenDirectory:
    """The parts of an open directory."""

    directory: SsdDirectory
    index: Index
    segments: Segments
    references: ReferenceBits
    addressing: Addressing
    space: SpaceAccounting
    state: ShutdownState
    run: NodeRun
    is_first: bool
    """Whether this process recovered it; else another of its family has."""
    doubt: str | None
    """Why the heads that were found are not trusted; None if they are, or if there were none."""


def open_directory(
    path: Path,
    capacity: int,
    origins: CacheOrigins,
    clock: Callable[[], float],
    observe: Observe,
    run: NodeRun,
    *,
    family: str | None,
) -> OpenDirectory:
    """Opens the directory. `clock`: seconds since the epoch. Raises SsdUnusable."""
    directory = SsdDirectory.claim(path, family)
    recovery = _Recovery(directory, capacity, origins, clock, observe, run)
    try:
        try:
            opened = recovery.open()
        except IndexDamaged as damage:
            if not directory.is_exclusive:
                raise SsdUnusable(f"{path}: {damage}") from damage
            opened = recovery.open_damaged(str(damage))
    except (OSError, IndexDamaged) as error:
        directory.release()
        raise SsdUnusable(f"{path}: {error}") from error
    except BaseException:
        directory.release()
        raise
    if family is not None and directory.is_exclusive:
        directory.share()
    return opened


def close_directory(opened: OpenDirectory) -> None:
    """Closes the directory; the last process syncs it and records that. Raises OSError or one of INDEX_ERRORS."""
    try:
        if opened.directory.is_last() and not opened.references.is_disowned:
            opened.index.sync()
            write_state(opened.directory.state, opened.state.closed(opened.run.id))
    finally:
        abandon_directory(opened)


def abandon_directory(opened: OpenDirectory) -> None:
    """Closes the directory, and records nothing: the next opening follows an unclean end."""
    opened.segments.close()
    opened.index.close()
    opened.references.close()
    opened.directory.release()


@dataclass(frozen=True, slots=True)
class _Recovery:
    """Opens a directory that this process has claimed, alone (the first of its family) or beside others."""

    directory: SsdDirectory
    capacity: int
    origins: CacheOrigins
    clock: Callable[[], float]
    observe: Observe
    run: NodeRun

    def open(self, suspicion: str | None = None) -> OpenDirectory:
        """Opens the content. Raises IndexDamaged, SsdUnusable, OSError. `suspicion`: why the index is rebuilt without a
        check."""
        if not self.directory.is_exclusive:
            return self._open_beside_others()
        # The time is read after the claim: the process before this one may have validated heads until then.
        directory, found, now = self.directory, self.directory.read_format(), self.clock()
        left = read_state(directory.state, now)
        content = self._kept_content(found)
        if content is None:
            directory.discard()
            content = directory.initialise(self.origins)
            state = EMPTY.while_open(now, trusted=True)
            write_state(directory.state, state)
            return self._open_index(content, state, None)
        doubt = _moved(found, self.origins) or left.doubt(self.run)
        state = left.while_open(now, trusted=doubt is None)
        write_state(directory.state, state)
        if content != found:
            directory.write_format(content)
        damage = repair_index(
            directory,
            self.capacity,
            self._addressing(content),
            was_clean=bool(left.closed_by),
            suspicion=suspicion or _suspicion(directory, left),
        )
        if damage is not None:
            self.observe(TierFailed("ssd", "open", damage))
            directory.references.unlink(missing_ok=True)  # with its mark
            state, doubt = state.rebuilt(now), damage
            write_state(directory.state, state)
        return self._open_index(content, state, doubt)

    def open_damaged(self, damage: str) -> OpenDirectory:
        """Opens a directory that could not be opened because of damage: with its index rebuilt, else without
        content."""
        try:
            return self.open(damage)
        except IndexDamaged as again:
            self.observe(TierFailed("ssd", "open", _discarding(self.directory, str(again))))
            self.directory.discard()
            return self.open()

    def _open_beside_others(self) -> OpenDirectory:
        directory, found = self.directory, self.directory.read_format()
        state = read_state(directory.state, self.clock())
        if found is None or not found.is_of(self.origins):
            raise SsdUnusable(f"{directory.path}: its content is not of this origin")
        if read_mark(directory.references):
            raise SsdUnusable(f"{directory.path}: damaged; it is repaired when every process has closed it")
        return self._open_index(found, state, None)

    def _kept_content(self, found: DirectoryFormat | None) -> DirectoryFormat | None:
        """Returns the format of the content while it is served for the origins; None, and says why, if it can't be."""
        directory, defect = self.directory, _defect(self.directory, found)
        layout = directory.read_layout() if found is None else LAYOUT
        if layout not in (None, LAYOUT):  # an upgrade, or the way back: nothing has failed
            reason = f"its layout has version {layout}, and this Forebay's has {LAYOUT}"
            _log.warning("%s", _discarding(directory, reason))
            return None
        if defect is not None:
            self.observe(TierFailed("ssd", "open", _discarding(directory, defect)))
            return None
        if found is None:
            return None
        content = found.taken_over_by(self.origins)
        if content is None:  # the configuration was changed: nothing has failed
            reason = f"it is of {found.origin}, and this Forebay serves {self.origins}"
            _log.warning("%s", _discarding(directory, reason))
            return None
        for left in found.left_by(content):
            _log.warning("what was cached of %s is not served any more: it is none of the origins", left)
        return content

    def _addressing(self, content: DirectoryFormat) -> Addressing:
        return Addressing(content.id_by_bucket(self.origins), content.salt)

    def _open_index(self, content: DirectoryFormat, state: ShutdownState, doubt: str | None) -> OpenDirectory:
        directory, is_first = self.directory, self.directory.is_exclusive
        index = Index.open(directory.index, self.capacity, exclusive=is_first)
        try:
            # Frees the slots of killed processes in the table of readers, which is bounded. Damage may have killed
            # them.
            if index.env.reader_check() and not is_first:
                check_shared_index(index)
            segments = Segments(directory.segments)
            sizes = {number: size or segments.size(number) for number, size in index.segments().items()}
            space = SpaceAccounting(self.capacity, sizes, index.size(), index.labels())
            space.set_disk(segments.disk())
            references = ReferenceBits(directory.references)
        except INDEX_ERRORS as error:
            index.close()
            if not is_first:
                _suspect(directory)
            raise IndexDamaged(str(error)) from error
        except BaseException:
            index.close()
            raise
        addressing = self._addressing(content)
        return OpenDirectory(
            directory, index, segments, references, addressing, space, state, self.run, is_first, doubt
        )


def _discarding(directory: SsdDirectory, reason: str) -> str:
    size = format_size(directory.content_size())
    return f"what was cached in {directory.path} ({size}) is discarded: {reason}"


def _defect(directory: SsdDirectory, found: DirectoryFormat | None) -> str | None:
    """Returns why the content can't be used; None if it can, or if there is none."""
    if read_mark(directory.references) == DISOWNED:
        return "it was disowned, as a removal could not be recorded"
    if found is None:
        return "its FORMAT is missing or damaged" if directory.index.exists() else None
    return None if directory.segments.is_dir() else "a folder is missing"


def _moved(found: DirectoryFormat | None, origins: CacheOrigins) -> str | None:
    """Returns why content may be of another origin than it was cached from; None if it is not."""
    if found is None:
        return None
    if found.routes != origins.routes:
        return "the origins, or their buckets, are others than before"
    for origin in origins.origins:
        record = found.record_of(origin)
        if record is not None and record.endpoint != origin.endpoint:
            was = record.endpoint
            return f"it was cached from {was}, and only origin.cache_id says that {origin.endpoint} is the same"
    return None


def _suspicion(directory: SsdDirectory, state: ShutdownState) -> str | None:
    """Returns why the index is rebuilt without a check; None: it is checked first."""
    if read_mark(directory.references) == SUSPECT:
        return "the index was found damaged while serving"
    if state.is_suspect:
        return f"{state.unclean_starts} runs in a row ended uncleanly"
    return None


def _suspect(directory: SsdDirectory) -> None:
    """Turns the directory off for all processes that have it open: its index is damaged."""
    references = ReferenceBits(directory.references)
    references.suspect()
    references.close()
