"""The files of recordings: what a process has written the next one finds, also after a kill."""

import errno
import json
from pathlib import Path
from zlib import crc32

import pytest

from forebay.jobs.recordings.recording import Recording
from forebay.jobs.recordings.recording_files import RecordingFiles
from forebay.protocol.recordings.recording_page import RecordingPage
from harness.file_calls import FileCalls
from harness.journal_points import FailOnce
from harness.loader_orders import index_of, sample_keys, whole_reads
from harness.numbered_reads import NumberedReader
from harness.recording_content import filtered, keys_in, recording_of

KEYS = sample_keys(120)


def new_recording(recording_id: str = "0123456789abcdef") -> Recording:
    return Recording(recording_id, "bucket", "name", "user", "set", "recording", 100.0, "run", 1)


def record_pages(files: RecordingFiles, recording: Recording) -> None:

    for start in range(0, len(KEYS), 40):
        files.append(recording, RecordingPage.of(whole_reads(KEYS[start : start + 40])))
    files.flush()


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
    files.append(new_recording(), RecordingPage.of(whole_reads(KEYS[:9])))
    files.flush()
    assert list(tmp_path.glob("*.recording"))
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


@pytest.mark.parametrize("nth", range(4))
def test_one_that_can_not_be_removed_hides_no_other(tmp_path: Path, nth: int, caplog: pytest.LogCaptureFixture) -> None:
    files = RecordingFiles(tmp_path)
    for recording_id in ("0" * 16, "1" * 16):
        recording = new_recording(recording_id)
        record_pages(files, recording)
        end(files, recording)
    (tmp_path / f"{'0' * 16}.json").write_bytes(b"{")
    with FileCalls(FailOnce("before unlink jobs/recordings/recording_names", nth, errno.EIO)).watched():
        files, found = reopened(files, tmp_path)
    assert [each.id for each in found] == ["1" * 16]
    assert [text for text in caplog.messages if "can't be removed: Input/output error" in text]
    files, found = reopened(files, tmp_path)
    assert ([each.id for each in found], list(tmp_path.glob("0*"))) == (["1" * 16], [])
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
    (tmp_path / f"{recording.id}.anchors").write_bytes(bytes(20) + crc32(bytes(20)).to_bytes(4, "little"))
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


# Numbers in place of names


def record_numbers(files: RecordingFiles, recording: Recording, reader: NumberedReader, keys: list[str]) -> None:
    for start in range(0, len(keys), 40):
        files.append(recording, reader.page(keys[start : start + 40]))
    files.flush()


def numbers_of(directory: Path) -> list[str]:
    return sorted(path.suffix for path in directory.iterdir() if path.name != "lock")


def test_epochs_of_one_log_have_their_names_once(tmp_path: Path) -> None:
    files, reader = RecordingFiles(tmp_path), NumberedReader()
    recordings = [new_recording("0" * 16), new_recording("1" * 16)]
    for recording, keys in zip(recordings, (KEYS, KEYS[::-1]), strict=True):
        record_numbers(files, recording, reader, keys)
        end(files, recording)
        assert (recording.size, keys_in(files.read(recording.id))) == (120_000, keys)
        assert KEYS[0].encode() not in (tmp_path / f"{recording.id}.recording").read_bytes()
    assert numbers_of(tmp_path) == sorted([".anchors", ".json", ".recording"] * 2 + [".names"])
    files, found = reopened(files, tmp_path)
    assert [keys_in(files.read(each.id)) for each in found] == [KEYS, KEYS[::-1]]
    for recording in found:
        assert (tmp_path / f"{recording.names[0]}.names").exists()
        files.remove(recording.id)
    assert numbers_of(tmp_path) == []
    files.close()


def test_a_saved_recording_has_its_names_in_itself(tmp_path: Path) -> None:
    files, recording = RecordingFiles(tmp_path), new_recording()
    record_numbers(files, recording, NumberedReader(), KEYS)
    end(files, recording)
    content = files.read(recording.id)
    recording.state = "saved"
    files.save(recording)
    assert (tmp_path / f"{recording.id}.recording").read_bytes() == content
    assert (recording.names, recording.file_size) == ([], len(content))
    assert ".names" not in numbers_of(tmp_path)
    files, [found] = reopened(files, tmp_path)
    assert (found, files.read(found.id)) == (recording, content)
    files.close()


@pytest.mark.parametrize("behind", [0, 80, 119])
def test_numbers_of_a_killed_process_are_found(tmp_path: Path, behind: int) -> None:
    files, recording, reader = RecordingFiles(tmp_path), new_recording(), NumberedReader()
    record_numbers(files, recording, reader, KEYS)
    files.write_tail(recording, behind, [reader.page([*KEYS[behind:], "more"])])
    path = tmp_path / f"{recording.id}.recording"
    path.write_bytes(path.read_bytes()[:-7])
    files, [found] = reopened(files, tmp_path)
    kept = [*KEYS, "more"] if behind <= 80 else KEYS[:80]
    assert (found.reads, keys_in(files.read(found.id))) == (len(kept), kept)
    assert numbers_of(tmp_path) == [".anchors", ".json", ".recording"]
    files.close()


def test_a_recording_without_its_names_goes(tmp_path: Path) -> None:
    files, recording = RecordingFiles(tmp_path), new_recording()
    record_numbers(files, recording, NumberedReader(), KEYS)
    end(files, recording)
    (tmp_path / f"{recording.names[0]}.names").unlink()
    files, found = reopened(files, tmp_path)
    assert (found, numbers_of(tmp_path)) == ([], [])
    files.close()


def test_names_that_an_earlier_process_left_go(tmp_path: Path) -> None:
    files = RecordingFiles(tmp_path)
    (tmp_path / f"{'a' * 16}.names").write_bytes(recording_of(KEYS))
    files, found = reopened(files, tmp_path)
    assert (found, numbers_of(tmp_path)) == ([], [])
    files.close()


@pytest.mark.parametrize("names", [["../lock"], [7], 7, [""]])
def test_names_with_another_name_are_never_opened(tmp_path: Path, names: object) -> None:
    files, recording = RecordingFiles(tmp_path), new_recording()
    record_numbers(files, recording, NumberedReader(), KEYS)
    end(files, recording)
    path = tmp_path / f"{recording.id}.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"names": names}))
    files, found = reopened(files, tmp_path)
    assert (found, numbers_of(tmp_path)) == ([], [])
    files.close()


def test_damaged_names_are_no_recording_to_read(tmp_path: Path) -> None:
    files, recording = RecordingFiles(tmp_path), new_recording()
    record_numbers(files, recording, NumberedReader(), KEYS)
    end(files, recording)
    (tmp_path / f"{recording.names[0]}.names").write_bytes(b"!" * 100)
    files, [found] = reopened(files, tmp_path)
    with pytest.raises(FileNotFoundError, match="damaged"):
        files.read(found.id)
    files.close()


def test_a_recording_goes_on_behind_the_numbers_of_another(tmp_path: Path) -> None:
    files, reader = RecordingFiles(tmp_path), NumberedReader()
    first, second = new_recording("0" * 16), new_recording("1" * 16)
    record_numbers(files, first, reader, KEYS)
    end(files, first)
    files.append_prefix(second, first.id, 70)
    files.append(second, reader.page(["other"]))
    assert files.portable_size(second.id) > 70
    end(files, second)
    files.remove(first.id)
    assert keys_in(files.read(second.id)) == [*KEYS[:70], "other"]
    files.close()
