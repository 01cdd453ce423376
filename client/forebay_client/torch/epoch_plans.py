"""The plans of a sampler's epochs. Each is sent before the first read of its epoch, and never stops the training.

Each epoch is a plan `<series>/epoch-<number>` in each bucket that it reads; those of a series follow each other at the
server. An epoch of more than four million entries is several plans of its series. Orders are sent as numbers in the
data set's list of keys, which is sent once.

The series is the same each time that the same program is started (host, folder, command line, devices, rank, data set,
and which of its samplers), so that a restart replaces the plan of the run before.

Nothing is raised: a plan that could not be sent is counted, and the first is logged.
"""

import logging
import os
import socket
import sys
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final, Protocol

from forebay_client.torch.dataset_keys import DatasetKeys, dataset_keys, lacks_bucket

MAX_ENTRIES: Final = 4_000_000
"""Entries of one plan. The server refuses more."""
LOGGER: Final = logging.getLogger("forebay_client")
_SAMPLERS: Final[Counter[str]] = Counter()
"""The number of series that this process has begun for each data set."""


class _PlanHandle(Protocol):
    """A plan that was sent."""

    @property
    def is_accepted(self) -> bool:
        """Whether the server knows plans."""

    def cancel(self) -> Any:
        """Cancels the plan."""


class _PlanSender(Protocol):
    """The part of a Client that sends plans."""

    def plan(self, bucket: str, name: str, keys: Any, *, order: Any = None) -> _PlanHandle:
        """Sends the plan `name`: the keys of the numbers in `order`."""


@dataclass(slots=True)
class PlanCounts:
    """The results of a sampler's plans."""

    sent: int = 0
    """Plans that were sent."""
    ignored: int = 0
    """Plans that were not sent, because the server is no Forebay."""
    failed: int = 0
    """Epochs whose plan could not be sent, or not to its end."""
    unknown: int = 0
    """Epochs whose order, or whose objects, are not known before they are read."""


class EpochPlans:
    """The plans of one sampler over `dataset`. `connect` is called when the first plan is sent. `quiet`: unknown
    objects and orders are not logged, as nobody asked for a plan of this data set; but keys without a bucket are, as
    little is missing. `largest`: the most entries of a
    plan."""

    def __init__(
        self,
        connect: Callable[[], _PlanSender],
        dataset: Any,
        series: str | None = None,
        *,
        quiet: bool = False,
        largest: int = MAX_ENTRIES,
    ) -> None:
        self.counts = PlanCounts()
        self._quiet, self._largest = quiet, largest
        self._connect, self._dataset, self._series = connect, dataset, series
        self._client: _PlanSender | None = None
        self._keys: DatasetKeys | None = None
        self._sent: dict[int, list[_PlanHandle]] = {}
        self._is_logged = False

    def send(self, epoch: int, order: Iterable[int]) -> bool:
        """Sends the order of an epoch, as indices of the data set. Returns whether it was sent."""
        try:
            keys = self._keys = self._keys or dataset_keys(self._dataset)
            if keys is None:
                if lacks_bucket(self._dataset):
                    self.counts.unknown += 1
                    self._log(
                        "An epoch has no plan: the data set has `keys`, and no `bucket` that says where they are."
                    )
                else:
                    self.skip("the data set does not say which objects its samples are")
                return False
            if self._client is None:
                self._client = self._connect()
            if self._series is None:
                self._series = default_series(keys)
            handles = self._sent.setdefault(epoch, [])
            for bucket, numbers in keys.by_bucket(order).items():
                for name, part in self._parts(epoch, numbers):
                    handle = self._client.plan(bucket, name, keys.keys, order=part)
                    handles.append(handle)
                    self.counts.sent += handle.is_accepted
                    self.counts.ignored += not handle.is_accepted
        except Exception as error:
            self.counts.failed += 1
            self._log("A plan could not be sent, and the epoch is read without: %s: %s", type(error).__name__, error)
            return False
        return True

    def skip(self, reason: str) -> None:
        """Counts an epoch whose order is unknown."""
        self.counts.unknown += 1
        if not self._quiet:
            self._log("An epoch has no plan: %s.", reason)

    def cancel(self, epoch: int) -> None:
        """Cancels the plans of an epoch that is not read to its end."""
        for handle in self._sent.pop(epoch, ()):
            with suppress(Exception):  # It ends by itself when nobody reads.
                handle.cancel()

    def forget(self, epoch: int) -> None:
        """Forgets the plans of an epoch that was read to its end."""
        self._sent.pop(epoch, None)

    def _parts(self, epoch: int, numbers: "array[int]") -> Iterator[tuple[str, "array[int]"]]:
        """Yields the name and the entries of each plan of an epoch."""
        name = f"{self._series}/epoch-{epoch}"
        is_whole = len(numbers) <= self._largest
        for part, start in enumerate(range(0, len(numbers), self._largest)):
            yield (name if is_whole else f"{name}.{part}"), numbers[start : start + self._largest]

    def _log(self, message: str, *values: object) -> None:
        if not self._is_logged:
            self._is_logged = True
            LOGGER.warning(message, *values)


def default_series(keys: DatasetKeys) -> str:
    """The name of the series of this process's next sampler over a data set."""
    count = len(keys.keys)
    edges = [keys.keys[0], keys.keys[count // 2], keys.keys[-1]] if count else []
    data_set = _digest(str(count), keys.buckets[0] if keys.buckets else "", *edges)
    number = _SAMPLERS[data_set]
    _SAMPLERS[data_set] += 1
    environ = os.environ
    job = environ.get("FOREBAY_JOB") or _digest(
        socket.gethostname(), str(Path.cwd()), *sys.argv, environ.get("CUDA_VISIBLE_DEVICES", "")
    )
    return f"torch/{job[:64]}/{data_set}-{number}-{environ.get('RANK', '0')}"


def _digest(*texts: str) -> str:
    return blake2b("\0".join(texts).encode(errors="surrogateescape"), digest_size=6).hexdigest()
