"""What a forward request says of its body and of the multipart upload that it addresses."""

import pytest

from forebay.core.names import ObjectName, UploadKey
from harness.forward_requests import make_forward_request


@pytest.mark.parametrize(
    ("value", "length"), [("7", 7), ("0", 0), ("", None), ("-1", None), ("٧", None), ("1" * 19, None), ("7 ", None)]
)
def test_the_length_is_the_announced_one(value: str, length: int | None) -> None:
    assert make_forward_request("PUT", "/b/k", headers={"Content-Length": value}).length == length


@pytest.mark.parametrize(
    ("headers", "size"),
    [
        ({"Content-Length": "7"}, 7),
        ({"Content-Length": "47", "x-amz-decoded-content-length": "7"}, 47),
        ({"x-amz-decoded-content-length": "7"}, 7),
        ({"x-amz-decoded-content-length": "x"}, None),
        ({}, None),
    ],
)
def test_the_decoded_length_counts_where_there_is_no_other(headers: dict[str, str], size: int | None) -> None:
    assert make_forward_request("PUT", "/b/k", headers=headers, length=False).content_size == size


@pytest.mark.parametrize(
    ("query", "number"), [("7", 7), ("10000", 10000), ("", None), ("x", None), ("%D9%A7", None), ("100000", None)]
)
def test_a_malformed_part_number_is_none(query: str, number: int | None) -> None:
    forward = make_forward_request("PUT", f"/b/k?partNumber={query}&uploadId=u")
    assert (forward.part_number, forward.upload) == (number, UploadKey(ObjectName("b", "k"), "u"))


def test_parts_are_staged_under_a_name_no_object_has() -> None:
    names = {UploadKey(ObjectName("b", "k"), upload_id).staging_name for upload_id in ("u", "v")}
    assert len(names) == 2
    assert all(name.bucket == "b" and "\0" in name.key for name in names)
