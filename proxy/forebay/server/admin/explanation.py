"""Explanations of one object: the decision of the settings, with its rules and grants, the cached blocks, and the
outcome of a read now. GET /v1/explain.

Pure: the caller brings the settings, the cached state, and the time.
"""

from collections.abc import Iterator
from dataclasses import fields
from typing import Final

from forebay.core.events import origin_suffix
from forebay.core.names import ObjectName, is_reserved
from forebay.core.units import format_size
from forebay.policy.freshness import AlwaysRevalidate, Immutable, MaxAge, Stale, evaluate_freshness
from forebay.policy.origin_routes import routes_of
from forebay.policy.path_patterns import Pattern
from forebay.policy.rules import Decision, Rules
from forebay.server.admin.schema.admin_schema import CacheEntry, DecidedField, Explanation, GrantedAccess
from forebay.server.admin.schema.object_state import ObjectState
from forebay.settings.freshness_values import ListingOff, format_freshness
from forebay.settings.model import KeySettings, Settings

_DECIDED: Final = tuple(field.name for field in fields(Decision) if field.name not in {"rule", "track", "pool"})
_STALE: Final = {
    "clock": "its validation lies in the future: the clock was set back",
    "untrusted": "a write was in doubt after its validation",
    "always": "the rule demands a revalidation by each read, or a write is in doubt",
    "expired": "its validation is older than the rule allows",
}
_NO_ORIGIN: Final = "refused: no origin has this bucket (NoSuchBucket)"
_PENDING: Final = {
    "put": "served as it was written: the write is in the journal, and not at the origin yet",
    "delete": "refused: its deletion is in the journal, and not at the origin yet (NoSuchKey)",
    "own": "waits until the pending write is at the origin, which then decides",
}


def explain(
    settings: Settings,
    name: ObjectName,
    access_key: str,
    cached: CacheEntry | None,
    shard: CacheEntry | None = None,
    *,
    state: ObjectState,
    now: float,
) -> Explanation:
    """The explanation for one object. `access_key`: the key that reads; empty: any. `shard`: of the member that
    `state` has. `now`: seconds since the epoch."""
    in_doubt, pending, member = state
    decision = Rules(settings.rules).decide(name)
    position = routes_of(settings).position_of(name.bucket)
    origin = settings.all_origins[position] if position is not None else None
    keys = [key for key in settings.auth.keys if access_key in {"", key.id}]
    access = tuple(_access(key, name) for key in keys)
    freshness = AlwaysRevalidate() if in_doubt else decision.freshness
    fresh: bool | None = None
    stale_because = None
    if cached is not None:
        result = evaluate_freshness(cached.validated_at, freshness, now, 0.0, False)
        fresh = not isinstance(result, Stale)
        stale_because = _STALE.get(result.reason) if isinstance(result, Stale) else None
    refused = _refusal(settings, access_key, access) if origin is not None else _NO_ORIGIN
    identified = origin is not None and access_key != "" and any(key.has_credential_at(origin.name) for key in keys)
    return Explanation(
        bucket=name.bucket,
        key=name.key,
        origin=f"{origin.endpoint}{origin_suffix(origin.name)}" if origin is not None else None,
        decided=tuple(_decided(settings, name, decision)),
        access=access,
        cached=cached,
        in_doubt=in_doubt,
        fresh=fresh,
        stale_because=stale_because,
        read=refused or _read(name, decision, cached, fresh, identified, state),
        pending=pending,
        member=member,
        shard=shard,
    )


def _decided(settings: Settings, name: ObjectName, decision: Decision) -> Iterator[DecidedField]:
    matching = [
        (position, rule) for position, rule in enumerate(settings.rules) if Pattern(rule.path).matches(name.path)
    ]
    for field in _DECIDED:
        position, path = next(
            ((position, rule.path) for position, rule in matching if getattr(rule, field) is not None), (None, None)
        )
        yield DecidedField(field, _text(getattr(decision, field)), position, path)


def _text(value: object) -> str:
    match value:
        case bool():
            return str(value).lower()
        case int():
            return format_size(value)
        case None | ():
            return "none"
        case tuple():
            return ", ".join(pattern.text for pattern in value)
        case Immutable() | MaxAge() | AlwaysRevalidate() | ListingOff():
            return format_freshness(value)
        case _:
            return str(value)


def _access(key: KeySettings, name: ObjectName) -> GrantedAccess:
    matching = [(number, grant) for number, grant in enumerate(key.grants) if Pattern(grant.path).matches(name.path)]
    allowed = {word for _, grant in matching for word in grant.allow}
    return GrantedAccess(key.id, tuple(sorted(allowed)), tuple(number for number, _ in matching))


def _refusal(settings: Settings, access_key: str, access: tuple[GrantedAccess, ...]) -> str | None:
    """Why a read with the key is refused; None: it is not."""
    if settings.auth.mode == "open" or not access_key:
        return None
    if not access:
        return f"refused: {access_key} is no key of auth.keys (InvalidAccessKeyId)"
    if "read" not in access[0].allow:
        return f"refused: no grant of {access_key} allows read (AccessDenied)"
    return None


def _read(
    name: ObjectName,
    decision: Decision,
    cached: CacheEntry | None,
    fresh: bool | None,
    identified: bool,
    state: ObjectState,
) -> str:
    """The outcome of a read that is not refused."""
    if is_reserved(name.key):
        return "answered by Forebay itself: nothing under .forebay/ of a bucket is an object of the origin"
    if not decision.accelerate:
        return "forwarded to the origin: the rules do not accelerate it"
    if state.pending is not None:
        return _PENDING["own" if identified else state.pending]
    if state.member is not None:
        return "the member of a pack, from its shard"
    if cached is None and decision.packed is not None:
        return "the member of a pack, if one has this key, from its shard; else fetched from the origin, and cached"
    if cached is None:
        return "fetched from the origin, and cached: nothing is cached of it"
    missing = cached.size - cached.cached
    blocks = f"{missing} of {cached.size} bytes are fetched" if missing else "all bytes come from the cache"
    if not fresh:
        return f"revalidated at the origin; if it is unchanged, {blocks}"
    if identified:
        return f"served if the origin has allowed it lately (auth.authorization_ttl), else revalidated; {blocks}"
    return f"served from the cached head without a request; {blocks}" if missing else "a hit: no request to the origin"
