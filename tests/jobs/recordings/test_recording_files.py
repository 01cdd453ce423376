"""The files of recordings: what a process has written the next one finds, also after a kill."""

from pathlib import Path

import pytest

from forebay.jobs.recordings.recording import Recording
from forebay.jobs.recordings.recording_files import RecordingFiles
from forebay.protocol.recordings.recording_page import RecordingPage
from harness.loader_orders import index_of, sample_keys, whole_reads
from harness.recording_content import filtered, keys_in, recording_of

KEYS = sample_keys(120)


def new_recording(recording_id: str = "0123456789abcdef") -> Recording:
    return Recording(recording_id, "bucket", "name", "user", "set", "recording", 100.0, "run", 1)


def record_pages(files: RecordingFiles, recording: Recording) -> None:
    files.begin(recording)
    for start in range(0, len(KEYS), 40):
        files.append(recording, RecordingPage.of(whole_reads(KEYS[start : start + 40])))


def end(files: RecordingFiles, recording: Recording) -> None:
    recording.state, recording.ended, recording.index = "automatic", 200.0, index_of(KEYS)
    files.end(recording)


def reopened(files: RecordingFiles, directory: Path) -> tuple[RecordingFiles, list[Recording]]:
    files.close()
    again = RecordingFiles(directory)
    return again, again.load()


def test_what_was_ended_is_found_with_its_anchors(tmp_path: Path) -> None:
    files, recording = RecordingFiles(tmp_path), new_recording()
    record_pages(files, recording)
    end(files, recording)
    files, [found] = reopened(files, tmp_path)
    recording.file_size = (tmp_path / f"{recording.id}.recording").stat().st_size
    assert found == recording
    assert found.index.positions == recording.index.positions
    assert (found.index.threshold, found.index.count) == (recording.index.threshold, 120)
    assert keys_in(files.read(found.id)) == KEYS
    files.close()


def test_what_a_killed_process_recorded_ends_there(tmp_path: Path) -> None:
    files, recording = RecordingFiles(tmp_path), new_recording()
    record_pages(files, recording)
    path = tmp_path / f"{recording.id}.recording"
    path.write_bytes(path.read_bytes()[:-7])  # in the middle of a write
    files, [found] = reopened(files, tmp_path)
    assert (found.state, found.reads, found.size) == ("automatic", 80, 80_000)
    assert keys_in(files.read(found.id)) == KEYS[:80]
    assert found.index.count == 80
    files, [again] = reopened(files, tmp_path)
    assert again == found
    files.close()


@pytest.mark.parametrize("behind", [0, 40, 80, 119])
def test_a_kill_costs_what_was_read_since_the_tail(tmp_path: Path, behind: int) -> None:
    files, recording = RecordingFiles(tmp_path), new_recording()
    record_pages(files, recording)
    more = [f"more/{number}" for number in range(60)]
    reads = whole_reads([*KEYS[behind:], *more])
    files.write_tail(recording, behind, [RecordingPage.of(reads[:50]), RecordingPage.of(reads[50:])])
    files, [found] = reopened(files, tmp_path)
    assert keys_in(files.read(found.id)) == [*KEYS, *more]
    assert (found.reads, found.index.count) == (180, 180)
    assert not list(tmp_path.glob("*.tail"))
    files.close()


@pytest.mark.parametrize("damage", ["cut", "changed", "gap", "empty"])
def test_a_damaged_tail_is_left_out(tmp_path: Path, damage: str) -> None:
    files, recording = RecordingFiles(tmp_path), new_recording()
    record_pages(files, recording)
    behind = 130 if damage == "gap" else 120
    files.write_tail(recording, behind, [RecordingPage.of(whole_reads(["more/1", "more/2"]))])
    path = tmp_path / f"{recording.id}.tail"
    content = path.read_bytes()
    damaged = {"cut": content[:-3], "changed": content[:-30] + b"!" + content[-29:], "empty": b"", "gap": content}
    path.write_bytes(damaged[damage])
    files, [found] = reopened(files, tmp_path)
    assert keys_in(files.read(found.id)) == KEYS
    files.close()


