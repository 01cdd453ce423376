"""Where a node's workers meet: a private directory in the system's temporary one, which holds their sockets."""

import os
import tempfile
from pathlib import Path
from typing import Final

from forebay.shell.node.port import longest_of
from forebay.shell.node.process import NotStarted
from forebay.stores.privatedirectory import PrivateDirectory

PREFIX: Final = "forebay-node-"
_LONGEST: Final = 107
"""Bytes that the path of a socket may have (unix(7): sun_path)."""


def meeting_place(workers: int, parent: Path | None = None) -> PrivateDirectory:
    """Raises NotStarted."""
    try:
        place = PrivateDirectory.make(parent or Path(tempfile.gettempdir()), PREFIX)
    except OSError as failure:
        raise NotStarted(f"the workers have no directory to meet in (TMPDIR): {failure}") from failure
    beyond = len(os.fsencode(longest_of(place.path, workers))) - _LONGEST
    if beyond > 0:
        place.remove()
        raise NotStarted(f"{place.path} is too long for sockets by {beyond} bytes: choose a shorter one (TMPDIR)")
    return place
