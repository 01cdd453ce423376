"""One data set: rates, and the bound on what sampling costs."""

from forebay.datasets.data_set import RATE_SECONDS, DataSet
from forebay.datasets.read_report import ReadTotals, SampledRead, SetReport
from harness.unit_hashes import unit_hash


def report_of(units: range) -> SetReport:
    """One read of 1,000 bytes of each unit."""
    sampled = [
        SampledRead(unit_hash(unit), 1000, 1000, ReadTotals(position, position * 1000, 0.0))
        for position, unit in enumerate(units)
    ]
    return SetReport(ReadTotals(len(units), len(units) * 1000, 0.0), sampled)


def test_the_rate_is_that_of_the_latest_seconds() -> None:
    data_set = DataSet("data/**", 0.0)
    for second in range(1, 31):
        data_set.receive(report_of(range(100 if second <= 10 else 20)), float(second))
    assert data_set.state(30.0).reads_per_second == 20
    assert data_set.state(30.0 + 2 * RATE_SECONDS).reads_per_second < 10
    assert DataSet("data/**", 5.0).state(5.0).reads_per_second == 0


def test_a_report_that_is_cut_makes_no_distance() -> None:
    data_set = DataSet("data/**", 0.0)
    data_set.receive(report_of(range(10)), 1.0)
    report = report_of(range(10))
    report.is_cut = True
    data_set.receive(report, 2.0)
    assert data_set.state(3.0).curve.read_again == 0


def test_an_epoch_begins_with_its_first_read() -> None:
    """Within one report."""
    data_set = DataSet("data/**", 0.0)
    report = report_of(range(200))
    report.sampled += [each._replace(before=each.before.plus(report.totals)) for each in report.sampled]
    report.totals = report.totals.plus(report.totals)
    data_set.receive(report, 1.0)
    state = data_set.state(1.0)
    assert (state.epoch, state.last, state.current) == (2, ReadTotals(200, 200_000), ReadTotals(200, 200_000))
