"""The figures that Forebay claims, each measured on this machine, next to its peers in the same run.

    python -m benchmarks                     all of them; writes docs/benchmarks.md
    python -m benchmarks warm ssd            some of them; prints
    python -m benchmarks --quick             all of them with few and short rounds: whether they work, not what they say

Each page has a room: cache (docs/benchmarks.md), checkpoints, clients, epochs, misses, mounts, packs, scale, training;
`catalogue` names what is measured for each. They share the servers, origins, load, bare loops and processes, and pages
are written by `pages`. `figures` copies figures from the pages.

What is measured runs in processes of its own, each tied to this one (forebay_demo.child_process): nothing is left
running, however this one ends. Every answer that is timed is of a kind that was checked byte for byte before and
after.

Not tests: no figure here fails a build.
"""

import sys
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]

# Clients that sign and an origin that counts are in the test harness, which is not installed.
if str(ROOT / "tests") not in sys.path:
    sys.path.append(str(ROOT / "tests"))
