"""The signature of a form upload's policy: the claim in the fields, and its verification.

    policy, x-amz-algorithm, x-amz-credential, x-amz-date, x-amz-signature      Signature Version 4
    policy, AWSAccessKeyId, signature                                           Signature Version 2

The signature covers the encoded policy. The policy itself (forebay.protocol.forms.post_policy) decides which other
fields are allowed, and when it expires. Temporary credentials add x-amz-security-token.

https://docs.aws.amazon.com/AmazonS3/latest/API/sigv4-authentication-HTTPPOST.html
https://docs.aws.amazon.com/AmazonS3/latest/userguide/HTTPPOSTForms.html
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from forebay.core.errors import S3Error
from forebay.protocol.dates import epoch_seconds
from forebay.protocol.signatures.credential_checks import check_token, equals_in_constant_time
from forebay.protocol.signatures.signing_key import ALGORITHM, Scope, SecretKey, sign, signing_key
from forebay.protocol.signatures.sigv2 import sign_v2
from forebay.protocol.signatures.sigv4_claim import parse_credential

_V4: Final = ("x-amz-algorithm", "x-amz-credential", "x-amz-date", "x-amz-signature")
_V2: Final = ("awsaccesskeyid", "signature")


@dataclass(frozen=True, slots=True)
class FormClaim:
    """The signature fields of a form, before they are verified."""

    access_key: str
    policy: str = field(repr=False)
    """The encoded policy, unchanged."""
    signature: str = field(repr=False)
    scope: Scope | None
    """The scope of a Version 4 credential; None for Version 2."""
    security_token: str | None = field(repr=False)


def has_form_claim(fields: Mapping[str, str]) -> bool:
    """Whether a form has a policy, or any part of a signature; its fields by lower-case name."""
    return any(name in fields for name in ("policy", "x-amz-security-token", *_V4, *_V2))


def read_form_claim(fields: Mapping[str, str]) -> FormClaim:
    """The claim of a form, from its fields by lower-case name.

    Raises S3Error AccessDenied (no signature), InvalidArgument, NotImplemented.
    """
    has_v4, has_v2 = any(name in fields for name in _V4), any(name in fields for name in _V2)
    policy = fields.get("policy")
    if policy is None and not has_v4 and not has_v2:
        raise S3Error("AccessDenied")
    if has_v4 and has_v2:
        raise _invalid("Only one way of signing is allowed.", "signature")
    for name in ("policy", *(_V2 if has_v2 else _V4)):
        if not fields.get(name):
            raise _invalid(f"Bucket POST must contain a field named '{name}'.", name)
    policy, token = fields["policy"], fields.get("x-amz-security-token")
    if has_v2:
        return FormClaim(fields["awsaccesskeyid"], policy, fields["signature"], None, token)
    if fields["x-amz-algorithm"] != ALGORITHM:
        raise S3Error("NotImplemented", f"x-amz-algorithm must be {ALGORITHM}.")
    access_key, scope = parse_credential(fields["x-amz-credential"], "InvalidArgument")
    try:
        epoch_seconds(fields["x-amz-date"])
    except ValueError:
        raise _invalid("x-amz-date must be of the form YYYYMMDDTHHMMSSZ.", "x-amz-date") from None
    if fields["x-amz-date"][:8] != scope.date or scope.service != "s3":
        raise _invalid("The credential is not of the form's date and service.", "x-amz-credential")
    return FormClaim(access_key, policy, fields["x-amz-signature"], scope, token)


def verify_form_signature(claim: FormClaim, secret: SecretKey) -> None:
    """Verifies that the policy was signed with `secret`.

    Raises S3Error InvalidAccessKeyId, SignatureDoesNotMatch, InvalidToken.
    """
    if claim.access_key != secret.access_key:
        raise S3Error("InvalidAccessKeyId")
    if claim.scope is None:
        expected = sign_v2(secret.secret_key, claim.policy)
    else:
        scope = claim.scope
        key = signing_key(secret.secret_key, scope.date, scope.region, scope.service)
        expected = sign(key, claim.policy)
    if not equals_in_constant_time(expected, claim.signature):
        raise S3Error("SignatureDoesNotMatch", AWSAccessKeyId=claim.access_key)
    check_token(claim.security_token, secret)


def _invalid(message: str, name: str) -> S3Error:
    return S3Error("InvalidArgument", message, ArgumentName=name)
