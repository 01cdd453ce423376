"""What is renewed in the child after a fork."""

import os
import subprocess
import sys

from forebay_client.transport.fork_safety import renew_after_fork
from structure.source_tree import ROOT


class Renewed:
    """Counts its renewals; each drops what `drops` holds."""

    def __init__(self, drops: "list[Renewed] | None" = None) -> None:
        self.count = 0
        self.drops = drops if drops is not None else []
        renew_after_fork(self.renew)

    def renew(self) -> None:
        self.count += 1
        self.drops.clear()


def test_none_is_left_out_when_another_goes() -> None:
    gone = [Renewed()]
    dropping, last = Renewed(gone), Renewed()
    child = os.fork()
    if child == 0:
        os._exit(0 if (dropping.count, last.count) == (1, 1) else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert last.count == 0


def test_an_end_of_the_interpreter_prints_nothing() -> None:
    program = (
        "from forebay_client import Client\n"
        "kept = Client('http://127.0.0.1:9', access_key='a', secret_key='b')\n"
        "kept.itself = kept\n"
    )
    paths = os.pathsep.join(str(ROOT / name) for name in ("client", "proxy"))
    answer = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        env={**os.environ, "PYTHONPATH": paths},
        check=False,
    )
    assert (answer.returncode, answer.stderr) == (0, b"")
