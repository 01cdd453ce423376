"""The preview of a sampler: the order that it is about to draw. PlannedSampler and `forebay run` send it as a plan.

A preview runs the sampler's own code on a shallow copy with cloned generators. So no number is drawn from a generator
of the program: the global one, the sampler's or the loader's. If other code draws from the sampler's generator in the
middle of an epoch, the plan differs from the epoch; training is not affected.

    SequentialSampler, DistributedSampler       a function of their attributes: no generator, or their own
    RandomSampler                               draws a seed from the global generator, or uses its generator
    WeightedRandomSampler, SubsetRandomSampler  draw from their generator, or from the global one
    BatchSampler                                the preview of the sampler within
    range, list, tuple                          themselves

PyTorch's samplers draw when their first index is requested, those of torchdata's StatefulDataLoader when an iterator is
made (`draws_early`). All other types are unknown, including subclasses: their code may count, log or read a file.
"""

import copy
from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple

import torch

_TORCH: Final = "torch.utils.data.sampler"
_TORCHDATA: Final = "torchdata.stateful_dataloader.sampler"


class SamplerPreview(NamedTuple):
    """An epoch's order."""

    units: list[Any]
    """The indices of a sampler; the batches of a batch sampler, which are lists of indices."""
    generator_state: torch.Tensor | None
    """The state of the sampler's own generator after the epoch; None: it has no generator."""

    @property
    def indices(self) -> list[int]:
        """Returns all indices in their order."""
        return flat_indices(self.units)


def flat_indices(units: Iterable[Any]) -> list[int]:
    """The indices of a sampler's output, or of a batch sampler's."""
    found: list[int] = []
    for unit in units:
        if isinstance(unit, list | tuple):
            found.extend(unit)
        else:
            found.append(unit)
    return found


def preview(sampler: Any, global_state: torch.Tensor | None = None) -> SamplerPreview | None:
    """The order that `sampler` would yield from here on; None: its type is unknown.

    `global_state`: the state of the global generator (`torch.get_rng_state`); by default its present one."""
    copied = _copy(sampler, torch.get_rng_state() if global_state is None else global_state)
    if copied is None:
        return None
    units = list(copied)
    own = generator_of(sampler)
    drawn = generator_of(copied)
    return SamplerPreview(units, drawn.get_state() if own is not None and drawn is not None else None)


def is_known(sampler: Any) -> bool:
    """Whether `preview` knows the type of a sampler, and of the one within its batches."""
    return _copy(sampler, torch.get_rng_state()) is not None


def draws_early(sampler: Any) -> bool:
    """Whether a sampler draws in iter(), not in the first next()."""
    name = type_name(sampler)
    inner = getattr(sampler, "sampler", None)
    return name == f"{_TORCHDATA}.RandomSampler" or (name == f"{_TORCHDATA}.BatchSampler" and draws_early(inner))


def generator_of(sampler: Any) -> torch.Generator | None:
    """The generator that a sampler, or the sampler within a batch sampler, was made with."""
    while type_name(sampler).endswith(".BatchSampler"):
        sampler = sampler.sampler
    generator = getattr(sampler, "generator", None)
    return generator if isinstance(generator, torch.Generator) else None


def distributed_sampler(sampler: Any) -> Any | None:
    """`sampler` itself, or the sampler within its batches, if it is a DistributedSampler; else None.

    The order of a DistributedSampler is known for every epoch beforehand."""
    while type_name(sampler).endswith(".BatchSampler"):
        sampler = sampler.sampler
    return sampler if type_name(sampler) == "torch.utils.data.distributed.DistributedSampler" else None


def at_epoch(sampler: Any, epoch: int) -> Any:
    """A copy of a sampler with a DistributedSampler in it, at another epoch."""
    copied = copy.copy(sampler)
    if type_name(sampler).endswith(".BatchSampler"):
        copied.sampler = at_epoch(sampler.sampler, epoch)
    else:
        copied.epoch = epoch
    return copied


def type_name(sampler: Any) -> str:
    """The module and name of a sampler's type. torchdata replaces PyTorch's classes with its own."""
    kind = type(sampler)
    return f"{kind.__module__}.{kind.__qualname__}"


def _copy(sampler: Any, global_state: torch.Tensor) -> Any | None:
    """A copy that draws from clones; None: the type is unknown."""
    make = _COPIES.get(type_name(sampler))
    return None if make is None else make(sampler, global_state)


def _unchanged(sampler: Any, _global_state: torch.Tensor) -> Any:
    return copy.copy(sampler)


def _with_clone(sampler: Any, global_state: torch.Tensor) -> Any:
    copied = copy.copy(sampler)
    copied.generator = _clone(sampler.generator.get_state() if sampler.generator is not None else global_state)
    return copied


def _with_seed(sampler: Any, global_state: torch.Tensor) -> Any:
    """RandomSampler without a generator draws a seed, and its order from a generator of that seed."""
    if sampler.generator is not None:
        return _with_clone(sampler, global_state)
    copied = copy.copy(sampler)
    seed = int(torch.empty((), dtype=torch.int64).random_(generator=_clone(global_state)).item())
    copied.generator = torch.Generator()
    copied.generator.manual_seed(seed)
    return copied


def _batches(sampler: Any, global_state: torch.Tensor) -> Any | None:
    inner = _copy(sampler.sampler, global_state)
    if inner is None:
        return None
    copied = copy.copy(sampler)
    copied.sampler = inner
    return copied


def _clone(state: torch.Tensor) -> torch.Generator:
    generator = torch.Generator()
    generator.set_state(state)
    return generator


_COPIES: Final[dict[str, Callable[[Any, torch.Tensor], Any | None]]] = {
    "builtins.list": _unchanged,
    "builtins.range": _unchanged,
    "builtins.tuple": _unchanged,
    f"{_TORCH}.SequentialSampler": _unchanged,
    f"{_TORCH}.RandomSampler": _with_seed,
    f"{_TORCH}.SubsetRandomSampler": _with_clone,
    f"{_TORCH}.WeightedRandomSampler": _with_clone,
    f"{_TORCH}.BatchSampler": _batches,
    "torch.utils.data.distributed.DistributedSampler": _unchanged,
    f"{_TORCHDATA}.RandomSampler": _with_clone,
    f"{_TORCHDATA}.BatchSampler": _batches,
}
