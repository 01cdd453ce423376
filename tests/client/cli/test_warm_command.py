"""`forebay warm`: the request, the progress of a scripted job, and the effect of Ctrl-C."""

import gzip
import json
import signal
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

import forebay_client
from forebay.server.admin.key_list import KeyListEntry
from forebay.server.admin.schema.admin_schema import WarmFailure
from forebay.server.admin.schema.warm_order import WarmOrder
from forebay_demo.free_ports import free_ports
from harness.admin_control import FakeControl
from harness.admin_port import admin_port
from harness.interruptible import interruptible
from harness.terminal import Typed, Typist

CLIENT = Path(forebay_client.__file__).parent.parent


def warm(control: FakeControl, *arguments: str, terminal: bool = False, stdin: str = "") -> Typed:
    with admin_port(control) as address:
        return Typist(address, terminal=terminal, stdin=stdin).type("warm", *arguments)


def test_warm_without_wait_returns_at_once() -> None:
    control = FakeControl()
    typed = warm(control, "s3://b/p", "--concurrency", "8")
    assert (typed.code, typed.err) == (0, "")
    assert typed.out.startswith("Job j1 warms s3://b/p.\n")
    assert control.calls == [("start_job", WarmOrder("b", "p", concurrency=8))]


def test_warm_names_recordings_and_plans() -> None:
    control = FakeControl()
    for arguments in (
        ("s3://b", "--recording", "nightly", "--rate", "1MiB"),
        ("--recording", "s3://b/nightly"),
        ("s3://b", "--plan", "set/1"),
        ("--plan", "5d1c2f"),
    ):
        warm(control, *arguments)
    assert [order for name, order in control.calls if name == "start_job"] == [
        WarmOrder(recordings=("s3://b/nightly",), rate=1 << 20),
        WarmOrder(recordings=("s3://b/nightly",)),
        WarmOrder(plans=("s3://b/set/1",)),
        WarmOrder(plans=("5d1c2f",)),
    ]
    for refused in (
        ("--recording", "nightly"),
        ("s3://b/prefix", "--plan", "p"),
        ("s3://b", "--plan", "p", "--recording", "r"),
        ("s3://b", "--plan", "p", "--pin"),
        ("s3://b", "--plan", "p", "--keys", "-"),
    ):
        assert warm(control, *refused).code == 2


def test_warm_reads_keys_from_a_file(tmp_path: Path) -> None:
    control, keys = FakeControl(), tmp_path / "keys"
    keys.write_bytes("a b\r\n\n ü \nlast\u2028one".encode())
    typed = warm(control, "s3://b", "--keys", str(keys))
    assert control.calls == [("start_job", WarmOrder(lists=("00",)))]
    assert control.lists == {"00": [KeyListEntry("b", key) for key in ("a b", " ü ", "last\u2028one")]}
    assert typed.out.startswith("Job j1 warms 3 keys of s3://b.\n")


def test_warm_reads_keys_from_standard_input() -> None:
    control = FakeControl()
    warm(control, "s3://b", "--keys", "-", stdin="a\nb\n")
    assert control.calls == [("start_job", WarmOrder(lists=("00",)))]
    assert control.lists == {"00": [KeyListEntry("b", "a"), KeyListEntry("b", "b")]}


def test_warm_reads_the_beginning_of_every_file_first(tmp_path: Path) -> None:
    control, keys, packed = FakeControl(), tmp_path / "keys", tmp_path / "packed.gz"
    keys.write_text("a\n")
    packed.write_bytes(gzip.compress(b"b\n")[:10] + b"\xff" * 20)
    for bad in (packed, tmp_path / "none"):
        typed = warm(control, "s3://b", "--keys", str(keys), "--manifest", str(bad), "--format", "keys")
        assert (typed.code, control.calls, control.lists) == (2, [], {})
        assert typed.err.splitlines()[-1].startswith(f"{bad} can't be read: ")


