"""Preflights: an incomplete one is a bad request, a complete one is forbidden."""

import pytest
from multidict import CIMultiDict

from forebay.protocol.cors_preflight import preflight_refusal
from forebay.protocol.target import parse_target

HEADERS = {"Origin": "http://a.example", "Access-Control-Request-Method": "PUT"}


@pytest.mark.parametrize(
    "headers",
    [{}, {"Origin": "http://a.example"}, {"Access-Control-Request-Method": "PUT"}, {**HEADERS, "Origin": ""}],
)
def test_incomplete_preflight_is_a_bad_request(headers: dict[str, str]) -> None:
    refused = preflight_refusal(parse_target("/b/k", "", ()), CIMultiDict(headers))
    assert (refused.status, refused.code) == (400, "BadRequest")


@pytest.mark.parametrize(("path", "kind"), [("/", "BUCKET"), ("/b", "BUCKET"), ("/b/k", "OBJECT")])
def test_complete_preflight_is_forbidden(path: str, kind: str) -> None:
    refused = preflight_refusal(parse_target(path, "", ()), CIMultiDict(HEADERS))
    assert (refused.status, refused.code) == (403, "AccessForbidden")
    assert refused.details == {"Method": "PUT", "ResourceType": kind}
