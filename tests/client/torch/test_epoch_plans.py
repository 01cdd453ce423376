"""The plans of a sampler's epochs: names, parts, failures."""

import logging
from types import SimpleNamespace
from typing import Any

import pytest

from forebay_client.torch.dataset_keys import DatasetKeys
from forebay_client.torch.epoch_plans import MAX_ENTRIES, EpochPlans, default_series

DATASET = SimpleNamespace(bucket="set", keys=["a", "b", "c"])


class Receiver:
    """A client that keeps what it is sent."""

    def __init__(self, refuses: bool = False) -> None:
        self.refuses = refuses
        self.is_forebay = True
        self.sent: list[tuple[str, str, list[str]]] = []
        self.cancelled: list[str] = []

    def plan(self, bucket: str, name: str, keys: Any, *, order: Any = None) -> Any:
        if self.refuses:
            raise OSError("refused")
        self.sent.append((bucket, name, [keys[number] for number in order]))
        return SimpleNamespace(is_accepted=self.is_forebay, cancel=lambda: self.cancelled.append(name))


def test_an_epoch_is_a_plan_of_its_series() -> None:
    receiver = Receiver()
    plans = EpochPlans(lambda: receiver, DATASET, "run")
    assert plans.send(3, [2, 0])
    assert receiver.sent == [("set", "run/epoch-3", ["c", "a"])]
    assert plans.counts.sent == 1


def test_another_server_than_forebay_is_counted() -> None:
    receiver = Receiver()
    receiver.is_forebay = False
    plans = EpochPlans(lambda: receiver, DATASET, "run")
    assert plans.send(0, [1])
    assert (plans.counts.sent, plans.counts.ignored) == (0, 1)


def test_a_long_epoch_is_several_plans() -> None:
    assert MAX_ENTRIES == 4_000_000
    receiver = Receiver()
    plans = EpochPlans(lambda: receiver, DATASET, "run", largest=2)
    plans.send(0, [0] * 5)
    assert [(name, len(entries)) for _, name, entries in receiver.sent] == [
        ("run/epoch-0.0", 2),
        ("run/epoch-0.1", 2),
        ("run/epoch-0.2", 1),
    ]
    plans.cancel(0)
    assert receiver.cancelled == ["run/epoch-0.0", "run/epoch-0.1", "run/epoch-0.2"]


def test_a_failure_is_counted_and_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    plans = EpochPlans(lambda: Receiver(refuses=True), DATASET)
    with caplog.at_level(logging.WARNING):
        assert not plans.send(0, [0])
        assert not plans.send(1, [0])
    assert plans.counts.failed == 2
    assert len(caplog.records) == 1
    assert "refused" in caplog.text


def test_an_unknown_data_set_is_counted(caplog: pytest.LogCaptureFixture) -> None:
    loud, quiet = EpochPlans(Receiver, object()), EpochPlans(Receiver, object(), quiet=True)
    assert not quiet.send(0, [0])
    assert caplog.records == []
    assert not loud.send(0, [0])
    assert len(caplog.records) == 1
    assert (loud.counts.unknown, quiet.counts.unknown) == (1, 1)


def test_keys_without_a_bucket_are_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    """Also by `forebay run`, which is silent about data sets of other kinds."""
    plans = EpochPlans(Receiver, SimpleNamespace(keys=["a", "b"], bucket_name="set"), quiet=True)
    with caplog.at_level(logging.WARNING):
        assert not plans.send(0, [0])
        assert not plans.send(1, [0])
    assert [record.getMessage() for record in caplog.records] == [
        "An epoch has no plan: the data set has `keys`, and no `bucket` that says where they are."
    ]
    assert plans.counts.unknown == 2


def test_what_was_read_is_not_cancelled() -> None:
    receiver = Receiver()
    plans = EpochPlans(lambda: receiver, DATASET, "run")
    plans.send(0, [0])
    plans.forget(0)
    plans.cancel(0)
    assert receiver.cancelled == []


def test_each_sampler_of_a_program_has_a_series() -> None:
    keys = DatasetKeys(["first", "second"], ["a bucket of this test"])
    first, second = default_series(keys), default_series(keys)
    assert first.endswith("-0-0")
    assert second.endswith("-1-0")
    assert first.rpartition("/")[0] == second.rpartition("/")[0]
    assert len(first) < 150
