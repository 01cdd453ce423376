"""Configurations of a world of listings: how old a page may be under each, and what its reader may list."""

from typing import Final, NamedTuple


class Listing(NamedTuple):
    """A rule's `listing` of a part of the bucket, and how old a page of it may be."""

    text: str
    window: float | None
    """Seconds; None: the origin answers."""


LISTINGS: Final = (Listing("10m", 600.0), Listing("1m", 60.0), Listing("immutable", float("inf")), Listing("off", None))
GRANTS: Final = ("*/open/**", "*/d/**", "**")
"""Of the reader."""


class Rules(NamedTuple):
    """A configuration."""

    listing: Listing
    below_b: Listing
    granted: str
    freshness: str = "60s"

    def window(self, prefix: str) -> float | None:
        """How old a page may be; None: the origin answers."""
        covered = [self.below_b] if prefix.startswith("b/") else [self.listing]
        if "b/".startswith(prefix):
            covered.append(self.below_b)
        windows = [each.window for each in covered]
        return None if None in windows else min(each for each in windows if each is not None)

    @property
    def text(self) -> str:
        """TOML."""
        return (
            f'[[rules]]\npath = "*/b/**"\nlisting = "{self.below_b.text}"\n'
            f'[[rules]]\npath = "**"\nlisting = "{self.listing.text}"\nfreshness = "{self.freshness}"\n'
        )
