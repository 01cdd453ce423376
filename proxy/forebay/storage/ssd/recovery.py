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
from forebay.storage.ssd.reference_bits import Touched, marked_disowned
from forebay.storage.ssd.segments import Segments
from forebay.storage.ssd.shutdown_state import State, boot_id, fresh_state, read_state, write_state
from forebay.storage.ssd.space_accounting import MIB, Space
from forebay.storage.ssd.ssd_directory import Directory, SsdUnusable, fingerprint


@dataclass(frozen=True, slots=True)
class SsdOptions:
    """What hardly anybody needs to change."""

    backlog_bytes: int = 64 * MIB
    """Blocks that may wait to be written."""
    batch_bytes: int = 8 * MIB
    """Written as soon as so much has come together."""
    steady_seconds: float = 10.0
    """A start that lasts so long is not one that the content ended."""


@dataclass(slots=True)
class Opened:
    """An open directory."""

    directory: Directory
    index: Index
    segments: Segments
    touched: Touched
    addressing: Addressing
    space: Space
    trusted_from: float
    state: State
    prepared: bool
    """Whether this process made it ready; else another of its family has."""

    def steady(self) -> None:
        """This start has lasted. OSError if that can't be recorded."""
        self.state = self.state.steady()
        write_state(self.directory.state, self.state)


def open_directory(
    path: Path, capacity: int, origin_id: str, now: float, observe: Observe, *, family: str | None
) -> Opened:
    """SsdUnusable if it can't be used at all."""
    directory = Directory.claim(path, family)
    try:
        try:
            opened = _opened(directory, capacity, origin_id, now, observe)
        except IndexDamaged as damage:
            if not directory.alone:
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
    if family is not None and directory.alone:
        directory.share()
    return opened


def close_directory(opened: Opened) -> None:
    """Everything to the disk, and that recorded, by the last who closes. OSError or lmdb.Error if that fails."""
    try:
        if opened.directory.last() and not opened.touched.disowned:
            opened.index.sync()
            write_state(opened.directory.state, opened.state.closed())
    finally:
        opened.segments.close()
        opened.index.close()
        opened.touched.close()
        opened.directory.release()


def _opened(directory: Directory, capacity: int, origin_id: str, now: float, observe: Observe) -> Opened:
    state = read_state(directory.state, now)
    content = directory.read_format()
    prepared = directory.alone
    if prepared:
        reason = _reason_to_discard(directory, state, origin_id)
        if reason is not None:
            if reason:
                observe(TierFailed("ssd", "open", reason))
            directory.discard()
            content = directory.found(origin_id)
            state = fresh_state(boot_id())
        state = state.opened(boot_id(), now)
        write_state(directory.state, state)
    if content is None or content.origin != fingerprint(origin_id):
        raise SsdUnusable(f"{directory.path}: its content is not of this origin")
    index = Index.open(directory.index, capacity, alone=directory.alone)
    try:
        index.env.reader_check()  # a process that was killed left its places in the table of readers, which is bounded
        segments = Segments(directory.segments)
        sizes = {number: size or segments.size(number) for number, size in index.segments().items()}
        space = Space(capacity, sizes, index.size())
        touched = Touched(directory.touched)
    except lmdb.Error as error:
        index.close()
        raise IndexDamaged(str(error)) from error
    except BaseException:
        index.close()
        raise
    return Opened(
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


def _reason_to_discard(directory: Directory, state: State, origin_id: str) -> str | None:
    """Why what is there can't be used: "" if there is nothing, None if it can be used."""
    content = directory.read_format()
    if content is None:
        return "unknown layout" if directory.index.exists() else ""
    if content.origin != fingerprint(origin_id):
        return "the content is of another origin"
    if state.hopeless:
        return f"{state.unclean_starts} starts in a row ended soon and uncleanly"
    if not directory.index.is_dir() or not directory.segments.is_dir():
        return "a folder is missing"
    if marked_disowned(directory.touched):
        return "the content was disowned"
    return None
