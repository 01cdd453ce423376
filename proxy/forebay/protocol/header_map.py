"""Header fields: a case-insensitive multi-map in the order received (RFC 9110 section 5)."""

from typing import TypeAlias

from multidict import MultiMapping

from forebay.core.errors import S3Error

Headers: TypeAlias = MultiMapping[str]


def single(headers: Headers, name: str) -> str | None:
    """Returns the value of a header, trimmed; None if it is absent. Raises S3Error InvalidRequest if it is repeated."""
    values = headers.getall(name, ())
    if not values:
        return None
    if len(values) > 1:
        raise S3Error("InvalidRequest", f"The header {name} must be given once.")
    return values[0].strip(" \t")
