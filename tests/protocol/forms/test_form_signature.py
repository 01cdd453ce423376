"""The signature of a form: what is no claim, what does not match, and what Version 4 says beside the policy."""

from dataclasses import replace

import pytest

from forebay.core.errors import S3Error
from forebay.protocol.forms.form_signature import has_form_claim, read_form_claim, verify_form_signature
from forebay.protocol.signatures.signing_key import SecretKey, sign, signing_key
from harness.reference_sigv4 import Secret
from security.signers import v2_signature

POLICY = "e30="
OWNER = Secret("owner/key", "owner-secret")
SECRET = SecretKey(OWNER.access, OWNER.secret)
V2 = {"policy": POLICY, "awsaccesskeyid": OWNER.access, "signature": v2_signature(OWNER, POLICY)}


def v4(service: str = "s3", date: str = "20261128", **changed: str) -> dict[str, str]:
    """The fields of a form, signed as its credential says."""
    fields = {
        "policy": POLICY,
        "x-amz-algorithm": "AWS4-HMAC-SHA256",
        "x-amz-credential": f"{OWNER.access}/{date}/us-east-1/{service}/aws4_request",
        "x-amz-date": "20261128T120000Z",
        "x-amz-signature": sign(signing_key(OWNER.secret, date, "us-east-1", service), POLICY),
    }
    return {**fields, **{name.replace("_", "-"): value for name, value in changed.items()}}


def code(fields: dict[str, str], secret: SecretKey = SECRET) -> str:
    try:
        verify_form_signature(read_form_claim(fields), secret)
    except S3Error as refused:
        return refused.code
    return ""


@pytest.mark.parametrize("fields", [V2, v4()], ids=["v2", "v4"])
def test_a_form_is_signed_by_its_key_and_secret(fields: dict[str, str]) -> None:
    assert has_form_claim(fields)
    assert code(fields) == ""
    assert code(fields, replace(SECRET, secret_key="other")) == "SignatureDoesNotMatch"
    assert code(fields, replace(SECRET, access_key="other")) == "InvalidAccessKeyId"
    assert code({**fields, "policy": "e31="}) == "SignatureDoesNotMatch"


@pytest.mark.parametrize("fields", [V2, v4()], ids=["v2", "v4"])
def test_a_token_must_match_the_secret(fields: dict[str, str]) -> None:
    temporary = replace(SECRET, session_token="a token")
    assert code({**fields, "x-amz-security-token": "a token"}, temporary) == ""
    assert code({**fields, "x-amz-security-token": "another"}, temporary) == "InvalidToken"
    assert code(fields, temporary) != ""
    assert code({**fields, "x-amz-security-token": "a token"}) == "InvalidToken"


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, "AccessDenied"),
        ({"x-amz-security-token": "t"}, "AccessDenied"),
        ({**V2, **v4()}, "InvalidArgument"),
        *(({name: value for name, value in fields.items() if name != left_out}, "InvalidArgument")
          for fields in (V2, v4()) for left_out in fields),
        ({**V2, "signature": ""}, "InvalidArgument"),
        (v4(x_amz_algorithm="AWS4-ECDSA-P256-SHA256"), "NotImplemented"),
        (v4(service="ec2"), "InvalidArgument"),
        (v4(date="20261127"), "InvalidArgument"),
        (v4(x_amz_date="20261128"), "InvalidArgument"),
        (v4(x_amz_date="20261128T250000Z"), "InvalidArgument"),
        (v4(x_amz_credential="owner/key"), "InvalidArgument"),
    ],
)  # fmt: skip
def test_a_claim_that_is_not_whole_is_refused(fields: dict[str, str], expected: str) -> None:
    assert code(fields) == expected
