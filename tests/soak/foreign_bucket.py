"""The bucket of the soak that others write to as well, directly at the origin, and how long a write of theirs may stay
unseen.

    always/   validated with each read
    brief/    fresh for two seconds
    never/    immutable: a foreign write may stay unseen for ever
    listed/   as brief/, and listed from a snapshot of five seconds
    saved/    as brief/, and acknowledged from the journal: its writes meet foreign ones (conflicts)
"""

from typing import Final

FOREIGN: Final = "foreign"
LIFETIMES: Final = {"always/": 0.0, "brief/": 2.0, "never/": float("inf"), "listed/": 2.0, "saved/": 2.0}
"""Seconds, by prefix."""
LISTING_AGE: Final = 5.0
"""Seconds, of listed/."""
SAVED: Final = "saved/"
KEYS_OF_EACH: Final = 6
RULES: Final = """
[[rules]]
path = "foreign/always/**"
freshness = "always"
block = "64KiB"

[[rules]]
path = "foreign/brief/**"
freshness = "2s"
block = "64KiB"

[[rules]]
path = "foreign/never/**"
freshness = "immutable"
warm_on_write = true

[[rules]]
path = "foreign/listed/**"
freshness = "2s"
listing = "5s"

[[rules]]
path = "foreign/saved/**"
freshness = "2s"
write = "back"
"""


def foreign_keys() -> list[str]:
    """All keys of the bucket."""
    return [f"{prefix}{number}" for prefix in LIFETIMES for number in range(KEYS_OF_EACH)]


def lifetime_of(key: str) -> float:
    """Seconds for which a foreign write of the key may stay unseen."""
    return LIFETIMES[key[: key.index("/") + 1]]
