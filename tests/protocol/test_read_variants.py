"""Variants of plain reads that a cache can answer, and their response headers."""

import pytest
from multidict import CIMultiDict

from forebay.core.errors import S3Error
from forebay.protocol.operations import classify
from forebay.protocol.read_variants import ReadVariant
from forebay.protocol.target import parse_target


def variant(query: str, method: str = "GET", **headers: str) -> ReadVariant | None:
    fields = CIMultiDict({name.replace("_", "-"): value for name, value in headers.items()})
    operation = classify(method, parse_target(f"/b/k?{query}", "", []), fields)
    assert not operation.is_plain_read
    return operation.variant


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_version_id_and_overrides_make_a_variant(method: str) -> None:
    assert variant("versionId=v1", method) == ReadVariant("v1")
    assert variant("versionId=v1&x-id=GetObject", method, x_amz_checksum_mode="ENABLED") == ReadVariant("v1")
    found = variant("response-content-type=a%2Fb&response-expires=x&versionId=v", method)
    assert found == ReadVariant("v", (("Content-Type", "a/b"), ("Expires", "x")))


@pytest.mark.parametrize(
    "query",
    [
        "versionId=null", "versionId=", "versionId=a%20b", "partNumber=1", "versionId=v&partNumber=1", "unknown=1",
        "versionId=v&unknown=1", "response-content-type=", "response-content-type=%C3%BC", "response-unknown=1",
        "response-content-type=%20a", "acl&versionId=v", "tagging", "versionid=v", "Response-Content-Type=a",
    ],
)  # fmt: skip
def test_other_parameters_make_no_variant(query: str) -> None:
    assert variant(query) is None


@pytest.mark.parametrize("header", ["x_amz_request_payer", "x_amz_server_side_encryption_customer_key", "x_amz_new"])
def test_significant_header_makes_no_variant(header: str) -> None:
    assert variant("versionId=v", **{header: "x"}) is None


@pytest.mark.parametrize("method", ["PUT", "POST", "DELETE"])
def test_write_has_no_variant(method: str) -> None:
    assert variant("versionId=v&response-content-type=a", method) is None


@pytest.mark.parametrize("value", ["a%0D%0Ab", "a%0A", "%7F", "%01", "%E6%97%A5"])
def test_invalid_override_value_is_refused(value: str) -> None:
    with pytest.raises(S3Error) as refusal:
        variant(f"response-content-disposition={value}")
    assert refusal.value.code == "InvalidArgument"


def test_overrides_replace_the_objects_headers() -> None:
    fields = (("content-type", "old"), ("ETag", '"e"'), ("Content-Type", "older"))
    assert ReadVariant().overridden(fields) == fields
    assert ReadVariant(None, (("Content-Type", "new"),)).overridden(fields) == (
        ("ETag", '"e"'),
        ("Content-Type", "new"),
    )
