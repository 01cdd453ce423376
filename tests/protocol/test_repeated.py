"""That a form verifies what sigv4 verifies, and nothing else. Whole requests: tests/properties/test_lanes_alike.py."""

import pytest
from multidict import CIMultiDict

from forebay.protocol.claims import Claim, read_claim
from forebay.protocol.proving import MAX_SKEW
from forebay.protocol.repeated import SignedForm, start_of
from forebay.protocol.secretkey import SecretKey
from forebay.protocol.sigv4 import verify
from forebay.protocol.target import Target, parse_target
from harness.clients import RawClient
from harness.reference_sigv4 import Secret

NOW = 1_800_000_000.0
SECRET = Secret("owner", "the secret")
RANGE = ("Range", "bytes=0-9")


def signed(
    target: str, pairs: list[tuple[str, str]], at: float = NOW
) -> tuple[Claim, Target, "CIMultiDict[str]", str, str]:
    """Claim, target, headers, time and signature of a request that botocore signed."""
    request = RawClient("http://forebay:9000", SECRET, clock=lambda: at).sign("GET", target, pairs)
    headers = CIMultiDict(request.pairs)
    parsed = parse_target(target, headers["Host"], ())
    claim = read_claim(parsed, headers)
    assert isinstance(claim, Claim)
    return claim, parsed, headers, claim.timestamp, claim.signature


def form(pairs: list[tuple[str, str]]) -> SignedForm:
    claim, target, headers, _, _ = signed("/bucket/first", pairs)
    proof = verify(claim, "GET", target, headers, SecretKey("owner", "the secret"), NOW)
    return SignedForm(claim, proof, headers, {"range"})


@pytest.mark.parametrize("target", ["/bucket/key", "/bucket/%C3%A9%2Fb?x-id=GetObject&a="])
def test_a_form_verifies_what_was_signed_in_it(target: str) -> None:
    for pairs, values in (([], []), ([RANGE], [b"bytes=5-7"])):
        asked = [("Range", "bytes=5-7")] if pairs else []
        _, parsed, _, timestamp, signature = signed(target, asked, NOW + 5)
        given = (start_of("GET", parsed), timestamp.encode(), values, signature.encode())
        assert form(pairs).holds(*given, now=NOW)
        assert not form(pairs).holds(start_of("HEAD", parsed), *given[1:], now=NOW)
        assert not form(pairs).holds(*given[:3], signature.upper().encode(), now=NOW)
        assert not form(pairs).holds(*given[:3], b"0" * 64, now=NOW)
        assert not form([("x-amz-meta-a", "b"), *pairs]).holds(*given, now=NOW)
    assert not form([RANGE]).holds(*given[:2], [b"bytes=5-8"], given[3], now=NOW)


def test_the_time_is_judged_each_time() -> None:
    same = form([])
    _, target, _, timestamp, signature = signed("/bucket/key", [])
    given = (start_of("GET", target), timestamp.encode(), (), signature.encode())
    for offset, good in ((0, True), (MAX_SKEW, True), (MAX_SKEW + 1, False), (-MAX_SKEW, True), (-MAX_SKEW - 1, False)):
        assert same.holds(*given, now=NOW + offset) == good
    assert not same.holds(given[0], b"20270115T08000xZ", (), given[3], now=NOW)
    assert not same.holds(given[0], b"\xff" * 16, (), given[3], now=NOW)


def test_another_day_has_another_key() -> None:
    _, target, _, timestamp, signature = signed("/bucket/key", [], NOW + 86_400)
    assert not form([]).holds(start_of("GET", target), timestamp.encode(), (), signature.encode(), now=NOW + 86_400)


def test_many_seconds_are_not_all_remembered() -> None:
    same = form([])
    _, target, _, timestamp, signature = signed("/bucket/key", [])
    for second in range(3000):
        same.holds(
            b"", f"20270115T{second // 3600:02}{second // 60 % 60:02}{second % 60:02}Z".encode(), (), b"", now=NOW
        )
    assert len(same) <= 1024
    assert same.holds(start_of("GET", target), timestamp.encode(), (), signature.encode(), now=NOW)


def test_what_is_not_signed_by_header_and_date_has_no_form() -> None:
    claim, target, headers, _, _ = signed("/bucket/first", [])
    proof = verify(claim, "GET", target, headers, SecretKey("owner", "the secret"), NOW)
    for other in (claim._replace(form="query"), claim._replace(signed_headers=("host",))):
        with pytest.raises(ValueError, match="form that repeats"):
            SignedForm(other, proof, headers, ())
