"""A recording as one principal may see it: the reads of keys that it may read, and no other key.

Everything that goes in or out passes here: an upload is verified and stripped of keys that its sender may not read, a
download of those that its receiver may not. The anchors for recognition and the totals are made on the way.
"""

from collections.abc import Callable
from dataclasses import dataclass

from forebay.core.cooperative import CooperativeWork
from forebay.core.errors import MalformedRecording
from forebay.core.events import RecordedRead
from forebay.core.read_log import read_hash
from forebay.policy.anchor_index import AnchorIndex
from forebay.protocol.recordings.numbered_page import FindNames
from forebay.protocol.recordings.recording_file import RecordingDecoder, RecordingEncoder
from forebay.protocol.recordings.recording_page import RecordingPage


@dataclass(frozen=True, slots=True)
class FilteredRecording:
    """A whole file, and the facts of its content."""

    content: bytes
    began: int
    index: AnchorIndex
    reads: int
    size: int
    """Bytes that were read."""
    dropped: int
    """Reads that were left out."""


def filter_recording(
    content: bytes,
    may_read: Callable[[str], bool] | None = None,
    *,
    salvage: bool = False,
    find_names: FindNames | None = None,
) -> CooperativeWork[FilteredRecording]:
    """Verifies a file and returns it with the reads of keys that `may_read` (None: all). Raises MalformedRecording.

    Yields several times a page. `salvage`: whether a file that breaks off, because its recorder was killed, is ended
    after its last whole page. `find_names`: see RecordingDecoder.
    """
    decoder, encoder, index = RecordingDecoder(content, find_names), RecordingEncoder(), AnchorIndex()
    pieces = [encoder.start(decoder.header)]
    allowed: dict[str, bool] = {}
    size = dropped = kept = 0
    while (page := _next_page(decoder, salvage=salvage)) is not None:
        yield
        reads: tuple[RecordedRead, ...] = page.reads
        if may_read is not None:
            keys = {read.key for read in reads}
            for number, key in enumerate(keys):
                if key not in allowed:
                    allowed[key] = may_read(key)
                if number % 256 == 255:
                    yield
            reads = tuple(read for read in reads if allowed[read.key])
            allowed = {key: allowed[key] for key in keys}
        dropped += len(page) - len(reads)
        if not reads:
            continue
        kept += len(reads)
        size += sum(read.length for read in reads)
        index.extend([read_hash(read.key, read.start) for read in reads])
        yield
        pieces.append(encoder.page(RecordingPage.of(reads, page.seconds)))
        yield
    is_unchanged = decoder.is_complete and not dropped and not decoder.has_numbers
    whole = content if is_unchanged else b"".join([*pieces, encoder.end()])
    return FilteredRecording(whole, decoder.header.began, index, kept, size, dropped)


def _next_page(decoder: RecordingDecoder, *, salvage: bool) -> RecordingPage | None:
    try:
        return decoder.next_page()
    except MalformedRecording:
        if not salvage:
            raise
        return None
