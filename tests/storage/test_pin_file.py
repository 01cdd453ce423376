"""The file of pins: found again as it was, or counted as none."""

from pathlib import Path

import pytest

from forebay.policy.pins import Pin
from forebay.storage.pin_file import PinFile

PINS = (Pin("bucket", "", 1.5), Pin("bucket", "träin/\ud800", 2.0, 3, 400))


def test_pins_are_found_again(tmp_path: Path) -> None:
    file = PinFile(tmp_path / "state" / "pins.json")
    assert file.load() == ()
    file.save(PINS)
    assert file.load() == PINS
    file.save(PINS[:1])
    assert PinFile(tmp_path / "state" / "pins.json").load() == PINS[:1]
    assert [each.name for each in (tmp_path / "state").iterdir()] == ["pins.json"]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b"{}",
        b'{"version": 2, "pins": []}',
        b'{"version": 1, "pins": {}}',
        b'{"version": 1, "pins": [{"bucket": "b"}]}',
        b'{"version": 1, "pins": [{"bucket": 1, "prefix": "", "since": 1, "objects": null, "size": null}]}',
        b'{"version": 1, "pins": [{"bucket": "b", "prefix": "", "since": "x", "objects": null, "size": null}]}',
        b"\xff\xfe",
        b"[" * 100_000,
    ],
)
def test_a_damaged_file_counts_as_none(tmp_path: Path, content: bytes, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "pins.json").write_bytes(content)
    assert PinFile(tmp_path / "pins.json").load() == ()
    assert "nothing is pinned" in caplog.text


@pytest.mark.parametrize("damage", ["content", "unreadable"])
def test_pins_that_were_not_found_stay_beside_later_ones(tmp_path: Path, damage: str) -> None:
    path, aside = tmp_path / "pins.json", tmp_path / "pins.json.damaged"
    if damage == "content":
        path.write_bytes(b"[")
    else:
        path.mkdir()
    file = PinFile(path)
    assert file.load() == ()
    assert path.exists(), "a start alone changes nothing"
    file.save(PINS[:1])
    assert aside.is_dir() if damage == "unreadable" else aside.read_bytes() == b"["
    file.save(PINS)
    assert (file.load(), aside.is_dir()) == (PINS, damage == "unreadable")


def test_without_a_path_nothing_is_kept() -> None:
    file = PinFile(None)
    file.save(PINS)
    assert file.load() == ()


def test_a_failed_write_leaves_the_pins_of_before(tmp_path: Path) -> None:
    file = PinFile(tmp_path / "pins.json")
    file.save(PINS)
    (tmp_path / "pins.json.new").mkdir()
    with pytest.raises(OSError):
        file.save(())
    assert file.load() == PINS
