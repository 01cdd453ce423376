"""Jobs and their orders between the admin port and the room that runs them."""

from forebay.jobs.state.warm_up_job import WarmUpJob
from forebay.jobs.state.warm_up_order import ListedSource, WarmUpOrder
from forebay.server.admin.schema.warm_order import WarmOrder
from forebay.server.admin.worker.job_view import SOURCES_SHOWN, job_view, warm_up_order


def test_an_order_has_every_source_and_bound() -> None:
    order = WarmOrder(
        "b", "p", locations=("oss://c/q",), globs=("s3://d/r/*",), rate=5, until="50%", newer_than="10s", concurrency=3
    )
    assert warm_up_order(order, 100.0) == WarmUpOrder(
        (ListedSource("b", "p"), ListedSource("c", "q"), ListedSource("d", "r/", "r/*")),
        concurrency=3,
        rate=5,
        until_share=0.5,
        newer_than=90.0,
    )


def test_a_view_shows_some_sources_and_their_number() -> None:
    sources = tuple(ListedSource("b", str(number)) for number in range(SOURCES_SHOWN + 5))
    job = WarmUpJob("id", WarmUpOrder(sources, until_share=0.5), 1.0)
    view = job_view(job, 0.0)
    assert (len(view.sources), view.listed_sources, view.prefix, view.until) == (SOURCES_SHOWN, 25, None, None)
    job.end_listing(100)
    assert job_view(job, 0.0).until == 50
