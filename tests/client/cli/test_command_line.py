"""The command as a process: its imports, a closed pipe, an encoding that lacks a key's characters."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import forebay
import forebay_client
from harness.admin_control import FakeControl, cached_object
from harness.admin_port import admin_port

CLIENT = Path(forebay_client.__file__).parent.parent
PROXY = Path(forebay.__file__).parent.parent


def start(*arguments: str, **environ: str) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        [sys.executable, *arguments],
        env={"PYTHONPATH": str(CLIENT), **environ},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def test_broken_pipe_prints_no_traceback() -> None:
    control = FakeControl(objects=[cached_object(f"{number:0500}") for number in range(2000)])
    with admin_port(control) as address:
        child = start("-m", "forebay_client.cli.main", "ls", "s3://b", "--admin", address)
        assert child.stdout is not None
        assert child.stdout.readline().startswith(b"    SIZE")
        child.stdout.close()
        assert child.stderr is not None
        err = child.stderr.read()
        child.stderr.close()
        assert (child.wait(timeout=30), err) == (1, b"")


@pytest.mark.parametrize(
    ("output", "code", "complaint"),
    [("/dev/full", 1, b"The output can't be written: No space left on device.\n"), ("&-", 0, b"")],
    ids=("full", "closed"),
)
def test_an_output_that_takes_nothing_is_no_traceback(output: str, code: int, complaint: bytes) -> None:
    command = (f'exec "$0" -m forebay_client.cli.main version --admin 127.0.0.1:1 >{output}', sys.executable)
    ended = subprocess.run(
        ["/bin/sh", "-c", *command], env={"PYTHONPATH": str(CLIENT)}, capture_output=True, check=False
    )
    assert (ended.returncode, ended.stderr) == (code, complaint)


def test_unencodable_keys_are_shown_as_escapes() -> None:
    control = FakeControl(objects=[cached_object("数")])
    with admin_port(control) as address:
        child = start("-m", "forebay_client.cli.main", "ls", "s3://b", "--admin", address, PYTHONIOENCODING="ascii")
        out, _ = child.communicate(timeout=30)
    assert child.returncode == 0
    assert out.splitlines()[1].endswith(rb"\u6570")


INTERRUPTED_IMPORT = """
import os, signal, sys

class Interrupt:
    def find_spec(self, name, *_):
        if name == "forebay_client.cli.command_line":
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupt())
sys.argv[1:] = ["version", "--admin", "127.0.0.1:1"]
from forebay_client.cli.main import main
sys.exit(main())
"""


def test_an_interrupt_during_the_imports_prints_nothing() -> None:
    child = start("-c", INTERRUPTED_IMPORT)
    out, err = child.communicate(timeout=30)
    assert (child.returncode, out, err) == (-signal.SIGINT, b"", b"")


def test_an_ignored_interrupt_stays_ignored() -> None:
    child = start("-c", f"import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\n{INTERRUPTED_IMPORT}")
    out, err = child.communicate(timeout=30)
    assert (child.returncode, out.startswith(b"forebay ")) == (0, True), err


def test_most_commands_import_neither_rich_nor_the_proxy() -> None:
    program = (
        "import sys; from forebay_client.cli.command_line import run_command_line; "
        "code = run_command_line(['version', '--admin', '127.0.0.1:1']); "
        "assert code == 0; heavy = {'rich', 'forebay', 'asyncio'}; "
        "print([name for name in sys.modules if name.split('.')[0] in heavy])"
    )
    child = start("-c", program)
    out, err = child.communicate(timeout=30)
    assert (out.splitlines()[-1:], err) == ([b"[]"], b"")


def test_serve_names_the_missing_extra() -> None:
    # -S: no installed packages, as after a base install that has none of the proxy's libraries.
    for name, extra in (("serve", "proxy"), ("check-config", "proxy"), ("doctor", "proxy"), ("demo", "demo")):
        file = ["f"] if name == "check-config" else []
        child = start("-S", "-m", "forebay_client.cli.main", name, *file)
        out, err = child.communicate(timeout=30)
        assert (child.returncode, out) == (1, b"")
        assert err.decode().endswith(f"pip install '.[{extra}]'\n")
        assert err.count(b"\n") == 1


def test_a_base_install_lacks_the_proxys_libraries() -> None:
    child = start("-S", "-m", "forebay_client.cli.main", "serve", PYTHONPATH=f"{CLIENT}{os.pathsep}{PROXY}")
    out, err = child.communicate(timeout=30)
    assert (child.returncode, out) == (1, b"")
    assert err.decode().endswith("pip install '.[proxy]'\n")
    assert b"Traceback" not in err
