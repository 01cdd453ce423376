"""What a start does without: each kind of process, in an interpreter of its own, imports what it is made of, no more.

What is listed as absent was measured to cost something (docs/performance.md, Start), or is what a process is not.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from harness.certificates import TestAuthority
from harness.served import PATHS

SUPERVISOR = ("forebay.main", "forebay.serve", "forebay.workers.supervisor")
ONLY_WORKER = ("forebay.main", "forebay.serve", "forebay.server.worker")
MEMBER = ("forebay.workers.worker_main", "forebay.workers.node_worker")

NOT_A_SUPERVISORS = {"aiohttp", "lmdb", "fastcrc", "uvloop", "cachetools", "yarl"} | {
    f"forebay.{room}" for room in ("story", "protocol", "decisions", "stores.ssd", "shell.worker", "shell.composition")
}
NOBODYS = {"awscrt", "botocore", "aiobotocore", "boto3", "rich", "swift"}
"""Imported when they are first needed, if ever."""


def told(program: str, **environ: str) -> Any:
    """What a program of a fresh interpreter prints, which is JSON."""
    ran = subprocess.run(  # noqa: S603 - this interpreter and the text above
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": PATHS, **environ},
        capture_output=True,
        check=True,
        text=True,
    )
    return json.loads(ran.stdout)


@pytest.mark.parametrize(
    ("modules", "absent"),
    [
        (SUPERVISOR, NOBODYS | NOT_A_SUPERVISORS),
        (ONLY_WORKER, NOBODYS | {"forebay.workers.supervisor", "forebay.workers.node_state"}),
        (MEMBER, NOBODYS | {"forebay.workers.supervisor", "forebay_demo.embedded_origin", "forebay.serve"}),
    ],
    ids=["supervisor", "only worker", "worker among several"],
)
def test_a_process_imports_what_it_is_made_of(modules: tuple[str, ...], absent: set[str]) -> None:
    found = told(f"import json, sys, {', '.join(modules)}\nprint(json.dumps(sorted(sys.modules)))")
    assert set(modules) <= set(found)
    assert set(found) & absent == set()


def test_aiohttp_reads_no_certificates_and_connections_to_an_origin_do(tmp_path: Path) -> None:
    system = TestAuthority(tmp_path).file  # in the place of the system's
    program = (
        "import json, os\n"
        "from forebay.server.startup import import_aiohttp\n"
        "import_aiohttp()\n"
        "from aiohttp import connector\n"
        "from forebay.origin.http.http_connection import context_of\n"
        "contexts = connector._SSL_CONTEXT_VERIFIED, connector._SSL_CONTEXT_UNVERIFIED, context_of(None)\n"
        "known = [each.cert_store_stats()['x509_ca'] for each in contexts]\n"
        "print(json.dumps([known, os.environ['SSL_CERT_FILE']]))"
    )
    assert told(program, SSL_CERT_FILE=str(system)) == [[0, 0, 1], str(system)]
