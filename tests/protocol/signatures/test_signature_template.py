"""A signature template verifies what the full verifiers verify, and nothing else.

The requests are signed by the tests' own signers, in every version and form. Whole requests:
tests/properties/test_lane_equivalence.py.
"""

from typing import Final

import pytest
from multidict import CIMultiDict

from forebay.protocol.dates import format_timestamp
from forebay.protocol.header_map import Headers
from forebay.protocol.signatures import oss_canonical_request, oss_verification, sigv4
from forebay.protocol.signatures.canonical_request import SignedText
from forebay.protocol.signatures.credential_checks import MAX_SKEW
from forebay.protocol.signatures.oss_claim import ClaimOssV2, ClaimOssV4
from forebay.protocol.signatures.signature_template import SignatureTemplate, TemplateClaim, times_of
from forebay.protocol.signatures.signing_key import SecretKey, sign, signing_key, string_to_sign
from forebay.protocol.signatures.sigv4_claim import ClaimV4, read_claim
from forebay.protocol.target import Target, parse_target
from forebay.request.authentication import Keyring, authenticate
from harness.reference_sigv4 import Secret
from security.keyrings import GUEST, NOW, OWNER, keyring
from security.oss_signers import ALL_SIGNERS
from security.signers import ENDLESS, EXPIRES, Form, Pairs, form_name

RANGE: Final = ("Range", "bytes=0-9")
FORMS: Final = [form for form in ALL_SIGNERS if form != ("SignedOssV2", "query")]
KEYS: Final[Keyring] = keyring()


class Read:
    """A signed and parsed request."""

    def __init__(
        self,
        form: Form,
        path: str = "/bucket/key",
        pairs: Pairs = (),
        *,
        at: float = NOW,
        secret: Secret = OWNER,
        method: str = "GET",
    ) -> None:
        request = ALL_SIGNERS[form](secret, method, path, pairs, b"", at, None)
        self.method = method
        self.headers: Headers = CIMultiDict(request.pairs)
        self.target: Target = parse_target(request.target, self.headers["Host"], ())
        claim = read_claim(self.target, self.headers)
        assert isinstance(claim, TemplateClaim)
        self.claim, self.secret = claim, SecretKey(secret.access, secret.secret, secret.token)
        _, signed = authenticate(KEYS, method, self.target, self.headers, at)
        assert signed is not None
        self.text: SignedText = signed.text

    def form(self, *varying: str) -> SignatureTemplate:
        return SignatureTemplate(self.claim, self.method, self.target, self.headers, self.secret, varying)

    @property
    def values(self) -> list[bytes]:
        times = times_of(self.claim, self.headers)
        query = dict(self.target.query)
        return [(query[name] if self.claim.form == "query" else self.headers[name]).encode() for name in times]

    def is_verified_by(
        self, form: SignatureTemplate, now: float = NOW, *more: bytes, first: bytes | None = None
    ) -> bool:
        own, last = self.text.first.encode(), self.text.last.encode()
        signature = self.claim.signature.encode()
        return form.verifies(own if first is None else first, last, [*self.values, *more], signature, now)


@pytest.mark.parametrize("form", FORMS, ids=form_name)
@pytest.mark.parametrize("path", ["/bucket/key", "/bucket/%C3%A9%2Fb"])
def test_template_verifies_exactly_what_the_verifier_does(form: Form, path: str) -> None:
    for secret in (OWNER, GUEST):
        same = Read(form, "/bucket/first", secret=secret).form()
        other = Read(form, path, at=NOW + 5, secret=secret)
        assert other.is_verified_by(same)
        head = Read(form, path, at=NOW + 5, secret=secret, method="HEAD")
        assert head.is_verified_by(same)
        assert not other.is_verified_by(same, first=head.text.first.encode())
        elsewhere = Read(form, "/bucket/elsewhere", secret=secret)
        assert not same.verifies(
            elsewhere.text.first.encode(),
            elsewhere.text.last.encode(),
            other.values,
            other.claim.signature.encode(),
            NOW,
        )
        signature = other.claim.signature
        for wrong in (signature.swapcase(), signature[:-1], "", "0" * len(signature)):
            pieces = other.text.first.encode(), other.text.last.encode(), other.values
            assert not same.verifies(*pieces, wrong.encode(), NOW)
    assert not Read(form, path).is_verified_by(Read(form, path, secret=GUEST).form())


@pytest.mark.parametrize("form", FORMS, ids=form_name)
def test_varying_header_is_verified_if_signed(form: Form) -> None:
    first, other = Read(form, pairs=[RANGE]), Read(form, pairs=[("Range", "bytes=5-7")])
    same = first.form("range")
    covered = "Range" in {name.title() for name in _signed_names(first)}
    assert other.is_verified_by(same, NOW, b"bytes=5-7")
    assert other.is_verified_by(same, NOW, b"bytes=5-8") != covered
    assert other.is_verified_by(first.form()) != covered  # the range is fixed text


def _signed_names(read: Read) -> tuple[str, ...]:
    match read.claim:
        case ClaimV4():
            return read.claim.signed_headers
        case ClaimOssV2() | ClaimOssV4():
            return read.claim.additional
        case _:
            return ()