def test_warm_rejects_contradictory_keys(tmp_path: Path) -> None:
    control, empty, latin = FakeControl(), tmp_path / "empty", tmp_path / "latin"
    empty.write_text("\n")
    latin.write_bytes(b"\xff\n")
    for location, keys, code in (
        ("s3://b", empty, 2),
        ("s3://b", latin, 2),
        ("s3://b", tmp_path / "none", 2),
        ("s3://b/p", latin, 2),
    ):
        assert warm(control, location, "--keys", str(keys)).code == code
    assert control.calls == []


def test_wait_prints_lines_without_a_terminal() -> None:
    typed = warm(FakeControl(steps=30), "s3://b/p", "--wait")
    assert (typed.code, typed.err) == (0, "")
    assert typed.out == (
        "Job j1 warms s3://b/p; Ctrl-C cancels it.\n"
        "1 of 30 objects, 10 MiB of 300 MiB, 3.3%\n"
        "21 of 30 objects, 210 MiB of 300 MiB, 20 MiB/s, 4 s left\n"
        "Warmed 30 objects, 300 MiB in 30 s (10 MiB/s).\n"
        "In the cache at the end: 300 MiB (300 MiB in memory, 1.0 MiB on SSD).\n"
    )


def test_wait_shows_a_bar_on_a_terminal() -> None:
    typed = warm(FakeControl(), "s3://b/p", "--wait", terminal=True)
    assert typed.code == 0
    assert "2 of 3 objects   20 MiB of 30 MiB" in typed.out
    assert "20 MiB/s   0 s left" in typed.out
    assert "━" in typed.out


def test_wait_as_json_prints_the_ended_job() -> None:
    typed = warm(FakeControl(), "s3://b/p", "--wait", "--json", terminal=True)
    assert typed.code == 0
    job = json.loads(typed.out)
    assert (job["state"], job["done"]) == ("done", 3)


@pytest.mark.parametrize("as_json", [True, False])
def test_warm_fails_if_an_object_failed(as_json: bool) -> None:
    control = FakeControl(failing=(WarmFailure("k\n", "The origin answered 403."),))
    typed = warm(control, "s3://b/p", "--wait", *(["--json"] if as_json else []))
    assert typed.code == 3
    if as_json:
        assert json.loads(typed.out)["failures"] == [{"key": "k\n", "reason": "The origin answered 403.", "bucket": ""}]
    else:
        assert typed.err == (
            "1 of 3 objects could not be warmed:\n  k\\n: The origin answered 403.\nWarmed 2 objects, 20 MiB.\n"
        )


@pytest.mark.parametrize("terminal", [True, False])
def test_what_does_not_fit_is_said_and_fails(terminal: bool) -> None:
    control = FakeControl(steps=5, kept=2, capacity=20 << 20)
    typed = warm(control, "s3://b/p", "--wait", terminal=terminal)
    warning = "s3://b/p has 5 objects of 50 MiB, and the cache keeps 20 MiB: not all of it will stay."
    end = "Warmed 5 objects, 2 of them stayed in the cache (20 MiB of 50 MiB): the rest did not fit.\n"
    assert typed.code == 4
    assert typed.err == (end if terminal else f"{warning}\n{end}")
    assert not terminal or typed.out.count(warning) == 1


def test_if_fits_is_sent_and_its_refusal_shown() -> None:
    control = FakeControl(steps=1, kept=0, capacity=5 << 20)
    typed = warm(control, "s3://b/p", "--wait", "--if-fits")
    assert control.calls[0] == ("start_job", WarmOrder("b", "p", if_fits=True))
    assert typed.code == 4
    assert typed.err.startswith("s3://b/p has 1 object of 10 MiB, and the cache keeps 5.0 MiB: nothing was fetched.\n")


