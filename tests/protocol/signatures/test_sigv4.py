"""Signature Version 4: Amazon's published examples, then each rule with its refusal."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from multidict import CIMultiDict

from forebay.core.errors import S3Error
from forebay.protocol.signatures.canonical_request import canonical_query
from forebay.protocol.signatures.signing_key import Scope, SecretKey, sign, signing_key, string_to_sign
from forebay.protocol.signatures.sigv4 import SignedV4, signed_text, verify_v4
from forebay.protocol.signatures.sigv4_claim import ClaimV4, read_claim
from forebay.protocol.signatures.sigv4_signing import sign_request
from forebay.protocol.target import Target, parse_target

SECRET = SecretKey("AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY")
NOW = datetime(2013, 5, 24, tzinfo=UTC).timestamp()
EMPTY = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
HOST = "examplebucket.s3.amazonaws.com"
DOMAINS = ["s3.amazonaws.com"]
PRESIGNED = (
    "/test.txt?X-Amz-Algorithm=AWS4-HMAC-SHA256"
    "&X-Amz-Credential=AKIAIOSFODNN7EXAMPLE%2F20130524%2Fus-east-1%2Fs3%2Faws4_request"
    "&X-Amz-Date=20130524T000000Z&X-Amz-Expires=86400&X-Amz-SignedHeaders=host"
    "&X-Amz-Signature=aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404"
)


def proved(
    method: str,
    raw: str,
    headers: CIMultiDict[str],
    *,
    secret: SecretKey = SECRET,
    now: float = NOW,
    domains: bool = True,
) -> SignedV4:
    target = parse_target(raw, headers["host"], DOMAINS if domains else [])
    claim = read_claim(target, headers)
    assert isinstance(claim, ClaimV4)
    return verify_v4(claim, method, target, headers, secret, now)


def example(signed_headers: str, signature: str, **more: str) -> CIMultiDict[str]:
    """Returns the headers of one of Amazon's examples."""
    headers = CIMultiDict({"Host": HOST, "x-amz-date": "20130524T000000Z", "x-amz-content-sha256": EMPTY})
    headers.update({name.replace("_", "-"): value for name, value in more.items()})
    headers["Authorization"] = (
        "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request, "
        f"SignedHeaders={signed_headers},Signature={signature}"
    )
    return headers


GET = example(
    "host;range;x-amz-content-sha256;x-amz-date",
    "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41",
    Range="bytes=0-9",
)


def ours(
    method: str = "GET",
    path: str = "/bucket/key",
    query: tuple[tuple[str, str], ...] = (),
    *,
    secret: SecretKey = SECRET,
    region: str = "us-east-1",
    service: str = "s3",
    **more: str,
) -> tuple[str, CIMultiDict[str]]:
    """Returns raw target and headers of a request that Forebay signed."""
    headers = CIMultiDict({name.replace("_", "-"): value for name, value in more.items()})
    added = sign_request(method, "localhost:9000", path, query, headers, EMPTY, secret, region, NOW, service)
    headers.update(added)
    headers["Host"] = "localhost:9000"
    return path + (f"?{canonical_query(query)}" if query else ""), headers


def refusal(*arguments: Any, **named: Any) -> S3Error:
    with pytest.raises(S3Error) as refused:
        proved(*arguments, **named)
    return refused.value


def test_amazons_get_object_example() -> None:
    signed = proved("GET", "/test.txt", GET)
    assert (signed.access_key, signed.form, signed.payload) == ("AKIAIOSFODNN7EXAMPLE", "header", EMPTY)
    assert signed.scope.text == "20130524/us-east-1/s3/aws4_request"


def test_amazons_put_object_example() -> None:
    headers = example(
        "date;host;x-amz-content-sha256;x-amz-date;x-amz-storage-class",
        "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd",
        Date="Fri, 24 May 2013 00:00:00 GMT",
        x_amz_storage_class="REDUCED_REDUNDANCY",
        x_amz_content_sha256="44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072",
    )
    # A dollar may be received escaped or not: its canonical form is escaped.
    proved("PUT", "/test$file.text", headers)
    proved("PUT", "/test%24file.text", headers)


@pytest.mark.parametrize(
    ("raw", "signature"),
    [
        ("/?lifecycle", "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"),
        ("/?max-keys=2&prefix=J", "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"),
        ("/?prefix=J&max-keys=2", "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"),
    ],
)
def test_amazons_bucket_examples(raw: str, signature: str) -> None:
    proved("GET", raw, example("host;x-amz-content-sha256;x-amz-date", signature))


