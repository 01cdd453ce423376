"""Authentication: the principal that signed a request. The only gate; it fails closed.

Every lane and every form of signature goes through `authenticate`, form uploads through `authenticate_form`. The
result is an argument of all that follows (forebay.request.admission).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple, assert_never

from forebay.core.errors import S3Error, access_denied
from forebay.origin.origin_identity import OriginIdentity
from forebay.policy.grants import Principal
from forebay.protocol.forms.form_signature import has_form_claim, read_form_claim, verify_form_signature
from forebay.protocol.forwarded_headers import SIGNATURE_QUERY
from forebay.protocol.header_map import Headers
from forebay.protocol.signatures.oss_claim import SIGNATURE_QUERY as OSS_SIGNATURE_QUERY
from forebay.protocol.signatures.oss_claim import ClaimOssV1, ClaimOssV2, ClaimOssV4
from forebay.protocol.signatures.oss_verification import verify_oss
from forebay.protocol.signatures.signing_key import SecretKey
from forebay.protocol.signatures.sigv2 import verify_v2
from forebay.protocol.signatures.sigv2_claim import ClaimV2
from forebay.protocol.signatures.sigv4 import verify_v4
from forebay.protocol.signatures.sigv4_claim import AnonymousClaim, ClaimV4, read_claim
from forebay.protocol.signatures.verified_signature import Signed
from forebay.protocol.target import Target

_TOKENS: Final = ("x-amz-security-token", "x-oss-security-token", "security-token")
_SIGNATURE_PARTS: Final = SIGNATURE_QUERY | OSS_SIGNATURE_QUERY | {"authorization"}


@dataclass(frozen=True, slots=True)
class Keyring:
    """The secret and the principal of each access key. Replaced whole when the configuration changes."""

    secrets: Mapping[str, SecretKey]
    principals: Mapping[str, Principal]
    open_principal: Principal | None = None
    """Open mode: the principal of every request. Signatures are not checked, only that no web page sent the request."""
    trusted_hosts: tuple[str, ...] = ()
    """Open mode: domains and CNAMEs that Host may equal or lie in, beside localhost and addresses."""
    origin_identities: Mapping[str, OriginIdentity] = field(default_factory=dict)
    """The principals, by id, that have their own credential at the origin, or ask it unsigned."""
    anonymous: Principal | None = None
    """The principal of requests that are not signed; None: they are denied."""

    def principal(self, principal_id: str) -> Principal | None:
        """Returns the principal with an id, among the configured ones."""
        for special in (self.open_principal, self.anonymous):
            if special is not None and special.id == principal_id:
                return special
        return self.principals.get(principal_id) if self.open_principal is None else None


class Proof(NamedTuple):
    """The principal of a request, and the verified signature that proves it (None in open mode, for forms, and for an
    anonymous request)."""

    principal: Principal
    signed: Signed | None


def authenticate(keyring: Keyring, method: str, target: Target, headers: Headers, now: float) -> Proof:
    """Verifies the signature of a request at `now` (seconds since the epoch).

    Raises S3Error. A request without any part of a signature is denied, but for open mode and where the configuration
    has grants for it; one with a wrong signature is never taken for one without.
    """
    if keyring.open_principal is not None:
        _refuse_web_pages(keyring.trusted_hosts, headers)
        return Proof(keyring.open_principal, None)
    claim = read_claim(target, headers)
    if isinstance(claim, AnonymousClaim):
        if keyring.anonymous is not None and not _has_part_of_signature(target, headers):
            return Proof(keyring.anonymous, None)
        raise access_denied("the request is not signed")
    secret = keyring.secrets.get(claim.access_key)
    if secret is None:
        # Each dialect has its own name for the key in an error document.
        name = "AWSAccessKeyId" if isinstance(claim, ClaimV4 | ClaimV2) else "OSSAccessKeyId"
        raise _unknown_key(name, claim.access_key)
    signed: Signed
    try:
        match claim:
            case ClaimV4():
                signed = verify_v4(claim, method, target, headers, secret, now)
            case ClaimV2():
                signed = verify_v2(claim, method, target, headers, secret, now)
            case ClaimOssV1() | ClaimOssV2() | ClaimOssV4():
                signed = verify_oss(claim, method, target, headers, secret, now)
            case _:
                assert_never(claim)
    except S3Error as refused:
        _log_key(refused, claim.access_key)
        raise
    return Proof(keyring.principals[claim.access_key], signed)


def authenticate_form(keyring: Keyring, headers: Headers, fields: Mapping[str, str]) -> Principal:
    """Verifies the signature of a form's policy by the form's fields (lower-case names).

    The policy's conditions are checked elsewhere (forebay.protocol.forms.post_policy). Raises S3Error; a form without
    a policy and any part of a signature is denied, as an anonymous request is.
    """
    if keyring.open_principal is not None:
        _refuse_web_pages(keyring.trusted_hosts, headers)
        return keyring.open_principal
    if keyring.anonymous is not None and not has_form_claim(fields):
        return keyring.anonymous
    claim = read_form_claim(fields)
    secret = keyring.secrets.get(claim.access_key)
    if secret is None:
        raise _unknown_key("AWSAccessKeyId", claim.access_key)
    try:
        verify_form_signature(claim, secret)
    except S3Error as refused:
        _log_key(refused, claim.access_key)
        raise
    return keyring.principals[claim.access_key]


def _unknown_key(element: str, access_key: str) -> S3Error:
    """The refusal of a key that is not configured. The log has its beginning alone: it may be a secret that stands
    where the key belongs."""
    unknown = S3Error(
        "InvalidAccessKeyId", f"The access key {access_key} does not exist here.", **{element: access_key}
    )
    unknown.log_reason = f"{access_key[:4] + '...'!r} is no key of auth.keys"
    return unknown


def _log_key(refused: S3Error, access_key: str) -> None:
    """Names a configured key, whose signature was refused, in the log."""
    if refused.log_reason is None:
        refused.log_reason = f"the request names the key {access_key}"


def _has_part_of_signature(target: Target, headers: Headers) -> bool:
    """Whether a request without a claim has a header or parameter that only signed requests have."""
    return any(name.lower() in _SIGNATURE_PARTS for name, _ in target.query) or any(name in headers for name in _TOKENS)


def _refuse_web_pages(hosts: tuple[str, ...], headers: Headers) -> None:
    """Refuses a request that a web page may have had a browser send. Raises S3Error AccessDenied.

    Open mode trusts this machine and its browsers, but not the pages in them. A page of another origin sends `Origin`
    with some requests, and has the browser send `Sec-Fetch-Site` with all; a page whose name was pointed at this
    machine after it was loaded (DNS rebinding) sends that name in `Host`. Forebay serves no pages: one of the same
    origin is an object that a browser was led to, so no request may open an object as a page (`navigate`).
    https://www.w3.org/TR/fetch-metadata/
    """
    name = headers.get("Host", "").rpartition("]")[2].partition(":")[0].lower()  # of an IPv6 literal nothing is left
    local = not name or name == "localhost" or name.endswith(".localhost") or name.replace(".", "").isdecimal()
    known = local or any(name == host or name.endswith(f".{host}") for host in hosts)
    by_page = "Sec-Fetch-Site" in headers and any(
        site.strip().lower() != "none" for site in headers.getall("Sec-Fetch-Site")
    )
    opens_page = "Sec-Fetch-Mode" in headers and any(
        mode.strip().lower() == "navigate" for mode in headers.getall("Sec-Fetch-Mode")
    )
    if "Origin" in headers or by_page or opens_page or not known:
        raise access_denied("open mode answers no web page, and no host name but this machine's")
