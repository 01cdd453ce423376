"""The buckets, keys, principals and rules of the soak."""

from pathlib import Path
from typing import Final

from harness.oss_origin import OssOrigin
from harness.reference_sigv4 import Secret
from soak.data_bucket import data_settings
from soak.foreign_bucket import RULES as FOREIGN_RULES
from soak.switches import Switches

BUCKET: Final = "soak"
VERSIONED: Final = "soak-versions"
CLIENTS: Final = 24
_KINDS: Final = ("warmed", "plain", "asked", "warmed")
"""Of the keys of each client, by what the rules say of them."""

ALICE, ALICE_THERE = Secret("alice", "alice-secret"), Secret("alicethere", "alices-own")
"""Asks the origin in her own name, which lets her."""
BOB, BOB_THERE = Secret("bob", "bob-secret"), Secret("bobthere", "bobs-own")
"""Does too, and the origin refuses him everything."""

RULES: Final = """
[[rules]]
path = "*/warmed*"
warm_on_write = true

[[rules]]
path = "*/asked*"
freshness = "always"
block = "64KiB"

[[rules]]
path = "**"
freshness = "immutable"
block = "64KiB"
""" + "".join(
    f'[[auth.keys]]\nid = "{here.access}"\nsecret = "{here.secret}"\norigin_access_key = "{there.access}"\n'
    f'origin_secret_key = "{there.secret}"\ngrants = [{{ path = "**", allow = ["read"] }}]\n'
    for here, there in ((ALICE, ALICE_THERE), (BOB, BOB_THERE))
)


def settings_of(origin: object, directory: Path, server: str, switches: Switches) -> dict[str, str]:
    """What is the same for one worker and several (harness.rig.configuration_of). `server`: more of that table."""
    return {
        "dialect": "oss" if isinstance(origin, OssOrigin) else "swift",
        "server": f'socket = "{socket_of(directory)}"\n{server}',
        "rest": data_settings(directory, switches.journal) + FOREIGN_RULES + RULES,
        "ssd": switches.ssd,
        "memory": switches.memory,
        "buffers": switches.buffers,
    }


def socket_of(directory: Path) -> str:
    """The Unix socket for the client library."""
    return str(directory / "forebay.sock")


def keys_of(client: int) -> list[str]:
    """That this client writes to, and nobody else."""
    return [f"{kind}-{client}-{turn}" for turn, kind in enumerate(_KINDS)]


def all_keys() -> list[str]:
    """All keys that are written to."""
    return [key for client in range(CLIENTS) for key in keys_of(client)]