@pytest.mark.parametrize(("kept", "code"), [(3, 0), (1, 4)])
def test_check_reports_what_is_cached(kept: int, code: int) -> None:
    control = FakeControl(kept=kept)
    typed = warm(control, "s3://b/p", "--check")
    assert control.calls[0] == ("start_job", WarmOrder("b", "p", check=True))
    assert (typed.code, typed.err) == (code, "")
    assert typed.out == (
        f"{kept} of 3 objects of 30 MiB are cached whole: {kept}0 MiB ({kept}0 MiB in memory, 1.0 MiB on SSD).\n"
    )


def test_a_prefix_that_matches_nothing_fails() -> None:
    typed = warm(FakeControl(steps=0), "s3://b/trian/", "--wait")
    assert (typed.code, typed.err) == (1, "Job j1 failed: no key begins with it.\n")


def test_a_wildcard_makes_a_glob_unless_it_is_literal() -> None:
    control = FakeControl()
    warm(control, "s3://b/train/*.tar", "oss://c/p/", "s3://d/?")
    warm(control, "s3://b/train/*.tar", "--literal")
    warm(control, "s3://b/1/", "s3://b/2/")
    assert control.calls == [
        ("start_job", WarmOrder(globs=("s3://b/train/*.tar", "s3://d/?"), locations=("s3://c/p/",))),
        ("start_job", WarmOrder("b", "train/*.tar")),
        ("start_job", WarmOrder(locations=("s3://b/1/", "s3://b/2/"))),
    ]


def test_bounds_are_sent() -> None:
    control = FakeControl()
    warm(control, "s3://b", "--rate", "200MiB/s", "--until", "80%", "--newer-than", "7d")
    assert control.calls == [("start_job", WarmOrder("b", "", rate=200 << 20, until="80%", newer_than="7d"))]
    for wrong in (("--rate", "fast"), ("--until", "120%"), ("--newer-than", "yesterday")):
        typed = warm(control, "s3://b", *wrong)
        assert typed.code == 2
        assert f"{wrong[0]} must be" in typed.err
    assert "in --plan is no plan" in warm(control, "--plan", "no/plan").err


@pytest.mark.parametrize("packed", [False, True])
def test_a_manifest_is_read_by_its_name(tmp_path: Path, packed: bool) -> None:
    control, text = FakeControl(), b"size,url\n7,s3://b/k\n"
    file = tmp_path / ("list.csv.gz" if packed else "list.csv")
    file.write_bytes(gzip.compress(text) if packed else text)
    assert warm(control, "--manifest", str(file)).code == 0
    file.write_bytes(b"b,a%2Fb,3\n")
    columns = ("--format", "s3-inventory", "--columns", "Bucket, Key, Size")
    assert warm(control, "--manifest", str(file), *columns).code == 0
    assert list(control.lists.values()) == [[KeyListEntry("b", "k", 7)], [KeyListEntry("b", "a/b", 3)]]


def test_a_bad_line_is_named(tmp_path: Path) -> None:
    control, file = FakeControl(), tmp_path / "list.jsonl"
    file.write_text('{"key": "k", "bucket": "b"}\nk\n' + '"x"\n' * 100_000)
    typed = warm(control, "--manifest", str(file))
    assert (typed.code, typed.err) == (2, "Line 2: it is not JSON.\n")
    assert control.calls == []


def test_the_report_lists_every_failure(tmp_path: Path) -> None:
    failing = tuple(WarmFailure(f"k{number}", "The origin answered 403.", "b") for number in range(2500))
    control, report = FakeControl(steps=1, failing=failing), tmp_path / "failures.jsonl"
    assert warm(control, "s3://b", "--wait", "--report", str(report)).code == 3
    lines = [json.loads(line) for line in report.read_text().splitlines()]
    assert lines == [{"key": each.key, "reason": each.reason, "bucket": "b"} for each in failing]
    control.failing = ()
    assert warm(control, "s3://b", "--wait", "--report", str(report)).code == 0
    assert report.read_text() == ""
    control.calls.clear()
    assert warm(control, "s3://b", "--wait", "--report", str(tmp_path / "no" / "file")).code == 2
    assert control.calls == []


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("s3://b", "--report", "file"),
        ("s3://b", "--format", "csv"),
        ("s3://b", "s3://c", "--keys", "-"),
        ("--manifest", "-", "--columns", "Key"),
        ("s3://b", "--keys", "-", "--newer-than", "1d"),
        ("s3://b", "--check", "--rate", "1MiB"),
    ],
)
def test_contradictory_options_are_refused(arguments: tuple[str, ...]) -> None:
    control = FakeControl()
    assert warm(control, *arguments, stdin="a\n").code == 2
    assert control.calls == []


