"""Grants: the principals that settings make, and what one grant must cover."""

import pytest

from forebay.policy.grants import (
    Grant,
    Principal,
    anonymous_principal,
    may_read_all_below,
    may_read_all_matched,
    may_read_every_object_below,
    principal_of,
    reads_everything,
)
from forebay.policy.path_patterns import Pattern
from forebay.protocol.operations import Access
from forebay.settings.model import AnonymousClients, GrantSettings, KeySettings
from forebay.settings.secret import Secret
from policy.principals import principal


def test_a_configured_key_becomes_a_principal() -> None:
    grants = (GrantSettings("b/**", frozenset({"read", "list"})), GrantSettings("c/**", frozenset({"delete"})))
    assert principal_of(KeySettings("trainer", Secret("s"), None, grants)) == principal(("b/**", "rl"), ("c/**", "d"))


def test_requests_without_a_key_have_a_principal_of_their_own() -> None:
    clients = AnonymousClients((GrantSettings("b/**", frozenset({"read"})),))
    assert anonymous_principal(clients) == Principal("anonymous", principal(("b/**", "r")).grants)


def test_all_that_a_rule_matches_is_read_by_one_grant() -> None:
    reader = Principal("p", (Grant(Pattern("data/train/**"), frozenset({Access.READ})),))
    covered = {"data/train/**": True, "data/train/a/*": True, "data/**": False, "**": False, "data/*/x": False}
    assert {path: may_read_all_matched(reader, Pattern(path)) for path in covered} == covered
    writer = Principal("p", (Grant(Pattern("**"), frozenset({Access.WRITE})),))
    assert not may_read_all_matched(writer, Pattern("data/train/**"))


def test_everything_is_read_by_a_grant_of_every_path_alone() -> None:
    assert reads_everything(principal(("b/**", "w"), ("**", "r")))
    for grants in ([("**", "wld")], [("b/**", "r"), ("*/open/**", "r")], []):
        assert not reads_everything(principal(*grants))


@pytest.mark.parametrize(
    ("prefix", "reads_all", "reads_objects"),
    [
        ("", False, True),  # a resource is below it, which is no object
        (".fore", False, True),
        (".forebay/", False, False),
        (".forebay/plans/", False, False),
        ("open/", True, True),
    ],
)
def test_no_prefix_grants_what_is_below_a_resource(prefix: str, reads_all: bool, reads_objects: bool) -> None:
    who, other = principal(("b/**", "r")), principal(("b/open/k/**", "r"), ("b/**", "w"))
    assert may_read_all_below(who, "b", prefix) is reads_all
    assert may_read_every_object_below(who, "b", prefix) is reads_objects
    assert not may_read_all_below(other, "b", prefix)
    assert not may_read_every_object_below(other, "b", prefix)
