"""The data sets of a node, at its collector (worker 0): each rule's reads, whichever workers answered them."""

from collections.abc import Callable
from typing import Final

from forebay.datasets.data_set import DataSet, DataSetState, SetLimits
from forebay.datasets.read_report import SetReport, decode_reports
from forebay.peers.frames import Document
from forebay.peers.peer_codec import decode

MAX_DATA_SETS: Final = 64
"""Rules whose reads are followed; those of further ones are only counted in the metrics."""


class DataSets:
    """All data sets that were read. `monotonic`: seconds."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._names = frozenset[str]()
        self._sets: dict[str, DataSet] = {}

    def receive(self, reports: dict[str, SetReport]) -> dict[str, SetLimits]:
        """Adds a worker's reports. Returns the limits of its next reports of these data sets."""
        now = self._monotonic()
        limits = {}
        for name, report in reports.items():
            if name not in self._names:  # of a worker that has the rules of before, still
                continue
            data_set = self._sets.get(name)
            if data_set is None:
                if len(self._sets) >= MAX_DATA_SETS:
                    limits[name] = SetLimits(0, 0)
                    continue
                data_set = self._sets[name] = DataSet(name, now)
            data_set.receive(report, now)
            limits[name] = data_set.limits
        return limits

    def answer(self, request: Document) -> Document:
        """Adds another worker's reports. Raises PeerUnavailable for a document that does not fit."""
        limits = self.receive(decode(lambda: decode_reports(request)))
        return {"limits": {name: list(each) for name, each in limits.items()}}

    def keep(self, names: frozenset[str]) -> None:
        """Follows the data sets with these names, and forgets all others: their rules are gone."""
        self._names = names
        self._sets = {name: data_set for name, data_set in self._sets.items() if name in names}

    def states(self) -> list[DataSetState]:
        """Returns all data sets at this moment, by name."""
        now = self._monotonic()
        return [self._sets[name].state(now) for name in sorted(self._sets)]


def decode_limits(response: Document) -> dict[str, SetLimits]:
    """Returns the collector's response. Raises PeerUnavailable for a malformed document."""
    return decode(
        lambda: {name: SetLimits(int(units), int(objects)) for name, (units, objects) in response["limits"].items()}
    )
