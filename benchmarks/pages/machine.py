"""The facts of the machine that figures are worth nothing without."""

import os
import platform
import sys
import sysconfig
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Final

import forebay_client
from benchmarks.load.wrk import wrk_version
from benchmarks.pages.tables import Table
from benchmarks.servers.nginx import nginx_version
from benchmarks.servers.varnish import varnish_version

_LIBRARIES: Final = ("aiohttp", "uvloop", "lmdb", "awscrt", "multidict")


def facts(nginx: str | None, varnish: str | None, wrk: str | None) -> Table:
    """As a table. `nginx`, `varnish`, `wrk`: their paths, if they are installed."""
    rows = (
        ("date", datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")),
        ("CPU", _cpu()),
        ("cores", f"{len(os.sched_getaffinity(0))}"),
        ("memory", f"{os.sysconf('SC_PHYS_PAGES') * os.sysconf('SC_PAGE_SIZE') / (1 << 30):.0f} GiB"),
        ("kernel", f"{platform.system()} {platform.release()}"),
        ("load average at the start", " ".join(f"{load:.1f}" for load in os.getloadavg())),
        ("Python", f"{platform.python_implementation()} {platform.python_version()} ({_build()})"),
        ("Forebay", forebay_client.__version__),
        ("libraries", ", ".join(f"{name} {version(name)}" for name in _LIBRARIES)),
        ("nginx", nginx_version(nginx) if nginx is not None else "not installed"),
        ("Varnish", varnish_version(varnish) if varnish is not None else "not installed"),
        ("wrk", wrk_version(wrk) if wrk is not None else "not installed"),
    )
    return Table(("fact", ""), rows)


def _build() -> str:
    """How it was built, which makes a tenth of a hit (docs/performance.md)."""
    if sys.base_prefix == "/usr":
        return "the distribution's"
    optimised = "--enable-optimizations" in (sysconfig.get_config_var("CONFIG_ARGS") or "")
    return "built with optimisations" if optimised else "built without optimisations"


def _cpu() -> str:
    """Its name, as the kernel has it."""
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "model name":
            return value.strip()
    return platform.machine()
