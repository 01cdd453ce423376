"""What the errors of a server say to the user of the client library."""

import pytest

from forebay_client import AccessDenied, InvalidRequest
from forebay_client.transport.error_document import error_of
from forebay_client.transport.object_request import ObjectRequest, ObjectResponse

NOW = 1_790_000_000.0
DATE = "Mon, 21 Sep 2026 14:13:20 GMT"
"""The same."""
SKEWED = b"<Error><Code>RequestTimeTooSkewed</Code><Message>Too far off.</Message></Error>"


def refused(body: bytes, now: float, date: str = DATE) -> str:
    headers = {"date": date, "x-amz-request-id": "ID"}
    error = error_of(ObjectRequest("GET", "b", "k"), ObjectResponse(403, headers, memoryview(body)), now)
    assert isinstance(error, AccessDenied)
    return str(error)


@pytest.mark.parametrize("body", [SKEWED, b""], ids=["GET", "HEAD"])
@pytest.mark.parametrize(("off", "where"), [(1000, "1000 s ahead of"), (-3600, "3600 s behind")])
def test_a_refusal_says_how_far_the_clocks_differ(body: bytes, off: int, where: str) -> None:
    text = refused(body, NOW + off)
    assert f"this machine's clock is {where} the server's: set the one that is wrong" in text
    assert ("RequestTimeTooSkewed" in text) is bool(body)


@pytest.mark.parametrize(("off", "date"), [(0, DATE), (800, DATE), (-800, DATE), (9999, "soon"), (9999, "")])
def test_it_says_nothing_of_clocks_that_may_agree(off: int, date: str) -> None:
    assert "clock" not in refused(b"", NOW + off, date)


@pytest.mark.parametrize("status", [301, 307, 400])
@pytest.mark.parametrize("body", [b"<Error><Code>PermanentRedirect</Code></Error>", b""], ids=["GET", "HEAD"])
def test_a_bucket_elsewhere_is_named_with_its_region(status: int, body: bytes) -> None:
    headers = {"x-amz-bucket-region": "eu-west-1", "x-amz-request-id": "ID"}
    error = error_of(ObjectRequest("GET", "b", "k"), ObjectResponse(status, headers, memoryview(body)))
    assert isinstance(error, InvalidRequest)
    assert "the bucket is in the region eu-west-1" in str(error)
    assert (error.status, error.request_id) == (status, "ID")
    assert "failed" not in error.reason


def test_a_redirect_without_a_region_says_what_it_is() -> None:
    error = error_of(ObjectRequest("HEAD", "b", "k"), ObjectResponse(307, {}, memoryview(b"")))
    assert error.reason == "the server refers to another address"
