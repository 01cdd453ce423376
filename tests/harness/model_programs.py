"""Random programs for a world of the reference model: listings and plans, what they show and fetch, and what disturbs
them."""

from collections.abc import Callable
from random import Random
from typing import Final

from harness.model_world import BLOCK, Step
from harness.reference_model import Query

KEYS: Final = ("always/a", "immutable/a", "minute/a", "minute/b", "minute/d/a", "warmed/a")
_PREFIXES: Final = ("", "", "minute/", "minute", "immutable/", "minute/d/", "w")
_SIZES: Final = (0, 1, 1000, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK + 17)


def random_step(random: Random) -> Step:
    """A step of whatever kind."""
    kinds = (_listing, _plan, _write, _read, _disturbance)
    [kind] = random.choices(kinds, (30, 20, 25, 15, 10))
    return kind(random)


def _listing(random: Random) -> Step:
    after = random.choice(("", "", *KEYS))
    query = Query(random.choice(_PREFIXES), random.choice(("", "/")), random.choice((1, 2, 3, 1000)), after)
    return "list", random.choice((1, 2)), query


def _plan(random: Random) -> Step:
    name, keys = random.choice(("train/1", "train/2")), random.sample(KEYS, random.randint(1, 4))
    steps: list[Step] = [
        ("plan", name, [*keys, *random.choices(KEYS, k=random.randrange(3))]),
        ("epoch", "other", keys),
        ("cancel", name),
        ("plans",),
    ]
    return random.choice(steps)


def _content(random: Random) -> tuple[int, int]:
    return random.choice(_SIZES), random.randrange(4)


def _write(random: Random) -> Step:
    key = random.choice(KEYS)
    steps: list[Step] = [
        ("put", key, _content(random)),
        ("foreign-put", key, _content(random)),
        ("copy", random.choice(KEYS), key),
        ("delete", key),
        ("foreign-delete", key),
        ("delete-many", random.sample(KEYS, 2)),
    ]
    return random.choices(steps, (4, 4, 1, 1, 1, 1))[0]


def _read(random: Random) -> Step:
    kinds: list[Callable[[str], Step]] = [
        lambda key: ("get", key),
        lambda key: ("head", key),
        lambda key: ("if-none-match", key),
        lambda key: ("range", key, random.randrange(4 * BLOCK), random.randrange(BLOCK)),
    ]
    return random.choices(kinds, (4, 1, 1, 2))[0](random.choice(KEYS))


def _disturbance(random: Random) -> Step:
    steps: list[Step] = [
        ("later", random.choice((1.0, 30.0, 61.0))),
        ("evict-memory",),
        ("corrupt", random.randrange(1 << 20)),
        ("restart",),
        ("restart-without-ssd",),
    ]
    return random.choices(steps, (8, 4, 1, 1, 1))[0]
