"""Origin versions: what Forebay makes is newer than what it learns of earlier runs meanwhile. Else: scenarios."""

from typing import Any

from forebay.core.names import ObjectName
from forebay.write.back.drain.origin_versions import MOST_OBJECTS, MOST_SENT, OriginVersions
from forebay.write.conditional_writes import ABSENT

NAME, OTHER = ObjectName("b", "k"), ObjectName("b", "other")


def versions_of_nothing() -> OriginVersions:
    nothing: Any = None
    return OriginVersions(nothing, nothing, nothing, nothing)


def test_what_is_made_meanwhile_is_not_unlearnt() -> None:
    versions = versions_of_nothing()
    versions.made(OTHER, '"before"')
    with versions.learning() as learn:
        learn(NAME, '"settled"')
        versions.made(NAME, '"newer"')
        for name in (NAME, OTHER):
            learn(name, '"settled later"')
    assert versions.is_ours(NAME, '"newer"', ABSENT)
    assert not versions.is_ours(NAME, '"settled later"', ABSENT)
    assert versions.is_ours(OTHER, '"settled later"', ABSENT), "which was made by another worker"
    with versions.learning() as learn:
        learn(NAME, ABSENT)
    assert versions.is_ours(NAME, ABSENT, '"x"'), "it was another time"


def test_as_many_objects_are_remembered_as_allowed() -> None:
    versions = versions_of_nothing()
    with versions.learning() as learn:
        for number in range(MOST_OBJECTS + 1):
            learn(ObjectName("b", f"{number}"), '"e"')
    assert not versions.is_ours(ObjectName("b", "0"), '"e"', ABSENT)
    assert versions.is_ours(ObjectName("b", "1"), '"e"', ABSENT)


def test_a_version_that_was_sent_is_ours_until_an_answer_came() -> None:
    versions = versions_of_nothing()
    versions.made(NAME, '"made"')
    for _ in range(2):  # as by a client that tries again
        versions.sent(NAME, '"sent"')
    versions.settled(NAME, '"sent"')
    versions.settled(NAME, '"another"')
    for etag, is_ours in (('"expected"', True), ('"made"', True), ('"SENT"', True), ('"else"', False), (ABSENT, False)):
        assert versions.is_ours(NAME, etag, '"expected"') == is_ours
    versions.settled(NAME, '"sent"')
    assert not versions.is_ours(NAME, '"sent"', '"expected"')


def test_the_latest_sent_versions_are_remembered() -> None:
    versions = versions_of_nothing()
    for number in range(MOST_SENT + 1):
        versions.sent(NAME, f'"{number}"')
    ours = [number for number in range(MOST_SENT + 1) if versions.is_ours(NAME, f'"{number}"', ABSENT)]
    assert ours == list(range(1, MOST_SENT + 1))
