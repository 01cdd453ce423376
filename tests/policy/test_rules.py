"""Which rule decides which field."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.core.names import ObjectName
from forebay.policy.freshness import AlwaysRevalidate, Immutable, MaxAge
from forebay.policy.pools import Pool
from forebay.policy.rules import DEFAULTS, MAX_REMEMBERED_DECISIONS, Rule, Rules
from forebay.settings.rule_settings import Write

MIB = 1 << 20


def test_no_rule_leaves_the_defaults() -> None:
    decision = Rules([]).decide(ObjectName("b", "k"))
    assert decision == DEFAULTS
    assert (decision.accelerate, decision.freshness, decision.block) == (True, MaxAge(60.0), MIB)
    assert (decision.warm_on_write, decision.write, decision.rule) == (False, "through", "default")


def test_the_first_rule_that_matches_and_sets_a_field_decides_it() -> None:
    rules = Rules(
        [
            Rule("datasets/video/**", block=8 * MIB),
            Rule("datasets/**", freshness=Immutable(), block=4 * MIB),
            Rule("datasets/private/**", freshness=AlwaysRevalidate(), accelerate=False),
            Rule("**", freshness=MaxAge(5), accelerate=True, warm_on_write=True),
        ]
    )
    video = rules.decide(ObjectName("datasets", "video/1"))
    assert (video.block, video.freshness, video.rule) == (8 * MIB, Immutable(), "datasets/video/**")
    private = rules.decide(ObjectName("datasets", "private/1"))
    assert (private.block, private.freshness) == (4 * MIB, Immutable())
    assert (private.accelerate, private.rule) == (False, "datasets/**")
    other = rules.decide(ObjectName("other", "video/1"))
    assert (other.block, other.freshness, other.warm_on_write) == (MIB, MaxAge(5), True)


def test_an_object_counts_as_the_data_set_that_rules_name() -> None:
    rules = Rules(
        [
            Rule("data/imagenet/index/**", block=MIB),
            Rule("data/imagenet/**", name="imagenet"),
            Rule("data/**", name="data", freshness=Immutable()),
            Rule("logs/**", accelerate=False),
        ]
    )
    keys = {"data": ("imagenet/1", "imagenet/index/1", "other"), "logs": ("1",), "else": ("1",)}
    decided = [rules.decide(ObjectName(bucket, key)).rule for bucket, names in keys.items() for key in names]
    assert decided == ["imagenet", "imagenet", "data", "logs/**", "default"]
    assert {"imagenet", "data"} <= rules.data_sets
    assert "logs/**" not in rules.data_sets, "nobody has asked for it to be counted"


def test_what_shares_a_pool_counts_as_one_data_set() -> None:
    rules = Rules([Rule("a/index/**", block=MIB), Rule("a/**", eviction="epoch"), Rule("b/**", name="b", quota=MIB)])
    assert [rules.decide(ObjectName(bucket, "index/1")).rule for bucket in "abc"] == ["a/**", "b", "default"]
    a, b = rules.pool_of("a/**"), rules.pool_of("b")
    assert a is not None
    assert b is not None
    assert (a.name, a.eviction, b.name, b.quota) == ("a/**", "epoch", "b/**", MIB)
    assert rules.pool_of("default") is None
    assert [rules.data_set_of(pool) for pool in ("a/**", "b/**", "gone/**")] == ["a/**", "b", "gone/**"]
    assert Rules([Rule("b/**", name="b", quota=MIB)]).pool_of("b") == b


def test_no_rule_has_a_resource_of_forebays_own_cached() -> None:
    rules = Rules([Rule("**", accelerate=True, freshness=Immutable())])
    assert not rules.decide(ObjectName("b", ".forebay/plans/a")).accelerate
    assert rules.decide(ObjectName("b", ".forebay")).accelerate


def test_a_false_decides_as_a_true_does() -> None:
    rules = Rules([Rule("b/x", accelerate=False, warm_on_write=False), Rule("**", accelerate=True, warm_on_write=True)])
    decision = rules.decide(ObjectName("b", "x"))
    assert (decision.accelerate, decision.warm_on_write) == (False, False)


def test_the_first_rule_that_sets_eviction_or_quota_names_the_pool() -> None:
    rules = Rules(
        [
            Rule("b/kept/**", quota=MIB),
            Rule("b/logs/**", eviction="lru"),
            Rule("b/**", eviction="epoch", freshness=Immutable()),
            Rule("**", block=2 * MIB),
        ]
    )
    assert rules.pool(ObjectName("b", "kept/1")) == Pool("b/kept/**", "epoch", MIB)
    assert rules.pool(ObjectName("b", "1")) == Pool("b/**", "epoch", None)
    assert rules.pool(ObjectName("b", "logs/1")) is None
    assert rules.pool(ObjectName("other", "1")) is None
    assert Rules([Rule("**", block=MIB)]).pool(ObjectName("b", "1")) is None


def test_around_never_warms() -> None:
    writes: list[Write] = ["through", "around", "back"]
    decisions = [Rules([Rule("**", write=each, warm_on_write=True)]).decide(ObjectName("b", "k")) for each in writes]
    assert [decision.write for decision in decisions if decision.warm_on_write] == ["through", "back"]


def test_other_defaults() -> None:
    defaults = Rules([Rule("**", freshness=AlwaysRevalidate())]).decide(ObjectName("b", "k"))
    assert Rules([], defaults).decide(ObjectName("b", "k")).freshness == AlwaysRevalidate()


def test_a_bad_path_is_refused() -> None:
    with pytest.raises(ValueError):
        Rules([Rule("bucket")])


def test_a_scan_remembers_one_decision_for_each_set_of_rules() -> None:
    rules = Rules([Rule("b/**", block=MIB), Rule("**", freshness=AlwaysRevalidate())])
    for i in range(1000):
        rules.decide(ObjectName("b" if i % 2 else "c", f"k{i}"))
    assert len(rules._decisions) == 2  # noqa: SLF001 # the bound is of what nobody else sees


def test_decisions_are_bounded_and_right_beyond_the_bound() -> None:
    rules = Rules([Rule(f"b/**{i:x}**", block=MIB << i % 2) for i in range(16)])
    for number in range(2 * MAX_REMEMBERED_DECISIONS):
        key = "".join(f"{i:x}" for i in range(16) if number >> i & 1) + "-"
        decision = rules.decide(ObjectName("b", key))
        lowest = (number & -number).bit_length() - 1
        assert decision.block == (MIB if number == 0 else MIB << lowest % 2)
    assert len(rules._decisions) == MAX_REMEMBERED_DECISIONS  # noqa: SLF001 # as above


paths = st.sampled_from(["**", "b/**", "b/x/**", "b/x/1", "c/**"])
rule = st.builds(
    Rule,
    path=paths,
    accelerate=st.none() | st.booleans(),
    freshness=st.none() | st.sampled_from([Immutable(), AlwaysRevalidate(), MaxAge(1.0)]),
    block=st.none() | st.sampled_from([MIB, 2 * MIB]),
    write=st.none() | st.sampled_from(["through", "around"]),
)


@given(st.lists(rule, max_size=6))
def test_a_rule_that_never_matches_changes_nothing(rules: list[Rule]) -> None:
    name = ObjectName("b", "x/1")
    elsewhere = Rule("elsewhere/**", accelerate=False, freshness=MaxAge(3), block=4 * MIB, write="around")
    assert Rules([elsewhere, *rules]).decide(name) == Rules(rules).decide(name)


@given(st.lists(rule, max_size=6), rule)
def test_a_rule_below_never_overrides(rules: list[Rule], last: Rule) -> None:
    name = ObjectName("b", "x/1")
    before, after = Rules(rules).decide(name), Rules([*rules, last]).decide(name)
    decided = [one for one in rules if one.path != "c/**"]
    if any(one.freshness is not None for one in decided):
        assert after.freshness == before.freshness
    if any(one.accelerate is not None for one in decided):
        assert (after.accelerate, after.rule) == (before.accelerate, before.rule)


def test_the_paths_of_a_data_set_are_those_of_its_rules() -> None:
    rules = Rules([Rule("a/**", name="x"), Rule("b/**"), Rule("c/**", name="x")])
    found = {name: [pattern.text for pattern in rules.patterns_of(name)] for name in ("x", "b/**", "none")}
    assert found == {"x": ["a/**", "c/**"], "b/**": ["b/**"], "none": []}


def test_a_pool_has_the_name_of_its_rule_before_any_decision() -> None:
    """As after a reload: else it would be a data set of its own until the next read."""
    rules = Rules([Rule("b/train/**", name="set", eviction="epoch"), Rule("b/**", eviction="epoch")])
    assert rules.data_set_of("b/train/**") == "set"
    assert rules.data_set_of("b/**") == "b/**"