@pytest.mark.parametrize(("survives", "code"), [(True, 0), (False, 1)])
def test_a_job_that_survives_is_followed_through_a_restart(survives: bool, code: int) -> None:
    control, [port] = FakeControl(steps=5, survives=survives), free_ports(1)
    with ExitStack() as ports:
        address = ports.enter_context(admin_port(control, port=port))

        def at_pause(count: int) -> None:
            if count == 2:
                ports.close()
            if count == 9:
                ports.enter_context(admin_port(control, port=port))

        typed = Typist(address, at_pause=at_pause).type("warm", "s3://b/p", "--wait")
    assert typed.code == code
    assert ("Forebay was restarted; the job goes on." in typed.err) == survives


def test_a_job_is_not_followed_for_ever(tmp_path: Path) -> None:
    control, [port] = FakeControl(steps=5, survives=True), free_ports(1)
    with ExitStack() as ports:
        address = ports.enter_context(admin_port(control, port=port))
        typed = Typist(address, at_pause=lambda _count: ports.close()).type("warm", "s3://b/p", "--wait")
    assert typed.code == 1
    assert typed.err.startswith("Nothing listens at")


@pytest.mark.parametrize("flags", [("--check", "--if-fits"), ("--check", "--concurrency", "2")])
def test_check_has_no_options_of_a_fetch(flags: tuple[str, ...]) -> None:
    control = FakeControl()
    assert warm(control, "s3://b/p", *flags).code == 2
    assert warm(control, "s3://b", "--if-fits", "--keys", "-", stdin="a\n").code == 2
    assert control.calls == []


def test_unknown_job_fails_the_command(tmp_path: Path) -> None:
    control = FakeControl()
    with admin_port(control) as address:
        typed = Typist(address, at_pause=lambda _count: control.running.clear()).type("warm", "s3://b", "--wait")
    assert typed.code == 1
    assert typed.err == "There is no such job; `forebay jobs` lists the latest.\n"


@pytest.mark.parametrize("terminal", [True, False])
def test_ctrl_c_cancels_the_job(terminal: bool) -> None:
    def at_pause(count: int) -> None:
        if count == 3:
            raise KeyboardInterrupt

    control = FakeControl(steps=10)
    with admin_port(control) as address:
        typed = Typist(address, terminal=terminal, at_pause=at_pause).type("warm", "s3://b/p", "--wait")
    assert typed.code == 5
    assert typed.err == "Cancelled job j1; until then 2 objects, 20 MiB had been warmed.\n"
    assert control.running["j1"].state == "cancelled"


def test_a_signal_cancels_the_job() -> None:
    control = FakeControl(steps=1_000_000)
    with admin_port(control) as address:
        with interruptible():
            child = subprocess.Popen(
                [sys.executable, "-m", "forebay_client.cli.main", "warm", "s3://b/p", "--wait", "--admin", address],
                env={"PYTHONPATH": str(CLIENT)},
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        assert child.stdout is not None
        assert child.stdout.readline() == "Job j1 warms s3://b/p; Ctrl-C cancels it.\n"
        child.send_signal(signal.SIGINT)
        _, err = child.communicate(timeout=30)
    assert child.returncode == 5
    assert err.startswith("Cancelled job j1;")
    assert control.running["j1"].state == "cancelled"
