"""Which responses refuse a credential, and how the refusal is explained."""

from base64 import b64encode

import pytest
from multidict import CIMultiDict, CIMultiDictProxy

from forebay.origin.credential_refusal import (
    REFUSALS,
    CredentialRefusal,
    missing_credential,
    refusal_in,
    refused_credential,
)


def headers(**values: str) -> CIMultiDictProxy[str]:
    return CIMultiDictProxy(CIMultiDict({name.replace("_", "-"): value for name, value in values.items()}))


def error(code: str, more: str = "") -> bytes:
    return f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>m</Message>{more}</Error>".encode()


@pytest.mark.parametrize("code", sorted(REFUSALS))
def test_codes_of_refused_credentials(code: str) -> None:
    found = refusal_in(headers(), error(code))
    assert found is not None
    assert found.code == code


@pytest.mark.parametrize("code", ["AccessDenied", "AccountProblem", "NoSuchBucket", "InvalidArgument", "BadDigest"])
def test_other_errors_are_about_the_request(code: str) -> None:
    assert refusal_in(headers(), error(code)) is None


@pytest.mark.parametrize("body", [b"", b"SignatureDoesNotMatch", b"<Code></Code>", b"\xff\x00"])
def test_bodies_without_a_code(body: bytes) -> None:
    assert refusal_in(headers(x_oss_err="no base64!"), body) is None


def test_an_oss_head_carries_its_document_in_a_header() -> None:
    found = refusal_in(headers(x_oss_err=b64encode(error("InvalidAccessKeyId")).decode()), b"")
    assert found is not None
    assert found.code == "InvalidAccessKeyId"


def test_a_wrong_region_is_explained() -> None:
    found = refusal_in(headers(), error("AuthorizationHeaderMalformed", "<Region>eu-west-1</Region>"))
    assert found is not None
    assert found.explain("us-east-1", 0) == (
        "AuthorizationHeaderMalformed (origin.region is us-east-1, the origin expects eu-west-1)"
    )
    unnamed = CredentialRefusal("AuthorizationHeaderMalformed")
    assert unnamed.explain("us-east-1", 0) == "AuthorizationHeaderMalformed (origin.region is us-east-1)"


def test_a_wrong_region_of_oss_has_no_code_of_its_own() -> None:
    body = (
        b"<Error><Code>InvalidArgument</Code><Message>Invalid signing region in Authorization header.</Message></Error>"
    )
    found = refusal_in(headers(), body)
    assert found is not None
    assert found.code == "AuthorizationHeaderMalformed"


@pytest.mark.parametrize(("now", "where"), [(1_200.0, "1200 s ahead of"), (-1_200.0, "1200 s behind")])
def test_a_skewed_clock_is_explained(now: float, where: str) -> None:
    found = refusal_in(headers(Date="Thu, 01 Jan 1970 00:00:00 GMT"), error("RequestTimeTooSkewed"))
    assert found is not None
    assert found.explain("r", now) == f"RequestTimeTooSkewed (Forebay's clock is {where} the origin's)"
    undated = refusal_in(headers(Date="soon"), error("RequestTimeTooSkewed"))
    assert undated is not None
    assert undated.explain("r", now) == "RequestTimeTooSkewed"


def test_clients_are_not_told_the_access_key() -> None:
    refusal = CredentialRefusal("InvalidAccessKeyId")
    for own in (True, False):
        fault = refused_credential(refusal, "AKIASECRETISH", "InvalidAccessKeyId", own=own)
        assert "AKIASECRETISH" in fault.reason
        assert "AKIASECRETISH" not in fault.message
        assert "between Forebay and the origin" in fault.message
    assert "no credential" in missing_credential("why").message
