"""The collector, and its reports as documents between workers."""

import json

import pytest

from forebay.core.errors import PeerUnavailable
from forebay.datasets.data_set import NO_LIMITS
from forebay.datasets.data_sets import MAX_DATA_SETS, DataSets, decode_limits
from forebay.datasets.read_report import ReadTotals, SampledRead, SetReport, decode_reports, encode_reports

REPORT = SetReport(ReadTotals(3, 30, 12.5), [SampledRead(7, 10, 5, ReadTotals(1, 10, 2.5))], [(7, 10)], True)


def test_a_report_survives_the_way_between_workers() -> None:
    assert decode_reports(json.loads(json.dumps(encode_reports({"data/**": REPORT})))) == {"data/**": REPORT}


@pytest.mark.parametrize("document", [{}, {"sets": []}, {"sets": {"a": [[1, 2], [], [], False]}}, {"sets": {"a": 1}}])
def test_a_document_that_does_not_fit_is_refused(document: dict[str, object]) -> None:
    with pytest.raises(PeerUnavailable):
        DataSets(lambda: 0.0).answer(document)


def test_the_collector_answers_with_what_it_wants_reported() -> None:
    collector = DataSets(lambda: 0.0)
    collector.keep(frozenset(["data/**"]))
    answer = collector.answer(encode_reports({"data/**": REPORT, "gone": REPORT}))
    assert decode_limits(json.loads(json.dumps(answer))) == {"data/**": NO_LIMITS}
    with pytest.raises(PeerUnavailable):
        decode_limits({"limits": {"data/**": [1]}})


def test_data_sets_are_bounded() -> None:
    collector = DataSets(lambda: 0.0)
    collector.keep(frozenset(f"{number}/**" for number in range(MAX_DATA_SETS + 1)))
    limits = collector.receive({f"{number}/**": SetReport() for number in range(MAX_DATA_SETS + 1)})
    assert len(collector.states()) == MAX_DATA_SETS
    assert limits[f"{MAX_DATA_SETS}/**"] == (0, 0)
    collector.keep(frozenset(["1/**"]))
    assert [state.name for state in collector.states()] == ["1/**"]
