"""Names in a journal's directory.

<journal.path>/
    FORMAT                       JSON: the version of the layout
    README                       for people: what this is, and why it must not be deleted
    lock                         flock'ed by the Forebay that owns the directory
    drain.lock                   flock'ed by the one process that carries writes out
    uploads.lock                 a byte of it is locked while the origin decides about the end of an upload
    own-uploads                  the uploads at origins that were created and not ended, and ends of such
    logs/<id>.log                records; the id is 32 hexadecimal digits, random
    logs/<id>.settled            the numbers of its records that are settled
    bodies/<id>.body             one large body, and its checksums
"""

import json
import re
import secrets
from collections.abc import Iterable
from pathlib import Path
from typing import Final

VERSION: Final = 3
LOG: Final = ".log"
SETTLED: Final = ".settled"
BODY: Final = ".body"
_LOG_NAME: Final = re.compile(r"([0-9a-f]{32})\.log")


README: Final = """\
This directory is the journal of a Forebay. It is no cache: it has writes that were acknowledged to their clients and
may be nowhere else yet. Don't delete it, nor anything in it, unless

    forebay check-journal THIS_DIRECTORY

says "0 pending writes". The same command exports what is pending, to files or to another endpoint, without a running
Forebay: `--export DIR`, `--export-to URL`.
"""


def new_id() -> str:
    """Returns a random id: 32 hexadecimal digits."""
    return secrets.token_hex(16)


def log_ids(names: Iterable[str]) -> list[str]:
    """Returns the ids of the logs among the names of a folder. A file of any other name is none of the journal's."""
    return [found[1] for name in names if (found := _LOG_NAME.fullmatch(name)) is not None]


class JournalLayout:
    """The paths of one journal."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.logs = f"{path}/logs"
        self.bodies = f"{path}/bodies"
        self.format = f"{path}/FORMAT"
        self.readme = f"{path}/README"
        self.lock = f"{path}/lock"
        self.drain_lock = f"{path}/drain.lock"
        self.own_uploads = f"{path}/own-uploads"
        self.uploads_lock = f"{path}/uploads.lock"

    def log(self, log_id: str) -> str:
        """Returns the path of a log."""
        return f"{self.logs}/{log_id}{LOG}"

    def settled(self, log_id: str) -> str:
        """Returns the path of the numbers that are settled of a log."""
        return f"{self.logs}/{log_id}{SETTLED}"

    def body(self, body_id: str) -> str:
        """Returns the path of a body."""
        return f"{self.bodies}/{body_id}{BODY}"


def read_version(layout: JournalLayout) -> object:
    """Returns the version of a journal's layout; None: FORMAT is damaged. Raises OSError."""
    try:
        return json.loads(Path(layout.format).read_bytes())["version"]
    except (ValueError, KeyError, TypeError):
        return None
