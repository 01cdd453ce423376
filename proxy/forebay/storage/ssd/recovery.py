"""Opening and closing the directory: what is believed of what is found there, and what is thrown away.

    claim the directory -> is it ours, whole, and not hopeless? -> else put its content aside and begin anew
                        -> open the index (damaged: begin anew, once) -> how full are the segments

One row is read per segment, and none per block or head, so opening does not depend on how much is cached.
"""

from dataclasses import dataclass
from pathlib import Path

import lmdb

from forebay.core.events import Observe, TierFailed
from forebay.storage.ssd.addressing import Addressing
from forebay.storage.ssd.index import Index, IndexDamaged
from forebay.storage.ssd.reference_bits import ReferenceBits, is_marked_disowned
from forebay.storage.ssd.segments import Segments
from forebay.storage.ssd.shutdown_state import ShutdownState, boot_id, fresh_state, read_state, write_state
from forebay.storage.ssd.space_accounting import MIB, SpaceAccounting
from forebay.storage.ssd.ssd_directory import SsdDirectory, SsdUnusable, origin_fingerprint


@dataclass(frozen=True, slots=True)
class SsdOptions:
    """What hardly anybody needs to change."""

    queue_bytes: int = 64 * MIB
    """Blocks that may wait to be written."""
    batch_bytes: int = 8 * MIB
    """Written as soon as so much has come together."""
    steady_seconds: float = 10.0
    """A start that lasts so long is not one that the content ended."""


@dataclass(slots=True)
class OpenDirectory:
    """An open directory."""

    directory: SsdDirectory
    index: Index
    segments: Segments
    references: ReferenceBits
    addressing: Addressing
    space: SpaceAccounting
    trusted_from: float
    state: ShutdownState
    is_first: bool
    """Whether this process made it ready; else another of its family has."""

    def mark_steady(self) -> None:
        """This start has lasted. OSError if that can't be recorded."""
        self.state = self.state.steady()
        write_state(self.directory.state, self.state)


def open_directory(
    path: Path, capacity: int, origin_id: str, now: float, observe: Observe, *, family: str | None
) -> OpenDirectory:
    """SsdUnusable if it can't be used at all."""
    directory = SsdDirectory.claim(path, family)
    try:
        try:
            opened = _opened(directory, capacity, origin_id, now, observe)
        except IndexDamaged as damage:
            if not directory.is_exclusive:
                raise SsdUnusable(f"{path}: {damage}") from damage
            observe(TierFailed("ssd", "open", str(damage)))
            directory.discard()
            opened = _opened(directory, capacity, origin_id, now, observe)
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
    """Everything to the disk, and that recorded, by the last who closes. OSError or lmdb.Error if that fails."""
    try:
        if opened.directory.is_last() and not opened.references.is_disowned:
            opened.index.sync()
            write_state(opened.directory.state, opened.state.closed())
    finally:
        opened.segments.close()
        opened.index.close()
        opened.references.close()
        opened.directory.release()


def _opened(directory: SsdDirectory, capacity: int, origin_id: str, now: float, observe: Observe) -> OpenDirectory:
    state = read_state(directory.state, now)
    content = directory.read_format()
    prepared = directory.is_exclusive
    if prepared:
        reason = _reason_to_discard(directory, state, origin_id)
        if reason is not None:
            if reason:
                observe(TierFailed("ssd", "open", reason))
            directory.discard()
            content = directory.initialise(origin_id)
            state = fresh_state(boot_id())
        state = state.while_open(boot_id(), now)
        write_state(directory.state, state)
    if content is None or content.origin != origin_fingerprint(origin_id):
        raise SsdUnusable(f"{directory.path}: its content is not of this origin")
    index = Index.open(directory.index, capacity, exclusive=directory.is_exclusive)
    try:
        index.env.reader_check()  # a process that was killed left its places in the table of readers, which is bounded
        segments = Segments(directory.segments)
        sizes = {number: size or segments.size(number) for number, size in index.segments().items()}
        space = SpaceAccounting(capacity, sizes, index.size())
        touched = ReferenceBits(directory.references)
    except lmdb.Error as error:
        index.close()
        raise IndexDamaged(str(error)) from error
    except BaseException:
        index.close()
        raise
    return OpenDirectory(
        directory,
        index,
        segments,
        touched,
        Addressing(origin_id, content.salt),
        space,
        state.trusted_from,
        state,
        prepared,
    )


def _reason_to_discard(directory: SsdDirectory, state: ShutdownState, origin_id: str) -> str | None:
    """Why what is there can't be used: "" if there is nothing, None if it can be used."""
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
