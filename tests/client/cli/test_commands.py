"""Every command against the real admin port: what it prints, with and without --json, and its exit code."""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from forebay.server.admin.admin_gate import AdminGate
from forebay.server.admin.schema.pin_schema import PinView
from forebay.server.admin.schema.plan_schema import PlanOrder
from forebay.server.admin.schema.stats_schema import ListingStats, RequestStats
from forebay_client import __version__
from forebay_client.cli.command_table import COMMANDS
from harness.admin_control import GIB, MIB, STARTED, FakeControl, cached_object, sample_plan
from harness.admin_port import admin_port
from harness.terminal import Typed, Typist

NOTHING_LISTENS = "127.0.0.1:1"
CALLS = {
    "stats": (),
    "top": (),
    "warm": ("s3://b",),
    "jobs": (),
    "plans": (),
    "ls": ("s3://b",),
    "pin": ("s3://b",),
    "unpin": ("s3://b",),
    "pins": (),
    "purge": ("s3://b",),
    "recordings": (),
    "writes": (),
    "flush": ("s3://b",),
    "datasets": (),
    "advise": (),
    "explain": ("s3://b/key", "--key", "trainer"),
    "resize": ("--memory", "1GiB"),
    "reload": (),
    "pack": ("s3://b", "--detach"),
    "unpack": ("s3://b", "--detach"),
    "version": (),
}


@pytest.fixture
def control() -> FakeControl:
    pin = PinView("b", "", STARTED, 40, 3 * GIB, 2 * GIB, over_quota=False)
    return FakeControl(pinned={("b", ""): pin})


@pytest.fixture
def forebay(control: FakeControl) -> Iterator[Typist]:
    with admin_port(control) as address:
        yield Typist(address)


def rows(typed: Typed) -> list[dict[str, object]]:
    """The JSON lines that a successful command prints."""
    assert (typed.code, typed.err) == (0, "")
    return [json.loads(line) for line in typed.out.splitlines()]


def test_explain(forebay: Typist, control: FakeControl) -> None:
    typed = forebay.type("explain", "s3://b/key", "--key", "trainer")
    assert (typed.code, typed.err) == (0, "")
    assert "freshness      60s          rules[0] (**)" in typed.out
    assert control.calls == [("explain", "b", "key", "trainer")]
    assert rows(forebay.type("explain", "s3://b/key", "--json"))[0]["read"] == "a hit"
    assert "\nmember         100 bytes at 512 of s3://b/packed/0.tar" in forebay.type("explain", "s3://b/member").out
    assert forebay.type("explain", "s3://b").code == 2  # no object


def press_ctrl_c(_count: int) -> None:
    raise KeyboardInterrupt


def test_every_command_is_tried_here() -> None:
    assert CALLS.keys() == COMMANDS.keys()


@pytest.mark.parametrize("command", sorted(CALLS.keys() - {"version"}))
def test_refused_connections_are_reported(command: str) -> None:
    typed = Typist(NOTHING_LISTENS).type(command, *CALLS[command])
    assert (typed.code, typed.out) == (1, "")
    assert typed.err.startswith("Nothing listens at 127.0.0.1:1.")
    assert typed.err.count("\n") == 1


