"""The policy document of a form upload: what its signer allows a form to say.

    {"expiration": "2026-01-01T00:00:00Z",
     "conditions": [{"bucket": "b"}, ["eq", "$acl", "private"], ["starts-with", "$key", "user/"],
                    ["content-length-range", 0, 1048576]]}

Base64 of JSON. All conditions must hold, and every field of the form must be covered by one, except those that carry
the signature, the file itself, x-ignore-*, and checksums of the file, which only let less of it in (Ceph and its
s3-tests have it so, Amazon's page says nothing of them). The bucket counts as a field whether the form has it or not.
Names have no case, values do. What is not understood is refused.

`key` may be met as it was sent or with `${filename}` replaced: a signer who writes `${filename}` means any name.

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
# Amazon's page has a dollar escaped, which JSON does not know.
_ESCAPED_DOLLAR: Final = re.compile(r"(?<!\\)((?:\\\\)*)\\\$")
_MOMENT: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,6})?Z", re.ASCII)


@dataclass(frozen=True, slots=True)
class Equals:
    field: str
    value: str


@dataclass(frozen=True, slots=True)
class StartsWith:
    field: str
    prefix: str


@dataclass(frozen=True, slots=True)
class LengthRange:
    """Of the file, in bytes; both ends allowed."""

    least: int
    most: int


Condition: TypeAlias = Equals | StartsWith | LengthRange


@dataclass(frozen=True, slots=True)
class PostPolicy:
    """What the signer allows."""

    expires: float
    """Seconds since the epoch."""
    conditions: tuple[Condition, ...]

    def check(self, fields: Mapping[str, str], bucket: str, key: str, length: int, now: float) -> None:
        """Raises S3Error AccessDenied, EntityTooSmall or EntityTooLarge unless a form with these `fields` (lower-case
        names), for `key` with its file name filled in, and a file of `length` bytes is allowed at `now`."""
        if now > self.expires:
            raise S3Error("AccessDenied", "Invalid according to Policy: Policy expired.")
        if fields.get("bucket", bucket) != bucket:
            raise S3Error("AccessDenied", "Invalid according to Policy: the form names another bucket.")
        said = {**fields, "bucket": bucket}
        covered = {condition.field for condition in self.conditions if not isinstance(condition, LengthRange)}
        for name in said:
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
                    values = (said[field], key) if field == "key" and field in said else (said.get(field),)
                    if not any(_holds(condition, value) for value in values):
                        message = f"Invalid according to Policy: Policy Condition failed: {field}"
                        raise S3Error("AccessDenied", message)


def _holds(condition: Equals | StartsWith, value: str | None) -> bool:
    if isinstance(condition, StartsWith):
        return (value or "").startswith(condition.prefix)
    return value == condition.value


def read_policy(encoded: str) -> PostPolicy:
    """The policy of a form's field. Raises S3Error InvalidPolicyDocument."""
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
    return PostPolicy(_moment(expiration), tuple(_condition(given) for given in conditions))


def _moment(text: str) -> float:
    if not _MOMENT.fullmatch(text):
        raise _invalid("the expiration must be of the form YYYY-MM-DDTHH:MM:SSZ")
    try:
        return datetime.fromisoformat(text[:-1]).replace(tzinfo=UTC).timestamp()
    except ValueError:
        raise _invalid("the expiration is no moment") from None


def _condition(given: object) -> Condition:
    match given:
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
