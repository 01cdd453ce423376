"""Headers as every floor sees them: case-insensitive, several values a name, in the order they came."""

from typing import TypeAlias

from multidict import MultiMapping

from forebay.core.errors import S3Error

Headers: TypeAlias = MultiMapping[str]


def single(headers: Headers, name: str) -> str | None:
    """The one value of a header, trimmed; None without it. S3Error InvalidRequest if it is given more than once."""
    values = headers.getall(name, ())
    if not values:
        return None
    if len(values) > 1:
        raise S3Error("InvalidRequest", f"The header {name} must be given once.")
    return values[0].strip(" \t")
