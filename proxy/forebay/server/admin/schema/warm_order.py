"""The orders of warm-up jobs as the admin port receives them, with the checks of each field.

    locations, globs    s3://bucket/prefix, s3://bucket/train/*.tar    what the origin lists
    keys, lists         keys of `bucket`; lists sent to POST /v1/lists before
    recordings, plans   s3://bucket/name    what was read, or will be, in that order
    rate, until, newer_than    bounds, as text: "200MiB", "80%", "7d" or "2026-11-01"

Nothing here depends on a clock: the worker that starts the job makes a time of `newer_than`.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Final, NamedTuple

from forebay.core.units import parse_duration, parse_size
from forebay.server.admin.schema.admin_schema import check_bucket, check_concurrency, check_flag, check_key, check_keys
from forebay.settings.path_checks import path_problem

MAX_LISTS: Final = 16
"""Lists of one job."""
_SCHEMES: Final = ("s3://", "oss://")
_LIST_ID: Final = re.compile(r"[0-9a-f]{1,64}")


class ObjectUrl(NamedTuple):
    """A bucket, and a key, a prefix or a glob of its keys. Nothing is decoded."""

    bucket: str
    path: str


def parse_object_url(text: str) -> ObjectUrl | None:
    """The location that `s3://bucket/path` or `oss://bucket/path` names; None: it names none. Raises ValueError for a
    bucket or path that can't be."""
    scheme = next((each for each in _SCHEMES if text.startswith(each)), None)
    if scheme is None:
        return None
    bucket, _, path = text.removeprefix(scheme).partition("/")
    return ObjectUrl(check_bucket(bucket, "bucket"), check_key(path, "key"))


def _check_urls(value: object, name: str, check: Callable[[ObjectUrl], None]) -> tuple[str, ...]:
    if not isinstance(value, list) or not value:
        raise ValueError(f"{name!r} must be a list of at least one location.")
    for text in value:
        url = parse_object_url(text) if isinstance(text, str) else None
        if url is None:
            raise ValueError(f"{text!r} in {name!r} is no location; one looks like s3://bucket/prefix.")
        check(url)
    return tuple(value)


def check_locations(value: object, name: str) -> tuple[str, ...]:
    """Locations, in which nothing is a wildcard."""
    return _check_urls(value, name, lambda url: None)


def check_globs(value: object, name: str) -> tuple[str, ...]:
    """Locations whose paths are globs."""

    def check(url: ObjectUrl) -> None:
        if (problem := path_problem(f"{url.bucket}/{url.path}")) is not None:
            raise ValueError(f"The glob s3://{url.bucket}/{url.path} can't match: {problem}.")

    return _check_urls(value, name, check)


def check_lists(value: object, name: str) -> tuple[str, ...]:
    """Ids of lists."""
    if not isinstance(value, list) or not 0 < len(value) <= MAX_LISTS:
        raise ValueError(f"{name!r} must be a list of 1 to {MAX_LISTS} ids of lists.")
    for each in value:
        if not isinstance(each, str) or not _LIST_ID.fullmatch(each):
            raise ValueError(f"{each!r} in {name!r} is no id of a list.")
    return tuple(value)


def check_recordings(value: object, name: str) -> tuple[str, ...]:
    """Recordings by their buckets and names."""

    def check(url: ObjectUrl) -> None:
        if not url.path:
            raise ValueError(f"s3://{url.bucket} names no recording; one looks like s3://bucket/name.")

    return _check_urls(value, name, check)


def check_plans(value: object, name: str) -> tuple[str, ...]:
    """Plans by their ids, or by their buckets and names."""
    if not isinstance(value, list) or not value:
        raise ValueError(f"{name!r} must be a list of at least one plan.")
    for each in value:
        url = parse_object_url(each) if isinstance(each, str) else None
        if (
            not isinstance(each, str)
            or (url is None and not _LIST_ID.fullmatch(each))
            or (url is not None and not url.path)
        ):
            raise ValueError(f"{each!r} in {name!r} is no plan: name its id, or s3://bucket/name.")
    return tuple(value)


def check_rate(value: object, name: str) -> int | None:
    """Bytes a second: a size as text, also with `/s`."""
    if value is None:
        return None
    try:
        if isinstance(value, str) and (size := parse_size(value.removesuffix("/s"))) >= 1:
            return size
    except ValueError:
        pass
    raise ValueError(f'{name!r} must be a size a second of at least a byte, such as "200MiB".')


