"""Files of recordings, made of keys."""

from collections.abc import Iterable, Iterator, Sequence

from forebay.core.cooperative import run_to_completion
from forebay.core.events import RecordedRead
from forebay.jobs.recordings.recording_filter import FilteredRecording, filter_recording
from forebay.protocol.recordings.recording_file import RecordingDecoder, RecordingEncoder, RecordingHeader
from forebay.protocol.recordings.recording_page import RecordingPage
from harness.loader_orders import whole_reads


def recording_of(reads: Sequence[str] | Sequence[RecordedRead], page_size: int = 100) -> bytes:
    """A file with these reads; keys stand for whole objects."""
    recorded = [each if isinstance(each, RecordedRead) else whole_reads([each])[0] for each in reads]
    encoder = RecordingEncoder()
    pieces = [encoder.start(RecordingHeader(1_750_000_000))]
    pieces += [
        encoder.page(RecordingPage.of(tuple(recorded[start : start + page_size]), start))
        for start in range(0, len(recorded), page_size)
    ]
    return b"".join([*pieces, encoder.end()])


def keys_in(content: bytes) -> list[str]:
    return [read.key for read in reads_of(RecordingDecoder(content).pages())]


def filtered(content: bytes) -> FilteredRecording:
    return run_to_completion(filter_recording(content))


def reads_of(pages: Iterable[RecordingPage]) -> Iterator[RecordedRead]:
    """Yields the reads of pages."""
    for page in pages:
        yield from page.reads
