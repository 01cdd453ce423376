"""The policy document of a form upload: the conditions that its signer sets for the form.

    {"expiration": "2026-01-01T00:00:00Z",
     "conditions": [{"bucket": "b"}, ["eq", "$acl", "private"], ["starts-with", "$key", "user/"],
                    ["content-length-range", 0, 1048576]]}

- The document is base64 of JSON. An unknown condition is refused.
- All conditions must be met, and each field of the form must have a condition, except the fields of the signature, the
  file, x-ignore-*, and checksums of the file, which only restrict it further (as in Ceph and its s3-tests; Amazon's
  page does not mention them). The bucket counts as a field even if the form has none.
- Names are case-insensitive, values are not.
- `key` is compared both unchanged and with `${filename}` replaced: `${filename}` in a policy stands for any name.

https://docs.aws.amazon.com/AmazonS3/latest/API/sigv4-HTTPPOSTConstructPolicy.html
"""

import json
import re
from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, TypeAlias

from forebay.core.errors import S3Error

_UNCOVERED: Final = frozenset({"awsaccesskeyid", "file", "policy", "signature", "x-amz-signature"})
_IGNORED: Final = ("x-ignore-", "x-amz-checksum-")
# Amazon's page escapes a dollar, which JSON does not allow.
_ESCAPED_DOLLAR: Final = re.compile(r"(?<!\\)((?:\\\\)*)\\\$")
_TIMESTAMP: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,6})?Z", re.ASCII)


@dataclass(frozen=True, slots=True)
class Equals:
    """A field must have this value."""

    field: str
    value: str


@dataclass(frozen=True, slots=True)
class StartsWith:
    """A field must begin with this prefix."""

    field: str
    prefix: str


@dataclass(frozen=True, slots=True)
class LengthRange:
    """Bounds of the file's length in bytes, both inclusive."""

    least: int
    most: int


Condition: TypeAlias = Equals | StartsWith | LengthRange


@dataclass(frozen=True, slots=True)
class PostPolicy:
    """Expiration and conditions of a policy."""

    expires: float
    """Seconds since the epoch."""
    conditions: tuple[Condition, ...]

    def check(self, fields: Mapping[str, str], bucket: str, key: str, length: int, now: float) -> None:
        """Verifies that the policy allows a form with `fields` (lower-case names) at `now` (seconds since the epoch).

        `key`: the key with the file name filled in. `length`: bytes of the file. Raises S3Error AccessDenied,
        EntityTooSmall, EntityTooLarge.
        """
        if now > self.expires:
            raise S3Error("AccessDenied", "Invalid according to Policy: Policy expired.")
        if fields.get("bucket", bucket) != bucket:
            raise S3Error("AccessDenied", "Invalid according to Policy: the form names another bucket.")
        form = {**fields, "bucket": bucket}
        covered = {condition.field for condition in self.conditions if not isinstance(condition, LengthRange)}
        for name in form:
            if name not in covered and name not in _UNCOVERED and not name.startswith(_IGNORED):
                raise S3Error("AccessDenied", f"Invalid according to Policy: Extra input fields: {name}")
        for condition in self.conditions:
            match condition:
                case LengthRange(least, most):
                    if length < least:
                        raise S3Error("EntityTooSmall", MinSizeAllowed=str(least), ProposedSize=str(length))
                    if length > most:
                        raise S3Error("EntityTooLarge", MaxSizeAllowed=str(most), ProposedSize=str(length))
                case Equals(field) | StartsWith(field):
                    values = (form[field], key) if field == "key" and field in form else (form.get(field),)
                    if not any(_is_met(condition, value) for value in values):
                        message = f"Invalid according to Policy: Policy Condition failed: {field}"
                        raise S3Error("AccessDenied", message)


def _is_met(condition: Equals | StartsWith, value: str | None) -> bool:
    if isinstance(condition, StartsWith):
        return (value or "").startswith(condition.prefix)
    return value == condition.value


def read_policy(encoded: str) -> PostPolicy:
    """The policy in the field `policy` of a form. Raises S3Error InvalidPolicyDocument."""
    try:
        text = b64decode(encoded, validate=True).decode("utf-8")
        document = json.loads(_ESCAPED_DOLLAR.sub(r"\1$", text))
    except (Base64Error, ValueError, RecursionError):
        raise _invalid("it is not base64 of JSON") from None
    if not isinstance(document, dict):
        raise _invalid("it is not an object")
    expiration, conditions = document.get("expiration"), document.get("conditions")
    if not isinstance(expiration, str) or not isinstance(conditions, list):
        raise _invalid("it needs an expiration and a list of conditions")
    return PostPolicy(_timestamp(expiration), tuple(map(_condition, conditions)))


def _timestamp(text: str) -> float:
    if not _TIMESTAMP.fullmatch(text):
        raise _invalid("the expiration must be of the form YYYY-MM-DDTHH:MM:SSZ")
    try:
        return datetime.fromisoformat(text[:-1]).replace(tzinfo=UTC).timestamp()
    except ValueError:
        raise _invalid("the expiration is no moment") from None


def _condition(condition: object) -> Condition:
    match condition:
        case {**exact} if len(exact) == 1:
            ((name, value),) = exact.items()
            return Equals(_name(name), _value(value))
        case [str(operator), least, most] if operator.lower() == "content-length-range":
            return LengthRange(_size(least), _size(most))
        case [str(operator), str(variable), value] if variable.startswith("$"):
            match operator.lower():
                case "eq":
                    return Equals(_name(variable[1:]), _value(value))
                case "starts-with":
                    return StartsWith(_name(variable[1:]), _value(value))
                case _:
                    raise _invalid("an unknown condition")
        case _:
            raise _invalid("a condition that is not understood")


def _name(name: object) -> str:
    if not isinstance(name, str) or not name:
        raise _invalid("a condition without a field")
    return name.lower()


def _value(value: object) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)  # {"success_action_status": 201}
    raise _invalid("the value of a condition is no text")


def _size(value: object) -> int:
    text = _value(value)
    if not (text.isascii() and text.isdigit() and len(text) <= 18):
        raise _invalid("content-length-range needs two sizes")
    return int(text)


def _invalid(reason: str) -> S3Error:
    return S3Error("InvalidPolicyDocument", f"Invalid Policy: {reason}.")
