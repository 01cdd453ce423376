"""Conditional writes: the condition of what was seen, until the origin refuses it."""

import pytest

from forebay.core.heads import HeaderPairs
from forebay.core.names import ObjectName
from forebay.write.conditional_writes import ABSENT, ConditionalWrites, condition_of

MATCH, NONE_MATCH = (("If-Match", '"e"'),), (("If-None-Match", "*"),)


@pytest.mark.parametrize(
    ("operation", "etag", "condition"),
    [
        ("PutObject", '"e"', MATCH),
        ("PutObject", ABSENT, NONE_MATCH),
        ("CompleteMultipartUpload", ABSENT, NONE_MATCH),
        ("DeleteObject", '"e"', MATCH),
        ("DeleteObject", ABSENT, ()),
        ("PutObject", 'W/"e"', ()),
    ],
)
def test_the_condition_is_that_of_what_was_seen(operation: str, etag: str, condition: HeaderPairs) -> None:
    assert condition_of(operation, etag) == condition


def test_what_an_origin_refuses_is_not_sent_again() -> None:
    writes = ConditionalWrites(lambda bucket: "far" if bucket == "b" else "near")
    here, elsewhere = ObjectName("b", "k"), ObjectName("other", "k")
    assert writes.usable(here, "PutObject", MATCH) == MATCH
    writes.refused(here, "PutObject", MATCH)
    assert writes.usable(here, "PutObject", MATCH) == ()
    assert writes.usable(here, "PutObject", NONE_MATCH) == NONE_MATCH
    assert writes.usable(here, "DeleteObject", MATCH) == MATCH
    assert writes.usable(elsewhere, "PutObject", MATCH) == MATCH


def test_a_contradiction_of_a_deletion_counts_the_second_time() -> None:
    writes, one, other = ConditionalWrites(lambda _: "near"), ObjectName("b", "k"), ObjectName("b", "other")
    seen = [writes.contradicts(name, "DeleteObject", MATCH) for name in (one, other, one, one)]
    assert seen == [False, False, True, False]
    assert not any(writes.contradicts(one, operation, MATCH) for operation in ("PutObject", "CompleteMultipartUpload"))


def test_contradictions_count_in_a_row_only() -> None:
    writes, name = ConditionalWrites(lambda _: "near"), ObjectName("b", "k")
    assert not writes.contradicts(name, "DeleteObject", MATCH)
    writes.forget_contradiction(name, MATCH)
    assert not writes.contradicts(name, "DeleteObject", MATCH)
    assert writes.contradicts(name, "DeleteObject", MATCH)


def test_deletions_of_parts_are_contradicted_once() -> None:
    writes, name = ConditionalWrites(lambda bucket: bucket), ObjectName("b", "k")
    of_parts: HeaderPairs = (("If-Match", '"0a-2"'),)
    writes.settle_contradiction(name, MATCH)
    assert writes.usable(name, "DeleteObject", of_parts) == of_parts
    writes.settle_contradiction(name, of_parts)
    assert writes.usable(name, "DeleteObject", of_parts) == ()
    assert writes.usable(name, "DeleteObject", MATCH) == MATCH
    assert writes.usable(name, "CompleteMultipartUpload", of_parts) == of_parts
    assert writes.usable(ObjectName("other", "k"), "DeleteObject", of_parts) == of_parts
