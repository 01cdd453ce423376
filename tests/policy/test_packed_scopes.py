import pytest

from forebay.policy.freshness import AlwaysRevalidate, Immutable, MaxAge
from forebay.policy.packed_scopes import LEAST_AGE, PackedScope, PackedScopes
from forebay.settings.rule_settings import Rule

SCOPES = PackedScopes(
    [
        Rule("b/train/cats/**", packed="cats/**", freshness=Immutable()),
        Rule("b/train/**", packed="packed/**"),
        Rule("b/strict/**", packed="packed/**", freshness=AlwaysRevalidate()),
        Rule("**", freshness=MaxAge(5)),
    ],
    MaxAge(60),
)


@pytest.mark.parametrize(
    ("prefix", "packed"),
    [
        ("train/cats/1", ["cats/**", "packed/**"]),
        ("train/dogs/", ["packed/**"]),
        ("t", ["cats/**", "packed/**"]),
        ("", ["cats/**", "packed/**"]),
        ("test/", []),
    ],
)
def test_a_prefix_has_the_packs_of_the_rules_that_reach_into_it(prefix: str, packed: list[str]) -> None:
    assert [scope.packed for scope in SCOPES.scopes("b", prefix)] == packed
    assert SCOPES.scopes("other", prefix) == []


def test_the_freshness_is_that_of_the_rule() -> None:
    assert SCOPES.scopes("b", "train/dogs/") == [PackedScope("packed/**", MaxAge(60))]
    assert SCOPES.scopes("b", "train/cats/")[0] == PackedScope("cats/**", Immutable())
    assert SCOPES.scopes("b", "strict/") == [PackedScope("packed/**", MaxAge(LEAST_AGE))]


def test_a_pack_is_read_where_a_rule_matches_its_index() -> None:
    assert SCOPES.has_pack("b", "train/", "packed/train/index.fbpack")
    assert not SCOPES.has_pack("b", "train/", "packs/train/index.fbpack")
    assert not SCOPES.has_pack("b", "test/", "packed/test/index.fbpack")
    assert not SCOPES.has_pack("b", "train/dogs/", "cats/train/dogs/index.fbpack")


def test_without_rules_there_is_nothing() -> None:
    assert PackedScopes([Rule("**")], MaxAge(60)).is_empty
