"""`forebay demo`: what its table says, the file it configures Forebay with, and how it says that it can't run."""

import io
import stat
import tomllib
from pathlib import Path

import pytest
from rich.console import Console

from forebay.settings.loader import load_settings
from forebay_demo.demo_run import ReadingPass, run, table_of
from forebay_demo.forebay_server import ForebayServer, OriginAddress, write_private
from forebay_demo.sample_reader import ReadingResult

ORIGIN = OriginAddress('http://127.0.0.1:1"', "us-east-1", "test:tester", "testing")


def console() -> Console:
    return Console(file=io.StringIO(), width=120)


def output(of: Console) -> str:
    assert isinstance(of.file, io.StringIO)
    return of.file.getvalue()


def test_hit_ratio_is_what_the_origin_did_not_send() -> None:
    def passed(sent: int) -> float:
        return ReadingPass("p", ReadingResult(2.0, 1000, ()), 3, sent).hit_ratio

    assert [passed(1000), passed(250), passed(0), passed(1200)] == [0.0, 0.75, 1.0, 0.0]


def test_the_first_pass_is_what_others_are_compared_with() -> None:
    screen = console()
    screen.print(
        table_of(
            [
                ReadingPass("direct", ReadingResult(4.0, 100_000_000, ()), 10, 100_000_000),
                ReadingPass("warm", ReadingResult(0.5, 100_000_000, ()), 0, 0),
            ],
            0.02,
        )
    )
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in output(screen).splitlines() if "│" in line]
    assert rows == [
        ["direct", "4.00 s", "25 MB/s", "1.0x", "0%", "10"],
        ["warm", "0.50 s", "200 MB/s", "8.0x", "100%", "0"],
    ]


def test_a_demo_that_cannot_run_says_so_in_a_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    screen = console()
    assert run(directory=Path("/proc/self/x"), console=screen) == 1
    failure = capsys.readouterr().err
    assert "FOREBAY_DEMO_DIR" in failure
    assert "Traceback" not in failure
    assert "FOREBAY_DEMO_DIR" not in output(screen)


def test_the_configuration_is_one_that_forebay_takes(tmp_path: Path) -> None:
    origin = ORIGIN._replace(endpoint="http://127.0.0.1:1")
    text = ForebayServer(tmp_path, origin, 9000, 9001).configuration()
    loaded = load_settings(text, {}, {}, read_file=lambda _path: "", mode=0o600)
    assert loaded.settings.all_origins[0].endpoint == origin.endpoint
    assert loaded.warnings == ()


def test_values_are_quoted(tmp_path: Path) -> None:
    directory = tmp_path / 'a "b" \\ c'
    parsed = tomllib.loads(ForebayServer(directory, ORIGIN, 9000, 9001).configuration())
    assert parsed["origin"]["endpoint"] == ORIGIN.endpoint
    assert parsed["ssd"]["path"] == str(directory / "ssd")


def test_a_private_file_is_nobody_elses(tmp_path: Path) -> None:
    file = tmp_path / "f"
    file.write_text("old")
    file.chmod(0o644)
    write_private(file, "secret")
    assert file.read_text() == "secret"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
