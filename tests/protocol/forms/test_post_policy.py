"""POST policies: conditions are checked, every field needs one, unknown conditions are refused."""

import base64
import json

import pytest

from forebay.core.errors import S3Error
from forebay.protocol.forms.post_policy import read_policy

BUCKET = {"bucket": "b"}


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def code(conditions: object, fields: dict[str, str], now: float = 0.0, length: int = 5, key: str = "a/x") -> str:
    document = json.dumps({"expiration": "2020-01-01T00:00:00.000Z", "conditions": conditions})
    try:
        read_policy(encoded(document)).check(fields, "b", key, length, now)
    except S3Error as refusal:
        return refusal.code
    return ""


@pytest.mark.parametrize(
    ("conditions", "fields", "expected"),
    [
        ([BUCKET, {"key": "a/x"}], {"key": "a/x"}, ""),
        ([BUCKET, {"KEY": "a/x"}], {"key": "a/x"}, ""),
        ([BUCKET, ["EQ", "$Key", "a/x"]], {"key": "a/x"}, ""),
        ([BUCKET, ["starts-with", "$key", "a/"]], {"key": "a/${filename}"}, ""),
        ([BUCKET, {"key": "a/${filename}"}], {"key": "a/${filename}"}, ""),
        ([BUCKET, {"key": "a/x"}], {"key": "a/${filename}"}, ""),
        ([BUCKET, {"key": "a/X"}], {"key": "a/x"}, "AccessDenied"),
        ([BUCKET, {"key": "a/x"}], {}, "AccessDenied"),
        ([BUCKET, {"key": "a/x"}, {"acl": "a/x"}], {"key": "a/x", "acl": "private"}, "AccessDenied"),
        ([BUCKET, ["starts-with", "$key", "c"]], {"key": "a/x"}, "AccessDenied"),
        ([BUCKET, {"key": "a/x"}, {"acl": "private"}], {"key": "a/x"}, "AccessDenied"),
        ([BUCKET, {"key": "a/x"}, ["starts-with", "$acl", ""]], {"key": "a/x"}, ""),
        ([BUCKET, {"key": "a/x"}], {"key": "a/x", "acl": "private"}, "AccessDenied"),
        ([BUCKET, {"key": "a/x"}], {"key": "a/x", "x-amz-credential": "c"}, "AccessDenied"),
        ([BUCKET, {"key": "a/x"}], {"key": "a/x", "x-amz-signature": "s", "policy": "p", "x-ignore-a": "b"}, ""),
        ([BUCKET, {"key": "a/x"}], {"key": "a/x", "awsaccesskeyid": "s", "signature": "p", "file": "b"}, ""),
        ([BUCKET, {"key": "a/x"}], {"key": "a/x", "x-amz-checksum-crc32": "c"}, ""),
        (
            [BUCKET, {"key": "a/x"}, {"x-amz-checksum-crc32": "d"}],
            {"key": "a/x", "x-amz-checksum-crc32": "c"},
            "AccessDenied",
        ),
        ([BUCKET, {"key": "a/x"}], {"key": "a/x", "bucket": "c"}, "AccessDenied"),
        ([{"key": "a/x"}], {"key": "a/x"}, "AccessDenied"),
        ([BUCKET, {"key": "a/x"}, {"success_action_status": 201}], {"key": "a/x", "success_action_status": "201"}, ""),
        ([BUCKET, {"key": "a/x"}, ["content-length-range", 5, "5"]], {"key": "a/x"}, ""),
        ([BUCKET, {"key": "a/x"}, ["content-length-range", 6, 9]], {"key": "a/x"}, "EntityTooSmall"),
        ([BUCKET, {"key": "a/x"}, ["content-length-range", 0, 4]], {"key": "a/x"}, "EntityTooLarge"),
    ],
)
def test_conditions_decide_about_a_form(conditions: object, fields: dict[str, str], expected: str) -> None:
    assert code(conditions, fields) == expected


def test_a_policy_expires() -> None:
    end = 1577836800.0
    assert code([BUCKET, {"key": "a/x"}], {"key": "a/x"}, end) == ""
    assert code([BUCKET, {"key": "a/x"}], {"key": "a/x"}, end + 1) == "AccessDenied"


@pytest.mark.parametrize(
    "condition",
    [
        {}, {"a": "b", "c": "d"}, {"a": None}, {"a": ["b"]}, {"": "b"}, [], ["eq", "$a"], ["eq", "a", "b"], "eq", None,
        ["eq", "$a", "b", "c"], ["not", "$a", "b"], ["content-length-range", 0], ["content-length-range", -1, 5],
        ["content-length-range", "x", 5], ["content-length-range", 0, 1.5], ["content-length-range", True, 5],
        ["content-length-range", "²", 5], ["content-length-range", "٣", 5], ["content-length-range", 0, "9" * 5000],
        {"a": True},
    ],
)  # fmt: skip
def test_an_unknown_condition_is_refused(condition: object) -> None:
    assert code([BUCKET, {"key": "a/x"}, condition], {"key": "a/x"}) == "InvalidPolicyDocument"


@pytest.mark.parametrize(
    "text",
    [
        "", "x", "[]", "{}", '{"expiration": "2020-01-01T00:00:00Z"}',
        '{"EXPIRATION": "2020-01-01T00:00:00Z", "conditions": []}',
        '{"expiration": "2020-01-01", "conditions": []}', '{"expiration": "2020-13-01T00:00:00Z", "conditions": []}',
        '{"expiration": "2020-01-01T00:00:00", "conditions": []}',
        '{"expiration": "2020-01-01T00:00:00-09:00Z", "conditions": []}',
        '{"expiration": 1, "conditions": []}', '{"expiration": "2020-01-01T00:00:00Z", "conditions": {}}',
        "[" * 100_000,
    ],
)  # fmt: skip
def test_a_malformed_policy_is_refused(text: str) -> None:
    for field in (encoded(text), text):
        with pytest.raises(S3Error) as refusal:
            read_policy(field)
        assert refusal.value.code == "InvalidPolicyDocument"


def test_a_dollar_may_be_escaped_as_on_amazons_page() -> None:
    text = '{"expiration": "2020-01-01T00:00:00Z", "conditions": [{"bucket": "b"}, ["starts-with", "$key", "\\$a"]]}'
    read_policy(encoded(text)).check({"key": "$ab"}, "b", "$ab", 0, 0.0)
