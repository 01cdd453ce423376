"""A response's head is parsed when somebody looks."""

import pytest

from forebay_client.shared_memory.received_head import ReceivedHead


def test_fields_are_found_by_their_names_in_lower_case() -> None:
    head = ReceivedHead(
        b'HTTP/1.1 206 Partial Content\r\nETag: "a:b"\r\nX-Amz-Meta-Name:  v \r\nVary: a\r\nvary: b\r\n\r\n'
    )
    assert head.status == 206
    assert dict(head) == {"etag": '"a:b"', "x-amz-meta-name": "v", "vary": "a, b"}
    assert len(head) == 3
    unparsed = ReceivedHead(head.raw)
    assert [unparsed.get(name, "") for name in ("content-length", "tag", "etag", "vary")] == ["", "", '"a:b"', "a, b"]


@pytest.mark.parametrize(
    "raw", [b"", b"\r\n\r\n", b"HTTP/1.1 \r\n\r\n", b"HTTP/1.0 200 OK\r\n\r\n", b"HTTP/1.1 abc\r\n\r\n"]
)
def test_what_is_no_response_has_no_status(raw: bytes) -> None:
    with pytest.raises(ValueError, match=r"HTTP|int"):
        _ = ReceivedHead(raw).status


def test_a_field_that_may_be_a_checksum_is_seen() -> None:
    names = ("x-amz-checksum-crc32", "X-Amz-Checksum-Type", "x-oss-hash-crc64ecma", "ETag")
    heads = [ReceivedHead(f"HTTP/1.1 200 OK\r\n{name}: 1\r\n\r\n".encode()) for name in names]
    assert [head.has_checksum for head in heads] == [True, True, True, False]
