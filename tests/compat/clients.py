"""The table of clients (clients.toml, which says what its fields mean), and where each is installed.

Standard library only, and no import of Forebay: `make clients` needs nothing but Python.
"""

import shutil
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from compat import host_names

ROOT: Final = Path(__file__).parents[2]
HOME: Final = ROOT / ".clients"
"""One folder a place: a virtual environment, an npm prefix, or only the mark of what the system has."""
TABLE: Final = Path(__file__).parent / "clients.toml"
ERRANDS: Final = Path(__file__).parent / "errands"

DEEDS: Final = {
    "put": "objects written in one request",
    "stream": "an object written whose length nobody knows before its end",
    "get": "whole objects read, and read again from the cache",
    "head": "what is known of an object without reading it: also that there is none",
    "range": "a range read",
    "parts up": "a large object written as a multipart upload",
    "resume": "an interrupted upload that goes on with the parts that are there",
    "ranges down": "a large object read in ranges, several at a time",
    "list": "listings, by prefix and with a delimiter",
    "copy": "copies made by the origin",
    "delete": "objects deleted; gone at once",
    "presigned": "URLs signed by the client, used without it",
    "cname": "an object written and read at a host that stands for the bucket",
    "token": "temporary credentials: with their token, and not with another",
    "plan": "a plan sent, listed, its progress read, and ended (docs/plans.md)",
    "parquet": "some columns and rows of a Parquet file, by small scattered ranges",
    "data set": "PyTorch data sets, in the process and in the worker processes of a DataLoader",
    "checkpoint": "`torch.save` into an object, and `torch.load` from it",
    "refused": "what an S3 origin can't do is refused as OSS refuses, and a wrong secret is",
    "across": "what one dialect wrote is a hit for the other; a write through one is seen at once through the other",
}


@dataclass(frozen=True, slots=True)
class Client:
    """A row of the table."""

    name: str
    title: str
    speaks: Literal["s3", "oss"]
    source: Literal["pip", "npm", "debian"]
    place: str
    needs: str | None
    named: bool
    infers: bool
    leaves: bool
    packages: tuple[str, ...]
    version: str
    does: tuple[str, ...]
    points: str

    @property
    def home(self) -> Path:
        return HOME / self.place

    @property
    def mark(self) -> Path:
        """Written when all of it is installed; holds the packages, so that another pin installs anew."""
        return self.home / "installed"

    @property
    def pins(self) -> str:
        return "\n".join(self.packages) + "\n"

    @property
    def errand(self) -> Path:
        """The program that it runs."""
        if self.source == "npm":
            return ERRANDS / f"{self.name}.mjs"
        return ERRANDS / f"{self.name.replace('-', '_')}.py"

    def missing(self) -> str | None:
        """Why it can't be run, or None when it can."""
        if not self.mark.exists() or self.mark.read_text(encoding="utf-8") != self.pins:
            return f"{self.title} is not installed: make clients" + (f"-{self.needs}" if self.needs else "")
        if self.source == "npm" and shutil.which("node") is None:
            return "Node.js is not installed"
        if self.source == "debian" and (shutil.which(self.packages[0]) is None or not Path("/dev/fuse").exists()):
            return "there is no /dev/fuse here, or its package is gone"
        return host_names.missing() if self.named else None

    def command(self) -> list[str]:
        """What runs its errand."""
        if self.source == "npm":
            return ["node", str(self.errand)]
        python = str(self.home / "bin" / "python") if self.source == "pip" else sys.executable
        return [python, "-m", f"compat.errands.{self.errand.stem}"]


def load_clients() -> tuple[Client, ...]:
    """The table, in its order."""
    rows = tomllib.loads(TABLE.read_text(encoding="utf-8"))["client"]
    return tuple(
        Client(
            row["name"],
            row["title"],
            row.get("speaks", "s3"),
            row["from"],
            row.get("place", row["name"]),
            row.get("needs"),
            row.get("named", False),
            row.get("infers", False),
            row.get("leaves", False),
            tuple(row["packages"]),
            row["version"],
            tuple(row["does"]),
            row["points"],
        )
        for row in rows
    )
