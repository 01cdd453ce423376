"""Warnings: settings that are valid and probably a mistake."""

from collections.abc import Iterator
from dataclasses import fields
from os.path import normpath
from pathlib import PurePath
from typing import Final

from forebay.core.units import format_size
from forebay.settings.model import ProviderChain, Settings
from forebay.settings.path_checks import path_warning
from forebay.settings.rule_settings import Rule

_DEFAULT_BLOCK: Final = 1 << 20  # the default of forebay.policy.rules
_BLOCKS_OF_SSD: Final = 5  # storage.ssd.segments.space_accounting admits a quarter of the size, its header included

_DECIDED: Final = tuple(field.name for field in fields(Rule) if field.name != "path")

_OF_CACHED: Final = (
    "freshness",
    "block",
    "warm_on_write",
    "warm_on_head",
    "read_ahead",
    "plan_horizon",
    "record",
    "follow",
    "eviction",
    "quota",
)
"""Fields of a rule that mean nothing for objects that are not cached."""


def settings_warnings(settings: Settings) -> Iterator[str]:
    """Each likely mistake in these settings, as a sentence that names the setting."""
    for position, key in enumerate(settings.auth.keys):
        if not key.grants:
            yield f"auth.keys[{position}] ({key.id}) has no grants: it may do nothing"
        for number, grant in enumerate(key.grants):
            if unlikely := path_warning(grant.path):
                yield f"auth.keys[{position}].grants[{number}] ({grant.path}): {unlikely}"
    anonymous = settings.auth.anonymous
    if anonymous is not None and not anonymous.grants:
        yield "auth.anonymous has no grants: requests that are not signed are denied"
    for number, grant in enumerate(anonymous.grants if anonymous is not None else ()):
        if unlikely := path_warning(grant.path):
            yield f"auth.anonymous.grants[{number}] ({grant.path}): {unlikely}"
    for origin in settings.all_origins:
        if origin.dialect != "oss" or not isinstance(origin.credentials, ProviderChain):
            continue
        where = "origin" if origin is settings.origin else f"origins ({origin.name})"
        yield (
            f"{where} has no access_key, profile or anonymous: Forebay uses the AWS provider chain, which finds an "
            "Alibaba credential only where it is stored as an AWS one"
        )
    yield from _origins(settings)
    yield from _rules(settings.rules)
    yield from _without_effect(settings)
    workers, buffers, run = settings.server.workers, settings.memory.buffers, settings.fetch.max_run
    if workers > 1 and buffers // workers < run:
        yield (
            f"memory.buffers ({format_size(buffers)}) gives each of {workers} workers less than one run "
            f"(origin.max_run, {format_size(run)}): each fetches one run at a time"
        )
    largest = max([_DEFAULT_BLOCK, *(rule.block for rule in settings.rules if rule.block is not None)])
    if 0 < settings.memory.size < largest:
        yield (
            f"memory.size ({format_size(settings.memory.size)}) is less than one block ({format_size(largest)}): "
            "large objects are never kept in memory"
        )
    if settings.ssd is not None and settings.ssd.size < _BLOCKS_OF_SSD * largest:
        yield (
            f"ssd.size ({format_size(settings.ssd.size)}) is less than {_BLOCKS_OF_SSD} blocks "
            f"({format_size(largest)} each): large objects are never kept on the SSD"
        )


def _origins(settings: Settings) -> Iterator[str]:
    seen: set[str] = set()
    for position, origin in enumerate(settings.origins):
        where = f"origins[{position}] ({origin.name})"
        if not set(origin.buckets) - seen or "*" in seen:
            yield f"{where} has no buckets: those above it have all of its patterns, and the first wins"
        seen.update(origin.buckets)
    if settings.origin is not None and "*" in seen:
        yield "origin has no buckets: an entry of origins has the pattern *"


def _rules(rules: tuple[Rule, ...]) -> Iterator[str]:
    decided: dict[str, set[str]] = {}
    """Path to the names that earlier rules with this path have set."""
    for position, rule in enumerate(rules):
        sets = {name for name in _DECIDED if getattr(rule, name) is not None}
        before = set().union(*(names for path, names in decided.items() if _covers(path, rule.path)))
        where = f"rules[{position}] ({rule.path})"
        if unlikely := path_warning(rule.path):
            yield f"{where}: {unlikely}"
        if not sets:
            yield f"{where} sets nothing"
        elif sets <= before:
            yield f"{where} decides nothing: rules above it set the same for all of its objects, and the first wins"
        decided.setdefault(rule.path, set()).update(sets)


def _covers(path: str, other: str) -> bool:
    """Whether `path` surely matches all that `other` matches: they are equal, or `path` is a stem and `**`."""
    stem = path.removesuffix("**")
    return path == other or (stem != path and not set(stem) & set("*?") and other.startswith(stem))


def _uncached(rules: tuple[Rule, ...]) -> Iterator[str]:
    """Rules that say how objects are cached, and that they are not."""
    is_accelerated = False
    for position, rule in enumerate(rules):
        is_accelerated |= rule.accelerate is True  # for some of its objects a later rule's settings may count
        unused = [name for name in _OF_CACHED if getattr(rule, name) not in {None, False}]
        if rule.accelerate is False and unused and not is_accelerated:
            yield (
                f"rules[{position}] ({rule.path}) has accelerate = false: nothing of it is cached, and its "
                f"{', '.join(unused)} {'has' if len(unused) == 1 else 'have'} no effect"
            )


def _without_effect(settings: Settings) -> Iterator[str]:
    """Settings whose meaning depends on others, which say otherwise."""
    yield from _uncached(settings.rules)
    is_back = any(rule.write == "back" for rule in settings.rules)
    for position, rule in enumerate(settings.rules):
        where = f"rules[{position}] ({rule.path})"
        setting = "a fence" if rule.fence else "a conflict" if rule.conflict is not None else None
        if setting is not None and (not is_back or rule.write in {"through", "around"}):
            yield f'{where} has {setting}, which is for write = "back"'
        if rule.quota is None:
            continue
        unlike = f"{where}: its quota ({format_size(rule.quota)}) bounds nothing"
        if settings.ssd is None:
            yield f"{unlike}: there is no SSD tier"
        elif rule.quota > settings.ssd.size:
            yield f"{unlike}: ssd.size is {format_size(settings.ssd.size)}"
    state = settings.server.state_dir
    if settings.ssd is not None and state is not None and _is_within(state, settings.ssd.path):
        yield (
            f"server.state_dir ({state}) lies within ssd.path: a copy of the cache has the run record with it, and is "
            "trusted however old it is"
        )


def _is_within(path: str, directory: str) -> bool:
    return PurePath(normpath(path)).is_relative_to(normpath(directory))