@contextmanager
def another_server() -> Iterator[str]:
    """A server that is no Forebay and answers in JSON."""

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", "0")))
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b'{"status": {"up": true}}')

        do_POST = do_PUT = do_DELETE = do_GET  # noqa: N815 # the names that http.server looks for

        def log_message(self, *_args: object) -> None:
            """Logs nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Answer) as server:
        thread = Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def test_foreign_json_is_recognised() -> None:
    with another_server() as address:
        for command, options in CALLS.items():
            typed = Typist(address).type(command, *options)
            printed = typed.out if command == "version" else typed.err
            assert typed.code == (command != "version")
            assert printed.endswith(f"The server at {address} is not the admin port of a Forebay.\n")


@pytest.mark.parametrize("command", sorted(CALLS.keys() - {"version"}))
def test_the_token_comes_from_the_environment(control: FakeControl, command: str) -> None:
    with admin_port(control, AdminGate("hush")) as address:
        without = Typist(address).type(command, *CALLS[command])
        wrong = Typist(address, {"FOREBAY_ADMIN_TOKEN": "no"}).type(command, *CALLS[command])
        assert control.calls == []
        right = Typist(address, {"FOREBAY_ADMIN_TOKEN": "hush"}, at_pause=press_ctrl_c).type(command, *CALLS[command])
    assert (without.code, wrong.code, right.code) == (1, 1, 0)
    assert "set FOREBAY_ADMIN_TOKEN" in without.err
    assert "does not accept the token" in wrong.err
    assert "no\n" not in wrong.err


@pytest.mark.parametrize("token", ["hush\r\nX: y", "a\x00"])
def test_unprintable_token_is_rejected(token: str) -> None:
    typed = Typist(NOTHING_LISTENS, {"FOREBAY_ADMIN_TOKEN": token}).type("stats")
    assert typed.code == 2
    assert "hush" not in typed.err


@pytest.mark.parametrize("command", CALLS)
@pytest.mark.parametrize("terminal", [True, False])
def test_colours_are_for_terminals_only(control: FakeControl, command: str, terminal: bool) -> None:
    control.objects = [cached_object("k")]
    with admin_port(control) as address:
        typed = Typist(address, terminal=terminal, at_pause=press_ctrl_c).type(command, *CALLS[command])
    assert typed.code == 0
    assert terminal or "\x1b" not in typed.out


def test_admin_option_overrides_the_environment(forebay: Typist) -> None:
    assert Typist(NOTHING_LISTENS).type("jobs", "--admin", forebay.address).code == 0
    assert forebay.type("jobs", "--admin", NOTHING_LISTENS).code == 1


def test_version(forebay: Typist) -> None:
    typed = forebay.type("version")
    assert typed.out == f"forebay {__version__}\nForebay 0.1.0 runs at {forebay.address}.\n"
    assert rows(forebay.type("version", "--json")) == [{"client": __version__, "server": "0.1.0"}]


def test_version_option(capsys: pytest.CaptureFixture[str]) -> None:
    assert Typist(NOTHING_LISTENS).type("--version").code == 0
    assert capsys.readouterr().out == f"forebay {__version__}\n"


def test_version_without_a_server() -> None:
    typed = Typist(NOTHING_LISTENS).type("version")
    assert (typed.code, typed.err) == (0, "")
    assert typed.out.startswith(f"forebay {__version__}\nNothing listens")
    assert rows(Typist(NOTHING_LISTENS).type("version", "--json")) == [{"client": __version__, "server": None}]


def test_stats(forebay: Typist) -> None:
    typed = forebay.type("stats")
    assert typed.code == 0
    assert f"Forebay 0.1.0 at {forebay.address}, up 3 d 4 h\n" in typed.out
    assert "ssd     serving  32.0%  160 GiB   500 GiB  163,840   40,113\n" in typed.out
    assert "96.0%   15.0%  80.0%    1.0%      1.05x  1,200,000  datasets/imagenet/**\n" in typed.out
    assert "checkpoints" not in typed.out
    assert max(map(len, typed.out.splitlines())) <= 80


def test_stats_names_requests_without_a_response(forebay: Typist, control: FakeControl) -> None:
    requests = RequestStats({"0": 1, "200": 3})
    control.current_stats = replace(control.current_stats, requests=requests)
    assert "requests   4: 2xx 75.0%, no response 25.0%\n" in forebay.type("stats").out


def test_stats_shows_listings(forebay: Typist, control: FakeControl) -> None:
    assert "LISTING" not in forebay.type("stats").out
    listings = (
        ListingStats("datasets", "imagenet/", 1_281_167, 47 << 20, 130.0, 3, is_walking=False),
        ListingStats("other", "", 2000, 1 << 20, None, 0, is_walking=True),
    )
    control.current_stats = replace(control.current_stats, listings=listings)
    out = forebay.type("stats").out
    assert "datasets/imagenet/  1,281,167   47 MiB  2 min 10 s              3  complete\n" in out
    assert "other/                  2,000  1.0 MiB           -              0  being listed\n" in out


def test_stats_as_json_is_the_servers_document(forebay: Typist) -> None:
    (stats,) = rows(forebay.type("stats", "--json"))
    memory = {"name": "memory", "capacity": 4 * GIB, "used": 3480 * MIB, "blocks": 3480, "heads": 911}
    ssd = {"name": "ssd", "capacity": 500 * GIB, "used": 160 * GIB, "blocks": 163840, "heads": 40113}
    assert stats["tiers"] == [{**tier, "state": "serving", "reason": None, "pinned": 0} for tier in (memory, ssd)]


def test_stats_shows_what_is_pinned(forebay: Typist, control: FakeControl) -> None:
    assert "for pins" not in forebay.type("stats").out
    memory, ssd = control.current_stats.tiers
    control.current_stats = replace(control.current_stats, tiers=(memory, replace(ssd, pinned=12 * GIB)))
    assert "The ssd tier keeps 12 GiB for pins.\n" in forebay.type("stats").out


def test_stats_shows_failures(forebay: Typist, control: FakeControl) -> None:
    control.current_stats = replace(
        control.current_stats,
        workers_alive=1,
        origin=replace(
            control.current_stats.origin,
            state="unreachable",
            breaker="open",
            cause="connection refused",
            unreachable_for=11.6,
        ),
        tiers=tuple(replace(tier, state="failing", reason="write: EIO") for tier in control.current_stats.tiers),
    )
    out = forebay.type("stats").out
    assert "Only 1 of 2 workers run.\n" in out
    assert "unreachable, breaker open for 12 s: connection refused\n" in out
    assert "The ssd tier fails; reads go to the origin instead: write: EIO." in out


def test_stats_of_an_idle_server(forebay: Typist, control: FakeControl) -> None:
    control.current_stats = replace(control.current_stats, requests=RequestStats({}), reads=(), tiers=())
    typed = forebay.type("stats")
    assert typed.code == 0
    assert "requests   0\n" in typed.out


def test_top_prints_lines_without_a_terminal(control: FakeControl) -> None:
    def at_pause(count: int) -> None:
        if count == 3:
            raise KeyboardInterrupt
        control.current_stats = replace(
            control.current_stats,
            requests=RequestStats({"200": 200 * count, "503": 3}),
            uptime=control.current_stats.uptime + 2,
        )

    control.current_stats = replace(control.current_stats, requests=RequestStats({"503": 3}))
    with admin_port(control) as address:
        typed = Typist(address, at_pause=at_pause).type("top", "--interval", "2")
    assert (typed.code, typed.err) == (0, "")
    assert typed.out == 2 * "100 requests/s   - hits   0 B/s sent   0 B/s fetched\n"


def test_top_as_json(control: FakeControl) -> None:
    def at_pause(count: int) -> None:
        if count == 2:
            raise KeyboardInterrupt

    with admin_port(control) as address:
        (line,) = rows(Typist(address, at_pause=at_pause).type("top", "--json"))
    assert line["requests"] == 0.0


def test_top_takes_the_whole_terminal(control: FakeControl) -> None:
    def at_pause(count: int) -> None:
        if count == 2:
            raise KeyboardInterrupt

    with admin_port(control) as address:
        typed = Typist(address, terminal=True, at_pause=at_pause).type("top")
    assert typed.code == 0
    assert "(measuring)" in typed.out
    assert "0 requests/s" in typed.out
    assert typed.out.endswith("\x1b[?25h\x1b[?1049l")  # the cursor is back, and what was on the screen before


DATA_SETS = """\
  OBJECTS     SIZE   MEMORY     SSD   PINNED    QUOTA  KEEP   READS/S    AHEAD  EPOCH   HITS  BEFORE  DATA SET
