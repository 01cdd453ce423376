"""Readiness: whether every request can be served, and which checks fail. The answer of GET /readyz.

A caller may exclude a check (`/readyz?exclude=origin`), as with Kubernetes' own `/readyz`: without the
origin, what is cached is still served, which is enough for some (docs/decisions/0025).

A failing tier makes nothing unready: every request is served, only slower, and a node that is taken out for its disk
would serve none. It is listed under `degraded`, and the status stays 200. So is a journal whose writes don't arrive at
the origin: they are safe, and a node that is taken out would carry out none.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from forebay.core.events import DEFAULT_ORIGIN, TierName, origin_suffix
from forebay.server.admin.schema.stats_schema import JournalStats, OriginStats, TierStats

ReadinessCheck: TypeAlias = Literal["origin", "credential", "workers", "shutdown"]

DegradedPart: TypeAlias = TierName | Literal["journal"]

ENDING: Final[dict[ReadinessCheck, str]] = {"shutdown": "Forebay was told to stop."}
"""The failing check of a Forebay that still serves, and is about to end."""


@dataclass(frozen=True, slots=True)
class Readiness:
    """GET /readyz. Programs read the names of the fields: one may be added, none is renamed or dropped."""

    ready: bool = field(init=False)
    reasons: tuple[str, ...] = field(init=False)
    """The sentences of `failing`."""
    failing: Mapping[ReadinessCheck, str] = field(default_factory=dict)
    """The checks that fail, each with a sentence for people."""
    degraded: Mapping[DegradedPart, str] = field(default_factory=dict)
    """The tiers that fail, and a journal that is late, each with a sentence. They make nothing unready."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "ready", not self.failing)
        object.__setattr__(self, "reasons", tuple(self.failing.values()))


def check_origins(workers: Sequence[Sequence[OriginStats]]) -> dict[ReadinessCheck, str]:
    """Whether each worker reaches each of its origins and is accepted there: the failing checks, each with the
    sentences about the origins that fail it."""
    failing: dict[ReadinessCheck, str] = {}
    for name in dict.fromkeys(origin.name for origins in workers for origin in origins):
        for check, sentence in check_origin(
            [origin for origins in workers for origin in origins if origin.name == name]
        ).items():
            failing[check] = f"{failing[check]} {sentence}" if check in failing else sentence
    return failing


def check_origin(workers: Sequence[OriginStats]) -> dict[ReadinessCheck, str]:
    """Whether each worker reaches one origin and is accepted there: the failing checks, each with its sentence."""
    return _check_reachable(workers) | _check_credential(workers)


def _check_credential(workers: Sequence[OriginStats]) -> dict[ReadinessCheck, str]:
    faults = [origin.credential_fault for origin in workers if origin.credential_fault is not None]
    if not faults:
        return {}
    by = f" ({len(faults)} of {len(workers)} workers)" if len(faults) < len(workers) else ""
    return {"credential": f"{faults[0][0].upper()}{faults[0][1:]}{origin_suffix(workers[0].name)}{by}."}


def _check_reachable(workers: Sequence[OriginStats]) -> dict[ReadinessCheck, str]:
    failing = [origin for origin in workers if origin.state != "reachable"]
    if not failing:
        return {}
    named = "" if failing[0].name == DEFAULT_ORIGIN else f" {failing[0].name}"
    outages = [origin for origin in failing if origin.state == "unreachable"]
    if not outages:
        return {"origin": f"The origin{named} has not responded yet."}
    who = f" by {len(failing)} of {len(workers)} workers" if len(failing) < len(workers) else ""
    causes = ", ".join(sorted({origin.cause for origin in outages if origin.cause is not None}))
    seconds = round(max(origin.unreachable_for or 0.0 for origin in outages))
    since = f", for {seconds} s" if seconds else ""
    opened = " The breaker is open." if any(origin.breaker == "open" for origin in outages) else ""
    return {"origin": f"The origin{named} can't be reached{who}{since}: {causes}.{opened}"}


def degraded_journal(journals: Iterable[JournalStats | None]) -> dict[DegradedPart, str]:
    """The problems of the journal, by the stats of each worker."""
    known = [each for each in journals if each is not None]
    if not known:
        return {}
    stuck, oldest = max(each.stuck for each in known), max(each.oldest for each in known)
    sentences = []
    if stuck:
        sentences.append(f"Acknowledged writes that are stuck: {stuck}; see `forebay writes ls --state stuck`.")
    conflicts = max(each.conflicts for each in known)
    if conflicts:
        sentences.append(
            f"Acknowledged writes whose objects somebody else has written: {conflicts}; "
            "see `forebay writes ls --state conflict`."
        )
    if oldest > known[0].max_age:
        sentences.append(
            f"The oldest acknowledged write is not at the origin after {oldest:.0f} s; see `forebay writes`."
        )
    if failure := max(each.failure for each in known):
        sentences.append(f"The journal fails, so writes go through, or get 503: {failure}.")
    if any(each.is_full for each in known):
        sentences.append("The journal is nearly full, so writes go through.")
    return {"journal": " ".join(sentences)} if sentences else {}


def degraded_tiers(workers: Sequence[Sequence[TierStats]]) -> dict[DegradedPart, str]:
    """The tiers that fail in any worker, each with its sentence."""
    failing = [tier for tiers in workers for tier in tiers if tier.state == "failing"]
    return {tier.name: f"The {tier.name} tier fails, reads go on without it: {tier.reason}." for tier in failing}
