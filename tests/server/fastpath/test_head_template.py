"""Head templates: what matches, what does not, and that a match proves nothing."""

import pytest

from forebay.server.fastpath.head_template import HeadTemplate
from harness.clients import RawRequest
from security.keyrings import NOW
from security.oss_signers import ALL_SIGNERS
from security.signers import Form, Pairs, form_name
from server.fastpath.admitted import READER, admitted, signed

FORMS = [form for form in ALL_SIGNERS if form != ("SignedOssV2", "query")]
"""The forms of signatures that have templates."""


def head_data(request: RawRequest) -> bytes:
    return request.wire[: len(request.wire) - len(request.body)]


def template_of(request: RawRequest) -> HeadTemplate | None:
    return HeadTemplate.build(head_data(request), *admitted(request))


@pytest.mark.parametrize("form", FORMS, ids=form_name)
def test_a_head_of_another_object_matches(form: Form) -> None:
    template = template_of(signed(form))
    assert template is not None
    assert (template.principal, template.identity) == (READER, None)
    matched = template.match(head_data(signed(form, path="/b/other")))
    assert matched is not None
    assert matched[0].removesuffix(b" HTTP/1.1") == b"GET /b/other"


@pytest.mark.parametrize("form", FORMS, ids=form_name)
@pytest.mark.parametrize(
    "pairs", [(("User-Agent", "other"),), (("Range", "bytes=0-1"),), (("If-Match", '"a"'),), (("x-amz-acl", "a"),)]
)
def test_a_head_with_another_line_does_not_match(form: Form, pairs: Pairs) -> None:
    template = template_of(signed(form, (("User-Agent", "a"),)))
    assert template is not None
    assert template.match(head_data(signed(form, pairs))) is None
    assert template.match(head_data(signed(form, (("User-Agent", "a"), *pairs)))) is None


@pytest.mark.parametrize(("at", "value"), [(b"x-amz-date: ", b"2026112\r\nx-a: 12"), (b"Signature=", b"0\r\nx: 0")])
def test_a_value_that_holds_another_line_does_not_match(at: bytes, value: bytes) -> None:
    """It would be as long, and all around it as it should be."""
    template = template_of(signed(("SignedV4", "header")))
    data = head_data(signed(("SignedV4", "header")))
    assert template is not None
    assert template.match(data) is not None
    start = data.index(at) + len(at)
    assert template.match(data[:start] + value + data[start + len(value) :]) is None


def test_a_form_without_templates_has_none() -> None:
    assert template_of(signed(("SignedOssV2", "query"))) is None


def test_a_request_that_asks_for_revalidation_has_no_template() -> None:
    assert template_of(signed(pairs=(("Cache-Control", "no-cache"),))) is None


def test_varying_values_follow_the_order_of_their_lines() -> None:
    pairs = (("If-None-Match", '"a"'), ("Range", "bytes=0-1"))
    template = template_of(signed(pairs=pairs))
    assert template is not None
    matched = template.match(head_data(signed(pairs=(("If-None-Match", '"b", "c"'), ("Range", "bytes=5-")))))
    assert matched is not None
    assert matched[1][template.range_index] == b"bytes=5-"
    assert [(name, matched[1][index]) for name, index in template.conditions] == [("if-none-match", b'"b", "c"')]


@pytest.mark.parametrize("value", ["bytes=0-1,3-4", "items=0-1", "bytes=a-b", "bytes=1-2 "])
def test_a_range_outside_its_pattern_does_not_match(value: str) -> None:
    template = template_of(signed(pairs=(("Range", "bytes=0-1"),)))
    assert template is not None
    data = head_data(signed(pairs=(("Range", "bytes=0-1"),))).replace(b"bytes=0-1", value.encode())
    assert template.match(data) is None


def test_a_match_is_verified_by_its_own_signature() -> None:
    request = signed()
    template = template_of(request)
    assert template is not None
    target, _, _ = admitted(request)
    other, _, _ = admitted(signed(path="/b/other"))
    matched = template.match(head_data(request))
    assert matched is not None
    assert template.verify(matched, "GET", target, NOW) is not None
    assert template.verify(matched, "GET", other, NOW) is None
    assert template.verify(matched, "HEAD", target, NOW) is None
    assert template.verify(matched, "GET", target, NOW + 3600) is None
    line, values, signature = matched
    assert template.verify((line, values, b"0" * len(signature)), "GET", target, NOW) is None


def test_the_key_differs_with_all_that_bears_on_the_response() -> None:
    requests = [signed(), signed(pairs=(("x-amz-checksum-mode", "ENABLED"),)), signed(("SignedOssV4", "header"))]
    requests.append(signed(("SignedOssV4", "header"), (("x-oss-range-behavior", "standard"),)))
    keys = [template.key for request in requests if (template := template_of(request)) is not None]
    assert len(set(keys)) == len(requests)
