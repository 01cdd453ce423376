"""Overlapping requests: what their responses show of one object."""

from forebay.core.heads import Head, ObjectFacts, head_of
from forebay.core.names import ObjectName, Version
from forebay.metadata.overlapping_requests import OverlappingRequests

NAME = ObjectName("bucket", "key")
NOW = 100.0


def head(etag: str, requested_at: float) -> Head:
    return head_of(ObjectFacts(Version(etag), 5, "", ()), 1 << 20, requested_at)


def begun(count: int) -> OverlappingRequests:
    requests = OverlappingRequests(lambda: NOW)
    for _ in range(count):
        requests.enter(NAME)
    return requests


def test_what_another_response_showed_meanwhile_contradicts() -> None:
    requests = begun(2)
    requests.note_shown(NAME, head('"a"', NOW - 2))
    assert requests.is_contradicted(NAME, head('"b"', NOW - 1))
    assert not requests.is_contradicted(NAME, head('"a"', NOW - 1))
    assert not requests.is_contradicted(ObjectName("bucket", "other"), head('"b"', NOW - 1))


def test_what_was_shown_before_a_request_does_not_contradict_it() -> None:
    requests = begun(2)
    requests.note_shown(NAME, head('"a"', NOW - 2))
    assert not requests.is_contradicted(NAME, head('"b"', NOW + 1))


def test_of_two_versions_shown_neither_is_believed() -> None:
    requests = begun(3)
    requests.note_shown(NAME, head('"a"', NOW - 3))
    requests.note_shown(NAME, head('"b"', NOW - 2))
    assert all(requests.is_contradicted(NAME, head(etag, NOW - 1)) for etag in ('"a"', '"b"'))


def test_a_single_request_notes_nothing() -> None:
    requests = begun(1)
    requests.note_shown(NAME, head('"a"', NOW - 2))
    requests.enter(NAME)
    assert not requests.is_contradicted(NAME, head('"b"', NOW - 1))


def test_nothing_is_kept_behind_the_last_request() -> None:
    requests = begun(2)
    requests.note_shown(NAME, head('"a"', NOW - 2))
    assert len(requests) == 1
    requests.leave(NAME)
    requests.leave(NAME)
    assert not requests
    requests.enter(NAME)
    assert not requests.is_contradicted(NAME, head('"b"', NOW - 1))