def test_amazons_presigned_url_example() -> None:
    signed = proved("GET", PRESIGNED, CIMultiDict({"Host": HOST}), now=NOW + 86400)
    assert (signed.form, signed.payload) == ("query", "UNSIGNED-PAYLOAD")


def test_presigned_url_is_valid_only_within_its_time() -> None:
    late = refusal("GET", PRESIGNED, CIMultiDict({"Host": HOST}), now=NOW + 86401)
    assert (late.code, late.message) == ("AccessDenied", "Request has expired")
    early = refusal("GET", PRESIGNED, CIMultiDict({"Host": HOST}), now=NOW - 901)
    assert (early.code, early.message) == ("AccessDenied", "Request is not valid yet")
    proved("GET", PRESIGNED, CIMultiDict({"Host": HOST}), now=NOW - 900)


@pytest.mark.parametrize("skew", [901, -901])
def test_clock_skew_is_refused_with_details(skew: int) -> None:
    assert refusal("GET", "/test.txt", GET, now=NOW + skew).code == "RequestTimeTooSkewed"
    proved("GET", "/test.txt", GET, now=NOW + skew - skew // abs(skew))


def test_wrong_secret_is_refused() -> None:
    refused = refusal("GET", "/test.txt", GET, secret=replace(SECRET, secret_key="other"))
    assert refused.code == "SignatureDoesNotMatch"
    assert SECRET.secret_key not in str(refused.details)


def test_secret_of_another_key_is_never_tried() -> None:
    assert refusal("GET", "/test.txt", GET, secret=replace(SECRET, access_key="B")).code == "InvalidAccessKeyId"


@pytest.mark.parametrize(
    "signature", ["", "é" * 64, "0" * 64, "F0E8BDB87C964420E857BD35B5D6ED310BD44F0170ABA48DD91039C6036BDB41"]
)
def test_signature_that_is_not_hex_does_not_match(signature: str) -> None:
    headers = example("host;range;x-amz-content-sha256;x-amz-date", signature, Range="bytes=0-9")
    assert refusal("GET", "/test.txt", headers).code == "SignatureDoesNotMatch"


def test_unsigned_amz_header_is_refused() -> None:
    headers = GET.copy()
    headers["X-Amz-Copy-Source"] = "/bucket/key"
    refused = refusal("GET", "/test.txt", headers)
    assert (refused.code, refused.details["HeadersNotSigned"]) == ("AccessDenied", "x-amz-copy-source")
    presigned = refusal("GET", PRESIGNED, CIMultiDict({"Host": HOST, "x-amz-acl": "public-read"}))
    assert presigned.code == "AccessDenied"


def test_host_must_be_signed() -> None:
    refused = refusal("GET", "/test.txt", example("x-amz-content-sha256;x-amz-date", "0" * 64))
    assert (refused.code, refused.details["HeadersNotSigned"]) == ("AccessDenied", "host")


def test_removed_signed_header_is_not_an_empty_one() -> None:
    raw, headers = ours(x_note="")
    proved("GET", raw, headers)
    del headers["x-note"]
    assert refusal("GET", raw, headers).code == "SignatureDoesNotMatch"


@pytest.mark.parametrize("region", ["", "eu-central-1", "garage", "auto"])
def test_any_region_is_accepted(region: str) -> None:
    raw, headers = ours(region=region)
    assert proved("GET", raw, headers).scope.region == region


def test_another_service_is_refused() -> None:
    raw, headers = ours(service="sts")
    assert refusal("GET", raw, headers).code == "AuthorizationHeaderMalformed"


def test_credential_date_must_match_the_timestamp() -> None:
    headers = GET.copy()
    headers["Authorization"] = headers["Authorization"].replace("/20130524/", "/20130523/")
    assert refusal("GET", "/test.txt", headers).code == "AuthorizationHeaderMalformed"
    raw = PRESIGNED.replace("%2F20130524%2F", "%2F20130523%2F")
    assert refusal("GET", raw, CIMultiDict({"Host": HOST})).code == "AuthorizationQueryParametersError"


TEMPORARY = replace(SECRET, session_token="a token")


def test_session_token_must_match_the_secret() -> None:
    raw, headers = ours(secret=TEMPORARY)
    proved("GET", raw, headers, secret=TEMPORARY)
    assert refusal("GET", raw, headers, secret=replace(SECRET, session_token="another")).code == "InvalidToken"
    assert refusal("GET", raw, headers, secret=SECRET).code == "InvalidToken"
    raw, headers = ours()
    assert refusal("GET", raw, headers, secret=TEMPORARY).code == "InvalidAccessKeyId"


def test_token_is_checked_only_after_the_signature() -> None:
    raw, headers = ours(secret=TEMPORARY)
    other = replace(TEMPORARY, secret_key="other", session_token="another")
    assert refusal("GET", raw, headers, secret=other).code == "SignatureDoesNotMatch"


def test_escaped_slash_may_be_signed_as_a_slash() -> None:
    _, as_sent = ours(path="/bucket/a%2Fb")
    proved("GET", "/bucket/a%2fb", as_sent)
    _, as_slash = ours(path="/bucket/a/b")
    proved("GET", "/bucket/a%2Fb", as_slash)


def test_escaped_slash_needs_a_signature() -> None:
    for path in ("/bucket/other", "/bucket/a/other", "/bucket/a%2Fother"):
        _, headers = ours(path=path)
        assert refusal("GET", "/bucket/a%2Fb", headers).code == "SignatureDoesNotMatch"


def test_a_signed_header_covers_the_whole_query() -> None:
    """Also what a presigned URL leaves out, although read_claim refuses it here."""
    _, headers = ours()
    claim = read_claim(parse_target("/bucket/key", "", []), headers)
    assert isinstance(claim, ClaimV4)
    text = signed_text(claim, "GET", parse_target("/bucket/key?X-Amz-Signature=0", "", []), headers)
    assert "X-Amz-Signature=0" in text.first


def test_escaped_slash_never_moves_the_end_of_the_bucket() -> None:
    # parse_target refuses this target; if it ever accepted it, the signature would still not match.
    _, headers = ours(path="/bucket/key")
    target = Target("/bucket%2Fkey", "", "bucket/key", None, ())
    claim = read_claim(target, headers)
    assert isinstance(claim, ClaimV4)
    with pytest.raises(S3Error) as refused:
        verify_v4(claim, "GET", target, headers, SECRET, NOW)
    assert refused.value.code == "SignatureDoesNotMatch"


def test_signed_slash_does_not_match_an_escaped_percent() -> None:
    _, headers = ours(path="/bucket/a/b")
    assert refusal("GET", "/bucket/a%252Fb", headers).code == "SignatureDoesNotMatch"


def test_repeated_header_is_signed_as_one_value() -> None:
    raw, headers = ours(x_list="a,b c")
    del headers["x-list"]
    headers.add("X-List", " a ")
    headers.add("x-list", "b   c")
    proved("GET", raw, headers)
    headers.add("x-list", "d")
    assert refusal("GET", raw, headers).code == "SignatureDoesNotMatch"


@pytest.mark.parametrize(("in_query", "in_header"), [(True, False), (False, True)])
def test_payload_value_of_a_presigner_is_covered(in_query: bool, in_header: bool) -> None:
    query = [
        ("X-Amz-Algorithm", "AWS4-HMAC-SHA256"),
        *([("X-Amz-Content-Sha256", EMPTY)] if in_query else []),
        ("X-Amz-Credential", "AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request"),
        ("X-Amz-Date", "20130524T000000Z"),
        ("X-Amz-Expires", "60"),
        ("X-Amz-SignedHeaders", "host;x-amz-content-sha256" if in_header else "host"),
    ]
    line, name = (f"x-amz-content-sha256:{EMPTY}\n", ";x-amz-content-sha256") if in_header else ("", "")
    request = f"GET\n/bucket/key\n{canonical_query(query)}\nhost:localhost\n{line}\nhost{name}\n{EMPTY}"
    scope = Scope("20130524", "us-east-1", "s3")
    seal = sign(signing_key(SECRET.secret_key, *scope), string_to_sign("20130524T000000Z", scope, request))
    headers = CIMultiDict({"Host": "localhost", **({"x-amz-content-sha256": EMPTY} if in_header else {})})
    raw = f"/bucket/key?{canonical_query(query)}&X-Amz-Signature={seal}"
    assert proved("GET", raw, headers).payload == EMPTY
    assert refusal("GET", raw.replace(EMPTY, "UNSIGNED-PAYLOAD") + "0", headers).code == "SignatureDoesNotMatch"


def test_repr_of_claim_and_signature_omits_secrets() -> None:
    raw, headers = ours(secret=TEMPORARY)
    target = parse_target(raw, "", [])
    claim = read_claim(target, headers)
    assert isinstance(claim, ClaimV4)
    signed = verify_v4(claim, "GET", target, headers, TEMPORARY, NOW)
    shown = f"{claim} {signed!r} {TEMPORARY!r}"
    for secret in ("a token", SECRET.secret_key, signed.signature, repr(signed.signing_key), signed.signing_key.hex()):
        assert secret not in shown
    assert "AKIAIOSFODNN7EXAMPLE" in shown
