"""Runs programs both ways, compares each answer, and makes the program of a failure short."""

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from differential.batch_reads import read_alone, read_together
from differential.compared_answers import code_of, differences, fields_of
from differential.documented_differences import DOCUMENTED, Found
from differential.program import Batch, Call, Pause, Program, Step
from differential.sides import Pair, Side
from harness.raw_connection import RawAnswer


@dataclass(slots=True)
class Counts:
    """What runs have seen."""

    requests: int = 0
    sources: Counter[str] = field(default_factory=Counter)
    statuses: Counter[int] = field(default_factory=Counter)
    documented: Counter[str] = field(default_factory=Counter)
    batched: int = 0
    """Entries of batches."""


@dataclass(frozen=True, slots=True)
class Failure:
    """The first undocumented difference of a program, or those of what the origins have at its end."""

    prefix: Sequence[Step]
    found: Sequence[Found]
    direct: RawAnswer
    through: RawAnswer

    def __str__(self) -> str:
        steps = "\n".join(f"  {step}" for step in self.prefix)
        fields = "\n".join(f"  {each.name}: {_short(each.direct)} | {_short(each.through)}" for each in self.found)
        return f"{len(self.prefix)} steps:\n{steps}\ndirect | through:\n{fields}\n{self.through.pairs}"


def _short(value: str | bytes | None) -> str:
    text = repr(value)
    return text if len(text) < 300 else f"{text[:280]}... ({len(text)})"


async def run(pair: Pair, program: Program, counts: Counts) -> Failure | None:
    """The program both ways, up to the first difference that no page documents; at its end both origins have the same
    objects and uploads."""
    direct, through = pair.sides()
    answers: tuple[RawAnswer, RawAnswer] | None = None
    for done, step in enumerate(program, 1):
        if isinstance(step, Pause):
            await pair.settled()
            pair.clock.seconds += step.seconds
            continue
        if isinstance(step, Batch):
            alone, together = await read_alone(direct, step), await read_together(through, step)
            counts.batched += len(step.entries)
            if parting := differences(alone[0], together[0], have_one_clock=pair.has_one_clock):
                call = Call(step.number, "POST", step.bucket)
                found = [Found(call, *each, alone[1], together[1], "", "") for each in parting]
                return Failure(program[:done], found, alone[1], together[1])
            continue
        for _ in range(1 + step.twice):
            answers = await direct.send(step), await through.send(step)
            direct.objects.learn(step, answers[0])
            counts.requests += 1
            counts.statuses[answers[1].status] += 1
            counts.sources[answers[1].headers.get("x-forebay-cache", "")] += 1
            found, parted = _undocumented(step, answers, (direct, through), counts, have_one_clock=pair.has_one_clock)
            if found:
                return Failure(program[:done], found, *answers)
            if parted:  # the origins differ from here on, as documented
                return None
    await pair.settled()
    left = differences(*pair.contents(direct.program), have_one_clock=pair.has_one_clock)
    if left and answers is not None:
        call = next(step for step in reversed(program) if isinstance(step, Call))
        return Failure(program, [Found(call, *each, *answers, "", "") for each in left], *answers)
    return None


def _undocumented(
    call: Call,
    answers: tuple[RawAnswer, RawAnswer],
    sides: tuple[Side, Side],
    counts: Counts,
    *,
    have_one_clock: bool,
) -> tuple[list[Found], bool]:
    """The differences that no page documents, and whether one that is documented lets the origins part."""
    fields = fields_of(answers[0], sides[0]), fields_of(answers[1], sides[1])
    left, parted = [], False
    for name, one_way, other_way in differences(*fields, have_one_clock=have_one_clock):
        found = Found(call, name, one_way, other_way, *answers, code_of(answers[0]), code_of(answers[1]))
        entry = next((each for each in DOCUMENTED if each.explains(found)), None)
        if entry is None:
            left.append(found)
            continue
        counts.documented[entry.name] += 1
        parted |= entry.has_effect and _has_effect(call, answers)
    return left, parted and not left


def _has_effect(call: Call, answers: tuple[RawAnswer, RawAnswer]) -> bool:
    """Whether one of two answers to a write is a success, and the other none."""
    return call.method not in {"GET", "HEAD"} and (answers[0].status < 300) != (answers[1].status < 300)


async def shorten(failure: Failure, fresh: Callable[[Program], Awaitable[Failure | None]]) -> Failure:
    """Leaves out step by step whatever the failure does not need. `fresh`: runs a program from nothing."""
    names = {each.name for each in failure.found}
    again = await fresh(failure.prefix)
    if again is None:
        return failure
    at = len(failure.prefix) - 2
    while at >= 0:
        shorter = await fresh([*failure.prefix[:at], *failure.prefix[at + 1 :]])
        if shorter is not None and names & {each.name for each in shorter.found}:
            failure = shorter
            at = min(at, len(failure.prefix) - 1)
        at -= 1
    return failure