1,281,167  148 GiB  3.0 GiB  71 GiB  8.0 GiB  200 GiB  epoch    5,120  256 MiB      3  49.9%   50.1%  imagenet
       12  3.0 GiB        -       -        -        -  lru          0      0 B      1   0.0%       -  ckpts/**
"""


def test_datasets(forebay: Typist, control: FakeControl) -> None:
    control.sets = (replace(control.sets[0], pinned=8 * GIB), *control.sets[1:])
    assert forebay.type("datasets").out == DATA_SETS
    assert [row["name"] for row in rows(forebay.type("datasets", "--json"))] == ["imagenet", "ckpts/**"]
    control.sets = ()
    typed = forebay.type("datasets")
    unread = "No object was read under a rule with a name, eviction or quota since Forebay started or loaded it.\n"
    assert (typed.code, typed.err) == (0, unread)


def test_advice_by_recordings(forebay: Typist, control: FakeControl) -> None:
    by_reads = forebay.type("advise").out
    assert forebay.type("advise", "--recordings").out == by_reads, "the fake has one advice"
    assert control.calls == [("advice", "reads"), ("advice", "recordings")]
    control.advised = ()
    assert forebay.type("advise", "--recordings").err == "No epoch was recorded to its end.\n"


def test_advise(forebay: Typist) -> None:
    imagenet = [
        "imagenet",
        "TIERS  LRU KEEPS    HITS  EPOCH KEEPS    HITS",
        " 0.5x     35 GiB    3.1%       37 GiB   25.0%",
        "   1x     70 GiB   13.5%       74 GiB   50.0%",
        "   2x    140 GiB   78.0%      148 GiB  100.0%",
        "   4x    280 GiB  100.0%      296 GiB  100.0%",
        "The set has 148 GiB, the tiers keep 70 GiB.",
        'Set eviction = "epoch": it hits 50 % of what is read again, 36 % more than lru.',
        "Tiers 2 times as large hit 100 %.",
    ]
    assert forebay.type("advise").out.splitlines() == [*imagenet, "ckpts/**", "No advice yet."]
    assert forebay.type("advise", "imagenet").out.splitlines() == imagenet
    assert [row["eviction"] for row in rows(forebay.type("advise", "--json"))] == ["epoch", None]
    typed = forebay.type("advise", "none")
    assert (typed.code, typed.err) == (
        1,
        "There is no data set 'none', or nothing of it was read since Forebay was started or its rule was loaded.\n",
    )


def test_jobs(forebay: Typist) -> None:
    typed = forebay.type("jobs")
    assert (typed.code, typed.out, typed.err) == (0, "", "There are no jobs.\n")
    forebay.type("warm", "s3://b/p")
    assert forebay.type("jobs").out == (
        "JOB  STATE    OBJECTS  FAILED  KEPT  BYTES  LEFT    AGE  WHAT\n"
        "j1   running     0/0+       0     -    0 B     -  5 min  s3://b/p\n"
    )
    assert [row["id"] for row in rows(forebay.type("jobs", "--json"))] == ["j1"]


def test_jobs_show_tells_what_became_of_a_job(forebay: Typist, control: FakeControl) -> None:
    control.steps, control.kept = 1, 0
    forebay.type("warm", "s3://b/p", "--wait")
    typed = forebay.type("jobs", "show", "j1")
    assert (typed.code, typed.out.splitlines()[1:]) == (
        0,
        ["j1   failed      1/1       0     0  10 MiB     -  5 min  s3://b/p"],
    )
    assert typed.err == "Warmed 1 object, 0 of them stayed in the cache (0 B of 10 MiB): the rest did not fit.\n"
    assert rows(forebay.type("jobs", "show", "j1", "--json"))[0]["kept"] == 0
    assert forebay.type("jobs", "show", "j9").code == 1


def test_jobs_show_says_that_a_running_job_does_not_fit(forebay: Typist, control: FakeControl) -> None:
    control.steps, control.capacity = 5, 20 * MIB
    forebay.type("warm", "s3://b/p")
    shown = forebay.type("jobs", "show", "j1").out.splitlines()
    assert shown[2:] == ["s3://b/p has 5 objects of 50 MiB, and the cache keeps 20 MiB."]


def test_jobs_cancel_ends_a_running_job_only(forebay: Typist, control: FakeControl) -> None:
    forebay.type("warm", "s3://b/p")
    typed = forebay.type("jobs", "cancel", "j1")
    assert (typed.code, typed.out, control.running["j1"].state) == (0, "Cancelled job j1.\n", "cancelled")
    typed = forebay.type("jobs", "cancel", "j1")
    assert (typed.code, typed.out, typed.err) == (1, "", "Job j1 had ended before: cancelled.\n")
    typed = forebay.type("jobs", "cancel", "j1", "--json")
    assert (typed.code, json.loads(typed.out)["state"]) == (1, "cancelled")
    forebay.type("warm", "s3://b/p", "--wait")
    typed = forebay.type("jobs", "cancel", "j2")
    assert (typed.code, typed.err) == (1, "Job j2 had ended before: done.\n")
    assert forebay.type("jobs", "cancel", "j9").code == 1


@pytest.mark.parametrize("arguments", [("cancel",), ("show",), ("ls", "j1")])
def test_jobs_needs_an_id_to_show_or_cancel(forebay: Typist, control: FakeControl, arguments: tuple[str, ...]) -> None:
    assert forebay.type("jobs", *arguments).code == 2
    assert control.calls == []


def test_plans(forebay: Typist, control: FakeControl) -> None:
    assert forebay.type("plans").err == "There are no plans.\n"
    control.sent_plans["5d1c2f"] = sample_plan()
    assert forebay.type("plans").out.splitlines() == [
        "PLAN    STATE           READ  LATE  FAILED     LEAD  SECONDS  KEY      WHAT",
        "5d1c2f  running  1,204/4,000     2       0  256 MiB      4.1  trainer  s3://datasets/.forebay/plans/epoch-0",
    ]
    shown = forebay.type("plans", "show", "5d1c2f").out
    assert "Fetched and unread: 430 entries." in shown
    assert "Fetched for it: 1,630 blocks, 975 MiB; 2.0 MiB of these were dropped unread." in shown
    assert rows(forebay.type("plans", "show", "5d1c2f", "--json"))[0]["entries"] == 4000
    assert forebay.type("plans", "cancel", "5d1c2f").out == "Cancelled plan 5d1c2f.\n"
    typed = forebay.type("plans", "cancel", "5d1c2f")
    assert (typed.code, typed.err) == (1, "Plan 5d1c2f had ended before: cancelled.\n")
    assert forebay.type("plans", "show", "other").code == 1


@pytest.mark.parametrize("target", ["s3://datasets/epoch-0", "s3://datasets/.forebay/plans/epoch-0"])
def test_a_plan_is_cancelled_by_its_location(forebay: Typist, control: FakeControl, target: str) -> None:
    control.sent_plans["ended"] = replace(sample_plan(), id="ended", state="done", sent_at=9e9)
    control.sent_plans["5d1c2f"] = sample_plan()
    assert forebay.type("plans", "show", target).out.splitlines()[1].startswith("5d1c2f")
    assert forebay.type("plans", "cancel", target).out == f"Cancelled plan {target}.\n"
    assert control.sent_plans["5d1c2f"].state == "cancelled"


def test_a_location_names_one_plan(forebay: Typist, control: FakeControl) -> None:
    none = forebay.type("plans", "cancel", "s3://datasets/epoch-0")
    assert (none.code, "There is no plan s3://datasets/epoch-0." in none.err) == (1, True)
    for plan_id, principal in (("5d1c2f", "trainer"), ("77aa01", "tester")):
        control.sent_plans[plan_id] = replace(sample_plan(), id=plan_id, principal=principal)
    several = forebay.type("plans", "cancel", "s3://datasets/epoch-0")
    assert (several.code, "say its ID: 5d1c2f, 77aa01." in several.err) == (2, True)


def test_a_plan_is_sent(forebay: Typist, control: FakeControl, tmp_path: Path) -> None:
    order = tmp_path / "order.txt"
    order.write_bytes(b"b\na\n")
    control.sent_plans["epoch-0"] = sample_plan()
    for target in ("s3://datasets/epoch-0", "s3://datasets/.forebay/plans/epoch-0"):
        sent = forebay.type("plans", "send", target, str(order), "--key", "trainer")
        assert (sent.code, sent.out) == (0, "Sent plan 5d1c2f: 4,000 reads, for the key trainer.\n")
        assert control.calls.pop() == ("send_plan", PlanOrder("datasets", "epoch-0", "YgphCg==", "trainer"))
    control.sent_plans["epoch-0"] = replace(sample_plan(), entries=0, dropped=0)
    empty = forebay.type("plans", "send", "s3://datasets/epoch-0", str(order))
    assert (empty.code, empty.err) == (1, f"{order} names no key: nothing is fetched for this plan.\n")
    refused = forebay.type("plans", "send", "s3://datasets/other", str(order))
    assert (refused.code, refused.err) == (2, "The plan is refused. Line 1: the line is too long.\n")


@pytest.mark.parametrize(
    "arguments",
    [("send",), ("send", "s3://b/n"), ("send", "b/n", "file"), ("send", "s3://b/n", "/none"), ("ls", "--key", "k")],
)
def test_plans_send_needs_a_name_and_a_file(forebay: Typist, control: FakeControl, arguments: tuple[str, ...]) -> None:
    assert forebay.type("plans", *arguments).code == 2
    assert control.calls == []


@pytest.mark.parametrize("arguments", [("cancel",), ("show",), ("ls", "5d1c2f")])
def test_plans_needs_an_id_to_show_or_cancel(forebay: Typist, control: FakeControl, arguments: tuple[str, ...]) -> None:
    assert forebay.type("plans", *arguments).code == 2
    assert control.calls == []


def test_ls(forebay: Typist, control: FakeControl) -> None:
    control.objects = [
        cached_object("p/1"),
        replace(cached_object("p/2\x1b[31m", size=123_456_789), memory=MIB, ssd=2 * MIB, cached=3 * MIB),
        cached_object("p/3", size=0, ssd=0),
        cached_object("q/1"),
    ]
    typed = forebay.type("ls", "s3://b/p")
    assert (typed.code, typed.err) == (0, "")
    assert typed.out == (
        "    SIZE  CACHED    MEMORY       SSD  CHECKED  KEY\n"
        "  10 MiB  100.0%       0 B    10 MiB    5 min  p/1\n"
        " 118 MiB    2.5%   1.0 MiB   2.0 MiB    5 min  p/2\\x1b[31m\n"
        "     0 B  100.0%       0 B       0 B    5 min  p/3\n"
        " 128 MiB   10.2%   1.0 MiB    12 MiB           total of 3 objects\n"
    )
    listed = rows(forebay.type("ls", "s3://b/p", "--json"))
    assert [row["key"] for row in listed] == ["p/1", "p/2\x1b[31m", "p/3"]
    assert listed[0]["validated_at"] == STARTED


@pytest.mark.parametrize(("order", "keys"), [("key", "abc"), ("size", "bca"), ("cached", "cab")])
def test_ls_sorts_the_largest_first(forebay: Typist, control: FakeControl, order: str, keys: str) -> None:
    control.objects = [
        cached_object("a", size=10, ssd=8),
        cached_object("b", size=30, ssd=1),
        cached_object("c", size=20, ssd=9),
    ]
    assert [row["key"] for row in rows(forebay.type("ls", "s3://b", "--json", "--sort", order))] == list(keys)
    limited = forebay.type("ls", "s3://b", "--sort", order, "--limit", "2").out.splitlines()
    assert [line[-1] for line in limited[1:-1]] == list(keys[:2])
    assert limited[-1].endswith(
        "total of 2 objects; there are more" if order == "key" else "total of 3 objects, 2 shown"
    )


def test_ls_with_a_limit_reads_no_further_page(forebay: Typist, control: FakeControl) -> None:
    control.objects = [cached_object(f"{number:05}") for number in range(2001)]
    assert forebay.type("ls", "s3://b", "--limit", "7").out.endswith("total of 7 objects; there are more\n")
    assert len(control.calls) == 1
    assert len(rows(forebay.type("ls", "s3://b", "--limit", "7", "--json"))) == 7
    assert forebay.type("ls", "s3://b", "--limit", "2001").out.endswith("total of 2,001 objects\n")


def test_ls_reads_every_page(forebay: Typist, control: FakeControl) -> None:
    control.objects = [cached_object(f"{number:05}") for number in range(2001)]
    assert [row["key"] for row in rows(forebay.type("ls", "s3://b", "--json"))] == [
        cached.name.key for cached in control.objects
    ]
    assert len(control.calls) == 3


def test_long_keys_are_not_wrapped(control: FakeControl) -> None:
    control.objects = [cached_object("k" * 300)]
    with admin_port(control) as address:
        typed = Typist(address, terminal=True).type("ls", "s3://b")
    assert "k" * 300 in typed.out
    assert "total of 1 object" in typed.out


def test_ls_of_an_empty_prefix(forebay: Typist) -> None:
    typed = forebay.type("ls", "s3://b/x")
    assert (typed.code, typed.out, typed.err) == (0, "", "Nothing of s3://b/x is cached.\n")
    assert rows(forebay.type("ls", "s3://b/x", "--json")) == []


def test_purge(forebay: Typist, control: FakeControl) -> None:
    control.objects = [cached_object("p/1"), cached_object("p/2"), cached_object("q")]
    assert forebay.type("purge", "s3://b/p").out == "Purged 2 objects, 20 MiB.\n"
    assert rows(forebay.type("purge", "s3://b/q", "--json")) == [{"objects": 1, "size": 10 * MIB}]
    assert control.calls == [("purge", "b", "p"), ("purge", "b", "q")]


@pytest.mark.parametrize("prefix", ["a b+c&d=e%2F?#ü", " ", "a\nb"])
def test_prefix_is_sent_as_typed(forebay: Typist, control: FakeControl, prefix: str) -> None:
    forebay.type("purge", f"s3://b/{prefix}")
    assert control.calls == [("purge", "b", prefix)]


def test_resize(forebay: Typist, control: FakeControl) -> None:
    control.tiers["ssd"] = 10 * GIB
    typed = forebay.type("resize", "--memory", "8GiB", "--ssd", "20GiB")
    assert typed.out == ("The memory tier has 8.0 GiB; it had 4.0 GiB.\nThe ssd tier has 20 GiB; it had 10 GiB.\n")
    assert rows(forebay.type("resize", "--memory", "2GiB", "--json")) == [
        {"tier": "memory", "before": 8 * GIB, "after": 2 * GIB, "warning": None}
    ]
    typed = forebay.type("resize", "--memory", "2000GiB")
    assert (typed.code, typed.err) == (0, "Warning: there is no such memory.\n")


def test_refused_resize_fails(forebay: Typist) -> None:
    typed = forebay.type("resize", "--memory", "many")
    assert (typed.code, typed.err) == (2, "memory.size: got 'many', allowed: a size such as 4GiB\n")
    assert forebay.type("resize", "--ssd", "1GiB").code == 1
    assert forebay.type("resize").code == 2


def test_reload(forebay: Typist, control: FakeControl, tmp_path: Path) -> None:
    assert forebay.type("reload").out == "Nothing changed.\n"
    control.has_file = False
    typed = forebay.type("reload")
    assert (typed.code, typed.err) == (
        1,
        "Forebay was started without a configuration file; `forebay reload FILE` loads one.\n",
    )
    file = tmp_path / "f.toml"
    file.write_text("[memory]\nsize = '1GiB'\n")
    typed = forebay.type("reload", str(file))
    assert typed.out == ("Changed: memory.size, rules.\nNeeds a restart: server.listen.\n")
    assert (typed.code, typed.err) == (0, "Warning: it is much.\n")
    file.write_text("bad")
    typed = forebay.type("reload", str(file), "--json")
    assert (typed.code, typed.out) == (2, "")
    assert typed.err == "memory.size: got 'bad', allowed: a size such as 4GiB\n"
    assert forebay.type("reload", str(tmp_path / "none")).code == 2


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("ls",),
        ("ls", "b/p"),
        ("ls", "s3://"),
        ("ls", "s3://b", "--sort", "age"),
        ("ls", "s3://b", "--limit", "0"),
        ("jobs", "stop", "j1"),
        ("stats", "--admin", "9001"),
        ("stats", "--js"),
        ("top", "--interval", "0"),
        ("top", "--interval", "nan"),
        ("warm", "s3://b", "--concurrency", "0"),
        ("serve", "--workers", "-1"),
        ("check-config",),
    ],
)
def test_wrong_command_lines_exit_with_2(
    forebay: Typist, control: FakeControl, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...]
) -> None:
    assert forebay.type(*arguments).code == 2
    assert capsys.readouterr().err.startswith("usage: forebay")
    assert control.calls == []


def test_a_mistyped_command_is_named_with_the_nearest(forebay: Typist, control: FakeControl) -> None:
    typed = forebay.type("sttats")
    said = "There is no command 'sttats'. Did you mean `forebay stats`? `forebay --help` lists the commands.\n"
    assert (typed.code, typed.out, typed.err, control.calls) == (2, "", said, [])
    typed = forebay.type("frobnicate")
    assert typed.err == "There is no command 'frobnicate'. `forebay --help` lists the commands.\n"


def test_an_option_before_the_command_is_refused(forebay: Typist, control: FakeControl) -> None:
    typed = forebay.type("--json", "stats")
    assert (typed.code, control.calls) == (2, [])
    assert typed.err == "There is no option --json before a command: options follow it, as in `forebay stats --json`.\n"


def test_a_mistyped_option_is_named_with_the_nearest(
    forebay: Typist, control: FakeControl, capsys: pytest.CaptureFixture[str]
) -> None:
    assert forebay.type("resize", "--memroy", "1GiB").code == 2
    shown = capsys.readouterr().err
    assert shown.startswith("usage: forebay resize ")
    assert shown.endswith("forebay resize: error: there is no option --memroy; did you mean --memory?\n")
    assert control.calls == []


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("serve", "http://127.0.0.1:9000"), "forebay serve: error: too many arguments: 'http://127.0.0.1:9000'\n"),
        (("stats", "now", "please"), "forebay stats: error: too many arguments: 'now' 'please'\n"),
        (("serve", "--workers", "many"), "argument --workers: 'many' is neither a whole number nor \"auto\"\n"),
    ],
)
def test_an_argument_too_many_is_named(
    forebay: Typist, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], said: str
) -> None:
    assert forebay.type(*arguments).code == 2
    shown = capsys.readouterr().err
    assert shown.startswith(f"usage: forebay {arguments[0]} ")
    assert shown.endswith(said)


def test_a_pack_job_keeps_no_objects_in_the_cache(forebay: Typist) -> None:
    forebay.type("pack", "s3://b/p/", "--detach")
    assert re.search(r"j1 +\w+ +0/0\+ +0 +- ", forebay.type("jobs").out)


def test_malformed_environment_address_exits_with_2() -> None:
    typed = Typist("nowhere").type("stats")
    assert (typed.code, typed.err) == (2, "FOREBAY_ADMIN: 'nowhere' is not an address; one looks like 127.0.0.1:9001\n")


def test_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert Typist(NOTHING_LISTENS).type("--help").code == 0
    shown = capsys.readouterr().out
    assert all(re.search(rf"^    {command}\b", shown, re.MULTILINE) for command in (*CALLS, "serve", "demo"))
