"""The prepared response: its heads, what it keeps of conditions, and for whom it cannot be made."""

import json

import pytest

from forebay.core.byte_ranges import Span
from forebay.protocol.conditions import NotModified, PreconditionFailed, Proceed
from security.keyrings import NOW
from server.fastpath.admitted import MODIFIED, POLICY, prepared, signed


def test_heads_end_where_the_request_id_begins() -> None:
    response = prepared(10, x_amz_meta_a="1")
    for head in (response.whole, response.not_modified(), response.partial(Span(2, 5))):
        assert head.endswith(b"\r\nx-amz-request-id: ")
        assert b'\r\nETag: "etag"\r\n' in head
    assert response.whole.startswith(b"HTTP/1.1 200 OK\r\n")
    assert b"\r\nContent-Length: 10\r\n" in response.whole
    assert f"Last-Modified: {MODIFIED}\r\n".encode() in response.whole


@pytest.mark.parametrize("span", [Span(0, 1), Span(2, 5), Span(0, 10), Span(9, 10)])
def test_each_range_has_its_own_content_range(span: Span) -> None:
    response = prepared(10)
    head = response.partial(span)
    assert head.startswith(b"HTTP/1.1 206 Partial Content\r\n")
    assert head.count(b"Content-Range: ") == head.count(b"Content-Length: ") == 1
    assert f"Content-Range: bytes {span.start}-{span.stop - 1}/10\r\n".encode() in head
    assert f"Content-Length: {span.length}\r\n".encode() in head


def test_a_response_in_oss_terms_has_the_request_id_of_oss() -> None:
    response = prepared(10, request=signed(("SignedOssV4", "header")))
    assert response.speaks_oss
    assert response.whole.endswith(b"\r\nx-oss-request-id: ")
    assert b"x-amz-" not in response.whole


def test_conditions_are_evaluated_each_time_they_change() -> None:
    response = prepared(10)
    for _ in range(2):
        assert isinstance(response.evaluate_conditions([("if-match", b'"etag"')]), Proceed)
        assert isinstance(response.evaluate_conditions([("if-match", b'"other"')]), PreconditionFailed)
        assert isinstance(response.evaluate_conditions([("if-none-match", b'"etag"')]), NotModified)


def test_a_header_that_is_not_ascii_is_for_the_full_lane() -> None:
    with pytest.raises(UnicodeEncodeError):
        prepared(10, x_amz_meta_a="\xe9")


@pytest.mark.parametrize(("size", "block", "is_single"), [(0, 8, False), (1, 8, True), (8, 8, True), (9, 8, False)])
def test_a_single_block_is_known_when_it_holds_the_object(size: int, block: int, is_single: bool) -> None:
    assert (prepared(size, block).block is not None) == is_single


def test_freshness_and_policy_are_those_of_its_admission() -> None:
    response = prepared(10)
    assert response.policy is POLICY
    assert response.fresh_from <= NOW < response.fresh_until
    assert response.fresh_until == NOW + 60


def test_log_fields_are_json_whatever_the_key() -> None:
    response = prepared(10)
    assert json.loads(f"{{{response.log_fields(206, 'hit-ssd', 3)}}}") == {
        "principal": "reader",
        "method": "GET",
        "operation": "GetObject",
        "bucket": "b",
        "key": "key",
        "rule": "default",
        "lane": "fast",
        "status": 206,
        "cache": "hit-ssd",
        "received": 0,
        "sent": 3,
    }
    assert json.loads(f"{{{response.whole_log_fields}}}")["sent"] == 10
    assert json.loads(f"{{{prepared(10, request=signed(method='HEAD')).whole_log_fields}}}")["sent"] == 0
