"""What Debian 13 has of other people's suites: unpacked into a directory, nothing is installed and no root is needed.

A package index of our own, below the directory, so that neither the machine's sources nor its packages are touched; the
archive's signature is checked as always.
"""

import os
import shutil
import subprocess
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from suites.commands import extract, run

RELEASE: Final = "trixie"
KEYRING: Final = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
_CONFIGURATION: Final = """\
Dir::Etc::sourcelist "{home}/sources.list";
Dir::Etc::sourceparts "/nonexistent";
Dir::State::lists "{home}/lists";
Dir::Cache "{home}/cache";
"""


class PackageUnavailable(Exception):
    """The suite can't be had on this machine; the text says why."""


def unpack(home: Path, binaries: Sequence[str], source: str) -> tuple[Path, Path]:
    """The packages' files below one root, and the tree of the source package `source`, NAME=VERSION, with Debian's
    patches."""
    if shutil.which("apt-get") is None or shutil.which("dpkg") is None or not KEYRING.is_file():
        raise PackageUnavailable("needs Debian's apt-get, dpkg and keyring")
    apt, root, tree = home / "apt", home / "root", home / "source"
    for folder in (apt / "lists/partial", apt / "cache/archives/partial", tree):
        folder.mkdir(parents=True)
    where = f"[signed-by={KEYRING}] {_archive()} {RELEASE} main\n"
    (apt / "sources.list").write_text(f"deb {where}deb-src {where}")
    (apt / "apt.conf").write_text(_CONFIGURATION.format(home=apt))
    environ = {**os.environ, "APT_CONFIG": str(apt / "apt.conf")}
    run("apt-get", "update", "-qq", environ=environ)
    run("apt-get", "download", "-qq", *(f"{name}/{RELEASE}" for name in binaries), cwd=apt, environ=environ)
    for package in apt.glob("*.deb"):
        run("dpkg", "-x", str(package), str(root))
    run("apt-get", "source", "-qq", "--download-only", source, cwd=tree, environ=environ)
    unpacked_tree = extract_source(tree)
    series = unpacked_tree / "debian/patches/series"
    for patch in series.read_text().split() if series.is_file() else ():
        run("patch", "-p1", "-s", "-i", str(series.parent / patch), cwd=unpacked_tree)
    return root, unpacked_tree


def _archive() -> str:
    """Where this machine has its own release of Debian from: the same archive has the others."""
    wanted = ("Created-By: Packages", "Origin: Debian", "Label: Debian")
    told = subprocess.run(
        ["apt-get", "indextargets", "--format", "$(REPO_URI)", *wanted],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    if not told:
        raise PackageUnavailable("this machine has no archive of Debian among its package sources")
    return told[0]


def extract_source(home: Path) -> Path:
    """Extracts the archives of the source package in `home`, Debian's part into the upstream tree, and returns that."""
    (original,) = home.glob("*.orig.tar.*[!c]")
    extract(original, home)
    with tarfile.open(original) as upstream:
        tree = home / upstream.getnames()[0].split("/")[0]
    for archive in home.glob("*.debian.tar.*"):
        extract(archive, tree)
    return tree
