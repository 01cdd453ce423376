"""Whose recordings a reader may follow, and when reads are listened to. The rest: scenarios/test_recordings.py."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from forebay.core.events import ReaderKey
from forebay.core.read_stream import ReadSubscriber
from forebay.core.task_registry import TaskRegistry
from forebay.jobs.recordings.kept_recordings import KeptRecordings
from forebay.jobs.recordings.recording import SHARED, Recording
from forebay.policy.rules import Rules
from forebay.settings.rule_settings import Rule


class PolicyDouble:
    """The policy in force: the principal "own" has a credential of its own."""

    def __init__(self, rule: Rule) -> None:
        self.rule = rule

    def __call__(self) -> Any:
        return SimpleNamespace(rules=Rules([self.rule]), keyring=SimpleNamespace(origin_identities={"own": None}))


class ReadsDouble:
    """Whether each subscriber is urgent."""

    def __init__(self) -> None:
        self.subscribers: list[bool] = []

    def subscribe(self, _: ReadSubscriber, *, is_urgent: bool = True) -> Callable[[], None]:
        self.subscribers.append(is_urgent)
        return self.subscribers.clear

    def deliver(self) -> None:
        pass


class NoPlans:
    """Implements FollowedPlans: there are none."""


def kept_with(rule: Rule, reads: ReadsDouble) -> tuple[KeptRecordings, PolicyDouble]:
    double: Any = reads
    plans: Any = NoPlans()
    policy, zero = PolicyDouble(rule), lambda: 0.0
    kept = KeptRecordings(None, 1 << 20, double, policy, plans, TaskRegistry(), zero, zero, lambda _, __: None)
    return kept, policy


@pytest.mark.parametrize(
    ("reader", "recorded_by", "may"),
    [
        ("own", "own", True),
        ("own", "other", False),
        ("own", SHARED, False),
        ("user", "own", True),
        ("user", "user", True),
        ("user", SHARED, True),
    ],
)
def test_an_own_credential_follows_its_own_reads_alone(reader: str, recorded_by: str, may: bool) -> None:
    kept, _ = kept_with(Rule("**", follow=True), ReadsDouble())
    recording = Recording("0" * 16, "bucket", "r", recorded_by, "set", "saved", 0.0, "run", 1)
    assert kept.follower.may_follow(ReaderKey("bucket", "set", reader), recording) is may


@pytest.mark.parametrize("rule", [Rule("**", record=True), Rule("**", follow=True)])
def test_reads_are_listened_to_while_a_rule_wants_them(rule: Rule) -> None:
    reads = ReadsDouble()
    kept, policy = kept_with(Rule("**"), reads)
    kept.apply_rules()
    seen = [list(reads.subscribers)]
    policy.rule = rule
    kept.apply_rules()
    kept.apply_rules()
    seen.append(list(reads.subscribers))
    policy.rule = Rule("**")
    kept.apply_rules()
    kept.apply_rules()
    seen.append(list(reads.subscribers))
    assert seen == [[], [False], []]