def check_until(value: object, name: str) -> str | None:
    """A share of the cache, or a size, as text."""
    if value is None:
        return None
    try:
        if isinstance(value, str) and parse_until(value) is not None:
            return value
    except ValueError:
        pass
    raise ValueError(f'{name!r} must be a share of the cache from 1% to 100%, such as "80%", or a size, such as "1TB".')


def parse_until(text: str) -> tuple[float | None, int | None]:
    """The share of the cache, or else the bytes. Raises ValueError."""
    if not text.endswith("%"):
        size = parse_size(text)
        if size < 1:
            raise ValueError(text)
        return None, size
    share = float(text.removesuffix("%")) / 100
    if not 0.01 <= share <= 1:
        raise ValueError(text)
    return share, None


def check_newer_than(value: object, name: str) -> str | None:
    """A duration before now, or a date, as text."""
    if value is None:
        return None
    try:
        if isinstance(value, str):
            parse_newer_than(value, 0.0)
            return value
    except (ValueError, OverflowError):
        pass
    raise ValueError(f'{name!r} must be a duration, such as "7d", or a date, such as "2026-11-01" (UTC).')


def parse_newer_than(text: str, now: float) -> float:
    """Seconds since the epoch. A date without a zone is UTC. Raises ValueError, OverflowError."""
    if text[-1:].isalpha() and not text.endswith("Z"):
        return now - parse_duration(text)
    moment = datetime.fromisoformat(text)
    return (moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)).timestamp()


@dataclass(frozen=True, slots=True)
class WarmOrder:
    """POST /v1/jobs: bring objects into the cache. Named by `bucket` with `prefix` or `keys`, and by any number of the
    others."""

    bucket: Annotated[str | None, check_bucket] = None
    """The bucket of `prefix` and `keys`; alone: all of it."""
    prefix: Annotated[str | None, check_key] = None
    """Empty: the whole bucket. None where there are keys."""
    keys: Annotated[tuple[str, ...], check_keys] = ()
    locations: Annotated[tuple[str, ...], check_locations] = ()
    globs: Annotated[tuple[str, ...], check_globs] = ()
    lists: Annotated[tuple[str, ...], check_lists] = ()
    recordings: Annotated[tuple[str, ...], check_recordings] = ()
    plans: Annotated[tuple[str, ...], check_plans] = ()
    concurrency: Annotated[int | None, check_concurrency] = None
    """Objects at once; None: the server's default."""
    check: Annotated[bool, check_flag] = False
    """Fetch nothing, and count what is cached."""
    if_fits: Annotated[bool, check_flag] = False
    """Fetch nothing unless everything fits into the cache."""
    rate: Annotated[int | None, check_rate] = None
    """Bytes a second; None: no bound."""
    until: Annotated[str | None, check_until] = None
    """The share of the cache, or the bytes, at which the job ends; None: with its last object."""
    newer_than: Annotated[str | None, check_newer_than] = None
    """Leave out what was modified before; None: nothing."""
    pin: Annotated[bool, check_flag] = False
    """Pin the prefixes first; if that is refused, the job is not started."""

    def __post_init__(self) -> None:
        has_list = bool(self.keys or self.lists or self.recordings or self.plans)
        is_named = bool(self.locations or self.globs or self.lists or self.recordings or self.plans)
        if has_list and self.if_fits:
            raise ValueError("'if_fits' needs a prefix: the sizes of a list of keys are not known before.")
        if self.keys and self.prefix is not None:
            raise ValueError("A job has either a prefix or keys, not both.")
        if has_list and self.newer_than is not None:
            raise ValueError("'newer_than' needs a prefix or a glob: a list of keys has no dates.")
        if self.bucket is None:
            if self.prefix is not None or self.keys:
                raise ValueError("'bucket' is needed: the name of a bucket.")
            if not is_named:
                raise ValueError(
                    "Nothing to warm: name a 'bucket', 'locations', 'globs', 'lists', 'recordings' or 'plans'."
                )
        elif not self.keys and self.prefix is None and not is_named:
            object.__setattr__(self, "prefix", "")
        if self.check and (self.rate is not None or self.until is not None or self.if_fits):
            raise ValueError("A check fetches nothing: it has no 'rate', 'until' or 'if_fits'.")
        if self.pin and (has_list or self.globs or self.check):
            raise ValueError("'pin' is for prefixes: not for keys, lists, globs or a check.")

    def prefixes(self) -> Iterator[ObjectUrl]:
        """The prefixes that it names."""
        if self.bucket is not None and self.prefix is not None:
            yield ObjectUrl(self.bucket, self.prefix)
        yield from (url for text in self.locations if (url := parse_object_url(text)) is not None)
