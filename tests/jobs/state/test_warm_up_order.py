"""The order of a job: what its sources list, how far it goes, and that it outlives JSON."""

import json

import pytest

from forebay.jobs.state.warm_up_order import ListedSource, WarmUpOrder


@pytest.mark.parametrize(
    ("glob", "prefix", "matching", "others"),
    [
        ("train/*.tar", "train/", ["train/1.tar", "train/.tar"], ["train/a/1.tar", "train/1.tar.gz"]),
        ("**.tar", "", ["1.tar", "a/b/1.tar"], ["1.txt"]),
        ("a?", "a", ["ab"], ["a", "abc", "a/"]),
        ("plain", "plain", ["plain"], ["plain2"]),
    ],
)
def test_a_glob_lists_what_comes_before_its_wildcard(
    glob: str, prefix: str, matching: list[str], others: list[str]
) -> None:
    source = ListedSource.matching("b", glob)
    assert (source.prefix, source.url) == (prefix, f"s3://b/{glob}")
    pattern = source.pattern()
    assert pattern is not None
    assert [key for key in matching + others if pattern.matches(f"b/{key}")] == matching


def test_an_order_survives_json() -> None:
    order = WarmUpOrder(
        (ListedSource("b", "p"), ListedSource.matching("b", "*")), 3, 4, False, True, 10, 0.5, None, 7.5
    )
    assert WarmUpOrder.from_document(json.loads(json.dumps(order.to_document()))) == order
    for field in order.to_document():
        with pytest.raises(KeyError):
            WarmUpOrder.from_document({name: value for name, value in order.to_document().items() if name != field})


def test_until_is_a_share_of_the_cache_or_a_size() -> None:
    assert WarmUpOrder().until(100) is None
    assert WarmUpOrder(until_share=0.8).until(100) == 80
    assert WarmUpOrder(until_size=500).until(100) == 500
