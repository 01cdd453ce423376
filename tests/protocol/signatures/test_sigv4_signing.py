"""Signing of requests to the origin. Compared with botocore in tests/properties/test_signatures_against_botocore.py."""

import pytest

from forebay.protocol.signatures.canonical_request import canonical_query, encode_path
from forebay.protocol.signatures.signing_key import SecretKey
from forebay.protocol.signatures.sigv4_signing import sign_request

SECRET = SecretKey("AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY")
NOW = 1369353600.5
EMPTY = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
HOST = "examplebucket.s3.amazonaws.com"


def test_amazons_get_object_example() -> None:
    added = sign_request("GET", HOST, "/test.txt", (), {"Range": "bytes=0-9"}, EMPTY, SECRET, "us-east-1", NOW)
    assert added == {
        "x-amz-date": "20130524T000000Z",
        "x-amz-content-sha256": EMPTY,
        "authorization": "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request, "
        "SignedHeaders=host;range;x-amz-content-sha256;x-amz-date, "
        "Signature=f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41",
    }


def test_amazons_list_objects_example_in_any_query_order() -> None:
    query = [("prefix", "J"), ("max-keys", "2")]
    added = sign_request("GET", HOST, "/", query, {}, EMPTY, SECRET, "us-east-1", NOW)
    assert added["authorization"].endswith("34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7")
    assert canonical_query(query) == "max-keys=2&prefix=J"


def test_session_token_is_sent_and_signed() -> None:
    temporary = SecretKey("AK", "secret", "token")
    added = sign_request("GET", HOST, "/k", (), {}, EMPTY, temporary, "us-east-1", NOW)
    assert added["x-amz-security-token"] == "token"
    assert "x-amz-security-token," in added["authorization"]


def test_session_token_is_signed_trimmed() -> None:
    # A receiver trims header values, so the canonical request does so, too.
    bare, blank = (
        sign_request("GET", HOST, "/k", (), {}, EMPTY, SecretKey("AK", "secret", token), "us-east-1", NOW)
        for token in ("token", "token ")
    )
    assert bare["authorization"] == blank["authorization"]


def test_transport_headers_are_not_signed() -> None:
    plain = sign_request("GET", HOST, "/k", (), {}, EMPTY, SECRET, "us-east-1", NOW)
    headers = {"User-Agent": "forebay", "Expect": "100-continue", "Transfer-Encoding": "chunked", "Connection": "close"}
    assert sign_request("GET", HOST, "/k", (), headers, EMPTY, SECRET, "us-east-1", NOW) == plain


@pytest.mark.parametrize(
    "name", ["Authorization", "X-Amz-Date", "X-Amz-Security-Token", "Host", "x-amz-content-sha256"]
)
def test_headers_of_another_signature_are_rejected(name: str) -> None:
    with pytest.raises(ValueError, match=name.lower()):
        sign_request("GET", HOST, "/k", (), {name: "x"}, EMPTY, SECRET, "us-east-1", NOW)


def test_keys_are_encoded_by_s3_rules() -> None:
    assert encode_path("bucket/a b/+&=$ü~/../x//%2F") == "bucket/a%20b/%2B%26%3D%24%C3%BC~/../x//%252F"