def test_what_broke_off_at_its_beginning_goes(tmp_path: Path) -> None:
    files = RecordingFiles(tmp_path)
    files.begin(new_recording())
    files, found = reopened(files, tmp_path)
    assert found == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["lock"]
    files.close()


@pytest.mark.parametrize("suffix", [".json", ".anchors"])
@pytest.mark.parametrize("content", [b"", b"[]", b"\xff" * 100])
def test_a_damaged_recording_goes_and_others_stay(tmp_path: Path, suffix: str, content: bytes) -> None:
    files = RecordingFiles(tmp_path)
    for recording_id in ("0" * 16, "1" * 16):
        recording = new_recording(recording_id)
        record_pages(files, recording)
        end(files, recording)
    (tmp_path / f"{'0' * 16}{suffix}").write_bytes(content)
    files, found = reopened(files, tmp_path)
    assert [each.id for each in found] == ["1" * 16]
    assert not list(tmp_path.glob("0*"))
    files.close()


def test_a_whole_file_is_kept_as_it_is(tmp_path: Path) -> None:
    files, recording = RecordingFiles(tmp_path), new_recording()
    content = recording_of(KEYS)
    recording.state, recording.index = "saved", filtered(content).index
    files.create(recording, content)
    files, [found] = reopened(files, tmp_path)
    assert files.read(found.id) == content
    files.remove(found.id)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["lock"]
    files.close()


def test_a_directory_is_used_by_one_process(tmp_path: Path) -> None:
    files = RecordingFiles(tmp_path)
    with pytest.raises(OSError, match="temporarily unavailable"):
        RecordingFiles(tmp_path)
    files.close()
    RecordingFiles(tmp_path).close()


@pytest.mark.parametrize("reads", [40, 55, 120])
def test_a_prefix_has_so_many_reads(tmp_path: Path, reads: int) -> None:
    files, source, recording = RecordingFiles(tmp_path), new_recording(), new_recording("fedcba9876543210")
    record_pages(files, source)
    end(files, source)
    files.begin(recording)
    assert files.append_prefix(recording, source.id, reads) > 0
    files.append(recording, RecordingPage.of(whole_reads(["last"])))
    end(files, recording)
    assert keys_in(files.read(recording.id)) == [*KEYS[:reads], "last"]
    files.close()


def test_files_without_a_document_go(tmp_path: Path) -> None:
    files, recording = RecordingFiles(tmp_path), new_recording()
    record_pages(files, recording)
    end(files, recording)
    (tmp_path / f"{recording.id}.json").unlink()
    files, found = reopened(files, tmp_path)
    assert found == []
    assert [path.name for path in tmp_path.iterdir()] == ["lock"]
    files.close()


@pytest.mark.parametrize("claimed", ["fedcba9876543210", "../0123456789abcdef"])
def test_a_document_of_another_recording_is_dropped(tmp_path: Path, claimed: str) -> None:
    directory = tmp_path / "recordings"
    files, recording = RecordingFiles(directory), new_recording()
    record_pages(files, recording)
    end(files, recording)
    document = directory / f"{recording.id}.json"
    document.write_text(document.read_text().replace(recording.id, claimed))
    for suffix in ("recording", "anchors"):
        (directory / f"{claimed}.{suffix}").write_bytes((directory / f"{recording.id}.{suffix}").read_bytes())
    files, found = reopened(files, directory)
    assert found == []
    files.close()


def test_anchors_that_divide_by_nothing_are_damaged(tmp_path: Path) -> None:
    files, recording = RecordingFiles(tmp_path), new_recording()
    record_pages(files, recording)
    end(files, recording)
    (tmp_path / f"{recording.id}.anchors").write_bytes(bytes(20))
    files, found = reopened(files, tmp_path)
    assert found == []
    files.close()


def test_a_directory_in_use_costs_no_descriptor(tmp_path: Path) -> None:
    files = RecordingFiles(tmp_path)
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(3):
        with pytest.raises(OSError, match="unavailable"):
            RecordingFiles(tmp_path)
    assert len(list(Path("/proc/self/fd").iterdir())) == before
    files.close()
