"""Which listings the rules let be answered here, of which namespace, and how fresh."""

import pytest

from forebay.policy.listing_scopes import ListingScope, ListingScopes
from forebay.settings.freshness_values import Immutable, Listing, ListingOff, MaxAge
from forebay.settings.rule_settings import Rule


def scopes(*rules: tuple[str, Listing | None]) -> ListingScopes:
    return ListingScopes([Rule(path, listing=listing) for path, listing in rules])


def test_without_a_rule_the_origin_answers() -> None:
    assert scopes().scope("bucket", "") is None
    assert scopes(("**", None)).scope("bucket", "") is None
    assert scopes(("**", ListingOff())).is_empty


def test_listings_of_one_rule_share_its_namespace() -> None:
    found = scopes(("datasets/imagenet/**", MaxAge(600)))
    for prefix in ("imagenet/", "imagenet/train/", "imagenet/train/n01440764/n0"):
        assert found.scope("datasets", prefix) == ListingScope("imagenet/", MaxAge(600))


@pytest.mark.parametrize("prefix", ["", "imagenet", "other/", "imagenet2/"])
def test_a_listing_wider_than_the_rule_is_passed_on(prefix: str) -> None:
    assert scopes(("datasets/imagenet/**", MaxAge(600))).scope("datasets", prefix) is None
    assert scopes(("datasets/imagenet/**", MaxAge(600))).scope("other", "imagenet/") is None


def test_a_rule_for_every_bucket_has_a_namespace_for_each() -> None:
    assert scopes(("**", Immutable())).scope("bucket", "a/b") == ListingScope("", Immutable())
    assert scopes(("*/open/**", Immutable())).scope("bucket", "open/b") == ListingScope("open/", Immutable())
    assert scopes(("*/open/**", Immutable())).scope("bucket", "ope") is None


def test_off_for_some_keys_passes_on_what_may_show_them() -> None:
    found = scopes(("datasets/private/**", ListingOff()), ("datasets/**", MaxAge(600)))
    assert found.scope("datasets", "") is None
    assert found.scope("datasets", "private/a") is None
    assert found.scope("datasets", "p") is None
    assert found.scope("datasets", "public/") == ListingScope("pu", MaxAge(600))


def test_the_strictest_rule_counts_for_a_listing_of_both() -> None:
    found = scopes(("datasets/live/**", MaxAge(60)), ("datasets/**", Immutable()))
    assert found.scope("datasets", "") == ListingScope("", MaxAge(60))
    assert found.scope("datasets", "live/") == ListingScope("", MaxAge(60))
    assert found.scope("datasets", "old/") == ListingScope("", Immutable())


def test_the_first_rule_that_covers_all_ends_the_search() -> None:
    found = scopes(("datasets/**", MaxAge(600)), ("datasets/live/**", MaxAge(60)))
    assert found.scope("datasets", "live/") == ListingScope("", MaxAge(600))


def test_a_rule_for_some_suffix_covers_no_prefix() -> None:
    assert scopes(("datasets/**.jpg", MaxAge(600))).scope("datasets", "") is None
