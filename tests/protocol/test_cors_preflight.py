"""A preflight is told what it lacks, or that nobody may."""

import pytest
from multidict import CIMultiDict

from forebay.protocol.cors_preflight import preflight_refusal
from forebay.protocol.target import parse_target

ASKED = {"Origin": "http://a.example", "Access-Control-Request-Method": "PUT"}


@pytest.mark.parametrize(
    "headers", [{}, {"Origin": "http://a.example"}, {"Access-Control-Request-Method": "PUT"}, {**ASKED, "Origin": ""}]
)
def test_a_question_that_is_none_lacks_something(headers: dict[str, str]) -> None:
    refused = preflight_refusal(parse_target("/b/k", "", ()), CIMultiDict(headers))
    assert (refused.status, refused.code) == (400, "BadRequest")


@pytest.mark.parametrize(("path", "kind"), [("/", "BUCKET"), ("/b", "BUCKET"), ("/b/k", "OBJECT")])
def test_nobody_may(path: str, kind: str) -> None:
    refused = preflight_refusal(parse_target(path, "", ()), CIMultiDict(ASKED))
    assert (refused.status, refused.code) == (403, "AccessForbidden")
    assert refused.details == {"Method": "PUT", "ResourceType": kind}
