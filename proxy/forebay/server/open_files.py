"""How many files (sockets are files) this process may open: as many as the system lets it, and a warning if that is
less than the configuration asks for. Most systems begin a process with 1,024, and let it ask for more."""

import resource
from typing import Final

from forebay.settings.model import Settings

_MAX_FILES: Final = 1 << 20
_OWN_FILES: Final = 512
"""Beside connections: the SSD tier's segments that are open, logs, the admin port."""


def raise_file_limit(settings: Settings) -> str | None:
    """Raise the soft limit to the hard one. What to warn of, or None."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = _MAX_FILES if hard == resource.RLIM_INFINITY else min(hard, _MAX_FILES)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    needed = settings.limits.connections + 2 * settings.origin.concurrency + _OWN_FILES
    if hard == resource.RLIM_INFINITY or hard >= needed:
        return None
    return (
        f"the system allows {hard} open files, limits.connections and origin.concurrency may need {needed}: "
        "raise the one (ulimit -Hn, LimitNOFILE=) or lower the others"
    )