@pytest.mark.parametrize("form", FORMS, ids=form_name)
def test_time_bounds_are_checked_for_each_request(form: Form) -> None:
    read = Read(form)
    same = read.form()
    ends = EXPIRES if form[1] == "query" else MAX_SKEW
    moments = [(0, True), (ends, True), (ends + 1, False), (-MAX_SKEW, True)]
    moments.append((-MAX_SKEW - 1, form in ENDLESS))
    for offset, good in moments * 2:
        assert read.is_verified_by(same, NOW + offset) == good, offset
    for spoilt in (b"", b"\xff" * 16, b"20270115T08000xZ", b" " + read.values[0][1:], b"1", b"-1", b"1e9", b"9" * 11):
        values = [spoilt, *read.values[1:]]
        pieces = read.text.first.encode(), read.text.last.encode(), values, read.claim.signature.encode()
        assert not same.verifies(*pieces, NOW), spoilt


def is_verified_with(read: Read, now: float, *values: str) -> bool:
    """Whether its template verifies the same request of Version 4 with other times, which is signed as they are: with
    the right secret, under the credential as it was."""
    times, claim = dict(zip(times_of(read.claim, read.headers), values, strict=True)), read.claim
    assert isinstance(claim, ClaimV4 | ClaimOssV4)
    target, headers = read.target, read.headers
    if claim.form == "query":
        target = target._replace(query=tuple((name, times.get(name, value)) for name, value in target.query))
    else:
        headers = CIMultiDict((name, times.get(name.lower(), value)) for name, value in headers.items())
    if isinstance(claim, ClaimV4):
        text = sigv4.signed_text(claim, read.method, target, headers)
        key = signing_key(read.secret.secret_key, *claim.scope)
        signature = sign(key, string_to_sign(values[0], claim.scope, text.whole))
    else:
        text = oss_verification.signed_text(claim, read.method, target, headers)
        signature = oss_canonical_request.signature(read.secret.secret_key, values[0], claim.scope, text.whole)
    pieces = text.first.encode(), text.last.encode(), [value.encode() for value in values], signature.encode()
    return read.form().verifies(*pieces, now)


@pytest.mark.parametrize("form", [form for form in FORMS if "V4" in form[0] and form[1] == "query"], ids=form_name)
def test_url_with_invalid_expiry_is_rejected(form: Form) -> None:
    read = Read(form)
    stamp = read.values[0].decode()
    for expires in ("1", "604800"):
        assert is_verified_with(read, NOW, stamp, expires)
    for expires in ("0", "-5", "604801", "6e4", "+60", " 60", "6_0", "", "9" * 11):
        assert not is_verified_with(read, NOW, stamp, expires), expires


@pytest.mark.parametrize("form", [form for form in FORMS if "V4" in form[0]], ids=form_name)
def test_template_is_valid_for_one_day_only(form: Form) -> None:
    read = Read(form)
    stamp, *expires = (value.decode() for value in read.values)
    next_day = format_timestamp(NOW + 86_400)
    assert is_verified_with(read, NOW, stamp, *expires)
    assert not is_verified_with(read, NOW + 86_400, next_day, *expires)


@pytest.mark.parametrize("form", FORMS, ids=form_name)
def test_cached_signing_times_are_bounded(form: Form) -> None:
    read = Read(form)
    same = read.form()
    for second in range(3000):
        values = Read(form, at=NOW + second).values if second < 3 else [b"%d" % (10**9 + second), b"60"]
        if "V4" in form[0]:
            values[0] = f"20270115T{second // 3600:02}{second // 60 % 60:02}{second % 60:02}Z".encode()
        same.verifies(b"", b"", values, b"", NOW)
    assert len(same) <= 1024
    assert read.is_verified_by(same)


@pytest.mark.parametrize("form", FORMS, ids=form_name)
def test_only_a_path_alone_has_a_first_piece(form: Form) -> None:
    """A query, which the piece would leave out, is signed by no client that signed the path."""
    read = Read(form)
    same, of_header = read.form(), "V4" in form[0] and form[1] == "header"
    first = same.first_piece("GET", parse_target("/bucket/key", read.headers["Host"], ()))
    assert first == (read.text.first.encode() if of_header else None)
    for raw in ("/bucket/key?versionId=1", "/bucket/key?acl", "/bucket/key?response-content-type=text/html"):
        assert same.first_piece("GET", parse_target(raw, read.headers["Host"], ())) is None


def test_secret_longer_than_a_hash_block_is_hashed() -> None:
    secret = Secret("long", "s" * 200)
    keys = Keyring({"long": SecretKey("long", secret.secret)}, {"long": KEYS.principals[OWNER.access]})
    request = ALL_SIGNERS["SignedOssV1", "header"](secret, "GET", "/bucket/key", (), b"", NOW, None)
    headers = CIMultiDict(request.pairs)
    target = parse_target(request.target, headers["Host"], ())
    claim = read_claim(target, headers)
    assert isinstance(claim, TemplateClaim)
    _, signed = authenticate(keys, "GET", target, headers, NOW)
    assert signed is not None
    form = SignatureTemplate(claim, "GET", target, headers, keys.secrets["long"])
    arguments = [headers["Date"].encode()], claim.signature.encode(), NOW
    assert form.verifies(signed.text.first.encode(), signed.text.last.encode(), *arguments)


def test_ambiguous_request_has_no_template() -> None:
    with pytest.raises(ValueError, match="behind the object"):
        Read(("SignedOssV2", "query")).form()
    with pytest.raises(ValueError, match="form that repeats"):
        Read(("SignedV4", "header"), pairs=[("x-amz-meta-a", "~gap0~")]).form()
    undated = Read(("SignedV4", "header"))
    names = tuple(name for name in undated.claim.signed_headers if name != "x-amz-date")  # type: ignore[union-attr] # V4's
    undated.claim = undated.claim._replace(signed_headers=names)  # type: ignore[call-arg] # likewise
    with pytest.raises(ValueError, match="form that repeats"):
        undated.form()
