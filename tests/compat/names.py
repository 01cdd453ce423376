"""Names that lead to this machine, for one process and what it starts: the machine itself learns nothing of them.

Some clients speak to BUCKET.ENDPOINT and to nothing else. On the way to Alibaba that is a name of its name servers;
here it stands in a copy of /etc/hosts that the process finds in the place of the real one, in a mount namespace of its
own. Which takes root, and a container that allows it.
"""

import os
import shutil
import subprocess
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Final

DOMAIN: Final = "forebay.test"
"""Of a top-level domain that belongs to nobody (RFC 6761)."""
# What a client leaves in /run (osstorchconnector makes a folder there) goes with the namespace.
_ENTER: Final = 'mount --bind "$1" /etc/hosts && mount -t tmpfs none /run && shift && exec "$@"'


@cache
def missing() -> str | None:
    """Why there can be no names, or None when there can."""
    if os.geteuid() != 0:
        return "giving a client names of its own takes root"
    unshare = shutil.which("unshare")
    if unshare is None or subprocess.run([unshare, "--mount", "true"], capture_output=True, check=False).returncode:  # noqa: S603 # our own words
        return "mount namespaces are not allowed here"
    return None


def with_names(command: list[str], names: Iterable[str], directory: Path) -> list[str]:
    """`command`, where `names` are 127.0.0.1. `directory` keeps the file."""
    hosts = directory / "hosts"
    real = Path("/etc/hosts").read_text(encoding="utf-8")
    hosts.write_text(f"{real}\n127.0.0.1 {' '.join(names)}\n", encoding="utf-8")
    return ["unshare", "--mount", "sh", "-c", _ENTER, "sh", str(hosts), *command]
