"""Heads of requests: what is sent, and what is refused because it would be more than one line."""

import pytest

from forebay.origin.endpoint import RequestUrl
from forebay.origin.http.outgoing_head import encoded_head, outgoing_head

URL = RequestUrl("http", "host:9000", "/bucket/key", "/bucket/key?versionId=1")


def test_a_head_is_the_request_line_and_the_fields() -> None:
    assert outgoing_head("GET", URL, [("Range", "bytes=0-9"), ("X-É", "é")]) == (
        "GET /bucket/key?versionId=1 HTTP/1.1\r\nHost: host:9000\r\nRange: bytes=0-9\r\nX-É: é\r\n\r\n".encode()
    )


@pytest.mark.parametrize(("method", "has_length"), [("GET", False), ("HEAD", False), ("DELETE", True), ("PUT", True)])
def test_methods_with_content_send_its_length(method: str, has_length: bool) -> None:
    assert (b"Content-Length: 0\r\n" in outgoing_head(method, URL, [])) is has_length


@pytest.mark.parametrize("text", ["a\r\nb", "a\nb", "a\rb", "a\0b"])
def test_control_characters_are_refused(text: str) -> None:
    for name, value in (("X-Name", text), (text, "value")):
        with pytest.raises(ValueError, match="control character"):
            outgoing_head("GET", URL, [(name, value)])
    with pytest.raises(ValueError, match="control character"):
        outgoing_head("GET", URL._replace(target=f"/{text}"), [])
    with pytest.raises(ValueError, match="control character"):
        encoded_head(f"GET /{text} HTTP/1.1\r\n", "")
