"""When a worker is killed: the system calls of its journal, its steps at the origin, or any moment."""

from dataclasses import dataclass
from random import Random
from typing import Final, TypeAlias

JOURNAL_POINTS: Final = (
    *(f"{when} create {kind}" for when in ("before", "after") for kind in ("log", "settled", "body")),
    *(f"{when} open {kind}" for when in ("before", "after") for kind in ("lock", "log", "settled", "body")),
    *(f"{when} lock {kind}" for when in ("before", "after") for kind in ("log", "body")),
    *(f"{when} read {kind}" for when in ("before", "after") for kind in ("log", "settled", "body")),
    *(f"{when} write {kind}" for when in ("before", "within", "after") for kind in ("lock", "log", "settled", "body")),
    *(
        f"{when} sync {kind}"
        for when in ("before", "after")
        for kind in ("lock", "log", "settled", "body", "logs", "bodies")
    ),
    *(f"{when} truncate body" for when in ("before", "after")),
    *(f"{when} list {kind}" for when in ("before", "after") for kind in ("logs", "bodies")),
    *(f"{when} unlink {kind}" for when in ("before", "after") for kind in ("log", "settled", "body")),
    *(f"{when} close {kind}" for when in ("before", "after") for kind in ("log", "settled", "body")),
)
"""Calls of the journal, each before, after or within which a worker is killed."""
ORIGIN_POINTS: Final = tuple(
    f"{operation} {how}"
    for how in ("lost", "late", "done")
    for operation in ("PutObject", "DeleteObject", "CreateMultipartUpload", "UploadPart", "CompleteMultipartUpload")
)
"""Steps at the origin during which a worker is killed: the request is lost, carried out afterwards, or carried out
before."""
_CALLS_OF_A_START: Final = 60
_CALLS_OF_A_ROUND: Final = 150


@dataclass(frozen=True)
class JournalPoint:
    """At a call of the journal, for the n-th time from 0; of any name if it is None. `is_serving`: counted from when
    the worker serves."""

    name: str | None
    nth: int
    is_serving: bool = False


@dataclass(frozen=True)
class OriginPoint:
    """At a request to the origin, for the n-th time from 0."""

    name: str
    nth: int = 0


@dataclass(frozen=True)
class Moment:
    """At any moment: so many seconds after so many further writes are acknowledged, or after the worker was started."""

    writes: int
    seconds: float


KillPoint: TypeAlias = JournalPoint | OriginPoint | Moment


def random_point(random: Random) -> KillPoint:
    """Returns a random call or moment, one of five while the worker starts."""
    is_serving = random.random() < 0.8
    if random.random() < 0.5:
        return JournalPoint(None, random.randrange(_CALLS_OF_A_ROUND if is_serving else _CALLS_OF_A_START), is_serving)
    return random_moment(random) if is_serving else Moment(0, random.uniform(0.0, 0.03))


def random_moment(random: Random) -> Moment:
    """Returns a random moment while the workers serve."""
    return Moment(random.randrange(1, 8), random.uniform(0.0, 0.004))
