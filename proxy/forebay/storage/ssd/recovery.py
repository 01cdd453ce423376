"""Recovery: opening and closing the directory. What is believed of its content, and what is discarded.

    claim the directory -> is the content ours, whole, and not hopeless? -> else discard it and begin empty
                        -> open the index (damaged: discard it, once) -> how full are the segments

One row is read per segment, and none per block or head, so opening does not depend on how much is cached.

STATE says how the directory was left. It is written when the directory is opened, when the start has lasted, and when
it is closed:

    closed_by        the run that closed it in order, with everything on the disk; empty while it is open
    unclean_starts   openings in a row that neither closed nor lasted
    trusted_from     heads validated before this time (seconds since the epoch) must be revalidated

What its heads say is trusted if it was closed in order and nobody has served since (storage.run_record). Otherwise the
removal of a head whose object has been overwritten since may be missing: a machine that went down lost the last moments
of the index, a file system that turned read-only lost more, and a run without the directory never had them. Then no
earlier head is believed until the origin has validated it again. That stays so for good: a head that is not read is not
revalidated.

Damage that kills the process (a bad sector under a memory map is a SIGBUS) would do so at each start. After three
starts that did not last, the content is discarded.
"""

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Final

import lmdb

from forebay.core.errors import IndexDamaged, SsdUnusable
from forebay.core.events import Observe, TierFailed
from forebay.storage.run_record import NodeRun
from forebay.storage.ssd.addressing import Addressing
from forebay.storage.ssd.index import Index
from forebay.storage.ssd.reference_bits import ReferenceBits, is_marked_disowned
from forebay.storage.ssd.segments import Segments
from forebay.storage.ssd.space_accounting import MIB, SpaceAccounting
from forebay.storage.ssd.ssd_directory import SsdDirectory, origin_fingerprint, replace_file

MAX_UNCLEAN_STARTS: Final = 3


@dataclass(frozen=True, slots=True)
class ShutdownState:
    """How the directory was left: the fields of STATE, in their order."""

    closed_by: str
    """The id of a run; empty while the directory is open, and after an unclean end."""
    unclean_starts: int
    trusted_from: float

    @property
    def is_hopeless(self) -> bool:
        """Whether so many starts in a row did not last that the content must be the reason."""
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

    def steady(self) -> "ShutdownState":
        """Returns the state after a start that has lasted."""
        return replace(self, unclean_starts=0)

    def closed(self, run: str) -> "ShutdownState":
        """Returns the state after closing, by the run with this id."""
        return replace(self, closed_by=run, unclean_starts=0)


EMPTY: Final = ShutdownState(closed_by="", unclean_starts=0, trusted_from=0.0)
"""The state of a directory without content."""


def read_state(path: Path, now: float) -> ShutdownState:
    """Reads STATE. If it is missing or damaged nothing is certain, so no head from before `now` is trusted."""
    try:
        fields = json.loads(path.read_bytes())
        return ShutdownState(str(fields["closed_by"]), int(fields["unclean_starts"]), float(fields["trusted_from"]))
    except (OSError, ValueError, KeyError, TypeError):
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
    steady_seconds: float = 10.0
    """A start that lasts so long was not ended by the content."""


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

    def mark_steady(self) -> None:
        """Records that this start has lasted. Raises OSError."""
        self.state = self.state.steady()
        write_state(self.directory.state, self.state)


def open_directory(
    path: Path,
    capacity: int,
    origin_id: str,
    clock: Callable[[], float],
    observe: Observe,
    run: NodeRun,
    *,
    family: str | None,
) -> OpenDirectory:
    """Opens the directory. `clock`: seconds since the epoch. Raises SsdUnusable."""
    directory = SsdDirectory.claim(path, family)
    try:
        try:
            opened = _open_content(directory, capacity, origin_id, clock(), observe, run)
        except IndexDamaged as damage:
            if not directory.is_exclusive:
                raise SsdUnusable(f"{path}: {damage}") from damage
            observe(TierFailed("ssd", "open", str(damage)))
            directory.discard()
            opened = _open_content(directory, capacity, origin_id, clock(), observe, run)
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
    """Closes the directory; the last process syncs it and records that. Raises OSError or lmdb.Error."""
    try:
        if opened.directory.is_last() and not opened.references.is_disowned:
            opened.index.sync()
            write_state(opened.directory.state, opened.state.closed(opened.run.id))
    finally:
        opened.segments.close()
        opened.index.close()
        opened.references.close()
        opened.directory.release()


def _open_content(
    directory: SsdDirectory, capacity: int, origin_id: str, now: float, observe: Observe, run: NodeRun
) -> OpenDirectory:
    """Opens what is in a claimed directory. `now`: read after it was claimed, as the one before may have validated
    heads until then."""
    state = read_state(directory.state, now)
    content = directory.read_format()
    is_first, doubt = directory.is_exclusive, None
    if is_first:
        reason = _reason_to_discard(directory, state, origin_id)
        if reason is not None:
            if reason:
                observe(TierFailed("ssd", "open", reason))
            directory.discard()
            content = directory.initialise(origin_id)
            state = EMPTY
        else:
            doubt = state.doubt(run)
        state = state.while_open(now, trusted=doubt is None)
        write_state(directory.state, state)
    if content is None or content.origin != origin_fingerprint(origin_id):
        raise SsdUnusable(f"{directory.path}: its content is not of this origin")
    index = Index.open(directory.index, capacity, exclusive=directory.is_exclusive)
    try:
        index.env.reader_check()  # frees the places of killed processes in the table of readers, which is bounded
        segments = Segments(directory.segments)
        sizes = {number: size or segments.size(number) for number, size in index.segments().items()}
        space = SpaceAccounting(capacity, sizes, index.size())
        references = ReferenceBits(directory.references)
    except lmdb.Error as error:
        index.close()
        raise IndexDamaged(str(error)) from error
    except BaseException:
        index.close()
        raise
    addressing = Addressing(origin_id, content.salt)
    return OpenDirectory(directory, index, segments, references, addressing, space, state, run, is_first, doubt)


def _reason_to_discard(directory: SsdDirectory, state: ShutdownState, origin_id: str) -> str | None:
    """Returns why the content can't be used: "" if there is none, None if it can be used."""
    content = directory.read_format()
    if content is None:
        return "unknown layout" if directory.index.exists() else ""
    if content.origin != origin_fingerprint(origin_id):
        return "the content is of another origin"
    if state.is_hopeless:
        return f"{state.unclean_starts} starts in a row ended soon and uncleanly"
    if not directory.index.is_dir() or not directory.segments.is_dir():
        return "a folder is missing"
    if is_marked_disowned(directory.references):
        return "the content was disowned"
    return None
