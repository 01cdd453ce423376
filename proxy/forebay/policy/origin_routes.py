"""Origin routes: which origin has a bucket.

    [[origins]]    the first with a pattern that matches the bucket's name
    [origin]       all other buckets; where there is none, they have no origin, and do not exist

A bucket has one origin, by its name alone and as long as the process lives: a change needs a restart. So bytes, heads,
flights and uploads in memory are of one origin, and need not be told apart there; on disk they are
(forebay.storage.ssd.segments.addressing).
"""

from collections.abc import Sequence
from typing import Final

from forebay.core.events import DEFAULT_ORIGIN
from forebay.policy.path_patterns import Pattern
from forebay.settings.model import Settings

_MEMOIZED_BUCKETS: Final = 4096


class OriginRoutes:
    """Made once, from the settings that Forebay was started with. Positions are those of `Settings.all_origins`."""

    def __init__(self, listed: Sequence[tuple[str, Sequence[str]]], default: str | None) -> None:
        """`listed`: the names of origins, each with the patterns of its buckets. `default`: the name of the origin of
        all other buckets; None: they have none."""
        names = [name for name, _ in listed]
        self.names: Final = tuple(names if default is None else [*names, default])
        self._patterns = [[Pattern(f"{bucket}/**") for bucket in buckets] for _, buckets in listed]
        self._default = len(listed) if default is not None else None
        self._known: dict[str, int | None] = {}

    def position_of(self, bucket: str) -> int | None:
        """The origin that has `bucket`; None: none has it."""
        if not self._patterns:
            return self._default
        if bucket in self._known:
            return self._known[bucket]
        if len(self._known) >= _MEMOIZED_BUCKETS:
            self._known.clear()
        self._known[bucket] = position = self._match(bucket)
        return position

    def name_of(self, bucket: str) -> str | None:
        """The name of the origin that has `bucket`; None: none has it."""
        position = self.position_of(bucket)
        return None if position is None else self.names[position]

    def _match(self, bucket: str) -> int | None:
        path = f"{bucket}/"
        matching = (
            position for position, patterns in enumerate(self._patterns) if any(each.matches(path) for each in patterns)
        )
        return next(matching, self._default)


def routes_of(settings: Settings) -> OriginRoutes:
    """The routes that the settings make."""
    listed = [(origin.name, origin.buckets) for origin in settings.origins]
    return OriginRoutes(listed, settings.origin.name if settings.origin is not None else None)


SINGLE_ORIGIN: Final = OriginRoutes((), DEFAULT_ORIGIN)
"""One origin that has all buckets."""
