"""The hook of `forebay run` in DataLoader: it sends the order of each epoch as a plan.

The property of DataLoader by which an iterator finds its sampler returns a PlannedSampler around the sampler. Indices,
draws and the time of each draw are unchanged (forebay_client.torch.sampler_preview).

A loader is left alone if its sampler is not of PyTorch's own types, as a PlannedSampler is not, or if it keeps a state
(torchdata's StatefulDataLoader, whose states must be readable without the hook). If its data set does not say which
objects its samples are, nothing is sent.
"""

import logging
from typing import Any, Final
from weakref import WeakKeyDictionary

LOGGER: Final = logging.getLogger("forebay_client")
_OBSERVED: "Final[WeakKeyDictionary[Any, tuple[Any, Any]]]" = WeakKeyDictionary()
"""The sampler of each loader, and the PlannedSampler around it."""


def observe_loaders(module: Any) -> None:
    """Observes every DataLoader of `module`, torch.utils.data.dataloader."""
    kind = module.DataLoader
    find = kind._index_sampler.fget  # noqa: SLF001 # where the iterators of every version find it

    def _index_sampler(loader: Any) -> Any:
        sampler = find(loader)
        try:
            return _observed(loader, sampler)
        except Exception as error:  # the training must not notice
            LOGGER.warning("A loader is not observed: %s: %s", type(error).__name__, error)
            return sampler

    kind._index_sampler = property(_index_sampler)  # noqa: SLF001 # as above


def _observed(loader: Any, sampler: Any) -> Any:
    known = _OBSERVED.get(loader)
    if known is not None and known[0] is sampler:
        return known[1]
    # Imported late: this module is loaded while torch is.
    from torch.utils.data import IterableDataset  # noqa: PLC0415 # see above

    from forebay_client.torch.planned_sampler import PlannedSampler  # noqa: PLC0415 # see above
    from forebay_client.torch.sampler_preview import is_known  # noqa: PLC0415 # see above

    if hasattr(loader, "state_dict") or isinstance(loader.dataset, IterableDataset) or not is_known(sampler):
        return sampler
    planned = PlannedSampler(sampler, loader.dataset, quiet=True)
    _OBSERVED[loader] = sampler, planned
    return planned
