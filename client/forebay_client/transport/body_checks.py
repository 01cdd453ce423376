"""What a response says of its body, compared with the body."""

import re
from typing import Final

from forebay_client.transport.object_request import ObjectRequest, ObjectResponse

_CONTENT_RANGE: Final = re.compile(r"bytes ([0-9]{1,19})-([0-9]{1,19})/([0-9]{1,19}|\*)")


def content_range(response: ObjectResponse) -> tuple[int, int] | None:
    """First byte of the Content-Range and the one after its last; None where there is none."""
    found = _CONTENT_RANGE.fullmatch(response.headers.get("content-range", ""))
    return (int(found[1]), int(found[2]) + 1) if found is not None else None


def is_corrupt(request: ObjectRequest, response: ObjectResponse) -> bool:
    """Whether the body of a success is certainly not the one that the server sent."""
    return False
