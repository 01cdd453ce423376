"""`forebay recordings`, against a scripted admin port."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.admin_control import FakeControl, sample_recording
from harness.admin_port import admin_port
from harness.terminal import Typist

FILE = bytes(range(200))


@pytest.fixture
def control() -> FakeControl:
    found = FakeControl(steps=1)
    found.recorded = {
        ("b", "auto-1"): (sample_recording("b", "auto-1", "automatic", "trainer"), FILE),
        ("c", "nightly"): (sample_recording("c", "nightly"), FILE),
    }
    return found


@pytest.fixture
def forebay(control: FakeControl) -> Iterator[Typist]:
    with admin_port(control) as address:
        yield Typist(address)


def test_recordings_are_listed(forebay: Typist) -> None:
    lines = forebay.type("recordings").out.splitlines()
    assert len(lines) == 3
    assert lines[0].split() == ["STATE", "READS", "BYTES", "FILE", "AGE", "USED", "KEY", "DATA", "SET", "RECORDING"]
    assert lines[1].split()[:5] == ["automatic", "1,281,167", "140", "GiB", "9.0"]
    assert lines[1].endswith("trainer  imagenet  s3://b/auto-1")
    assert [line.split()[-1] for line in forebay.type("recordings", "ls", "s3://c").out.splitlines()[1:]] == [
        "s3://c/nightly"
    ]
    typed = forebay.type("recordings", "ls", "s3://b", "--json")
    assert [json.loads(line)["name"] for line in typed.out.splitlines()] == ["auto-1"]


def test_no_recording_is_no_failure(forebay: Typist, control: FakeControl) -> None:
    control.recorded.clear()
    typed = forebay.type("recordings")
    assert (typed.code, typed.out, typed.err) == (0, "", "There are no recordings.\n")


def test_one_is_saved(forebay: Typist, control: FakeControl) -> None:
    typed = forebay.type("recordings", "save", "s3://b/best")
    assert (typed.code, typed.out) == (0, "Saved s3://b/best: 1,281,167 reads of 140 GiB.\n")
    typed = forebay.type("recordings", "save", "s3://b/all", "--from", "best", "--shared")
    assert typed.code == 0
    assert control.recorded["b", "all"][0].principal == ""
    typed = forebay.type("recordings", "save", "s3://b/x")
    why = "reads are recorded where a rule says `record = true`"
    assert (typed.code, typed.err) == (1, f"There is no such recording to save: {why}.\n")


def test_one_is_exported_and_imported(forebay: Typist, control: FakeControl, tmp_path: Path) -> None:
    file = tmp_path / "nightly.recording"
    typed = forebay.type("recordings", "export", "s3://c/nightly", str(file))
    assert (typed.code, file.read_bytes()) == (0, FILE)
    assert sum(call[0] == "recording_part" for call in control.calls) == 20
    assert forebay.type("recordings", "import", "s3://d/copy", str(file)).code == 0
    assert control.recorded["d", "copy"][1] == FILE
    file.write_bytes(b"of somebody else")
    typed = forebay.type("recordings", "export", "s3://c/nightly", str(file))
    assert (typed.code, typed.err) == (2, f"{file} exists; --force writes over it.\n")
    assert file.read_bytes() == b"of somebody else"
    assert forebay.type("recordings", "export", "s3://c/nightly", str(file), "--force").code == 0
    assert file.read_bytes() == FILE


def test_a_bad_file_is_refused_with_its_reason(forebay: Typist, tmp_path: Path) -> None:
    file = tmp_path / "bad"
    file.write_bytes(b"bad")
    typed = forebay.type("recordings", "import", "s3://d/copy", str(file))
    assert (typed.code, typed.err) == (2, "The recording is refused: it is no recording (byte 0).\n")
    typed = forebay.type("recordings", "import", "s3://d/copy", str(tmp_path / "none"))
    assert (typed.code, typed.err.splitlines()[-1]) == (
        2,
        f"{tmp_path / 'none'} can't be read: No such file or directory.",
    )
    typed = forebay.type("recordings", "export", "s3://c/nightly", str(tmp_path / "none" / "file"))
    assert typed.code == 2
    assert "can't be written" in typed.err


def test_one_is_replayed(forebay: Typist, control: FakeControl) -> None:
    typed = forebay.type("recordings", "replay", "s3://c/nightly", "--rate", "200MiB", "--json")
    assert json.loads(typed.out)["state"] == "running"
    order = next(call[3] for call in control.calls if call[0] == "replay_recording")
    assert getattr(order, "rate", None) == 200 << 20
    assert forebay.type("recordings", "replay", "s3://c/nightly", "--wait").code == 0
    assert forebay.type("recordings", "replay", "s3://c/none").code == 1


def test_one_is_removed(forebay: Typist, control: FakeControl) -> None:
    typed = forebay.type("recordings", "rm", "s3://c/nightly")
    assert (typed.code, typed.out) == (0, "Removed s3://c/nightly: 1,281,167 reads of 140 GiB.\n")
    assert ("c", "nightly") not in control.recorded
    assert forebay.type("recordings", "rm", "s3://c/nightly").code == 1


@pytest.mark.parametrize(
    "words",
    [
        ("save",),
        ("save", "s3://b"),
        ("export", "s3://b/n"),
        ("rm", "s3://b/n", "file"),
        ("ls", "s3://b", "file"),
        ("rm", "s3://b/n", "--shared"),
        ("save", "s3://b/n", "--wait"),
        ("save", "s3://b/n", "--force"),
        ("replay", "s3://b/n", "--from", "x"),
    ],
)
def test_contradictions_are_wrong_usage(forebay: Typist, control: FakeControl, words: tuple[str, ...]) -> None:
    typed = forebay.type("recordings", *words)
    assert (typed.code, typed.out) == (2, "")
    assert control.calls == []
