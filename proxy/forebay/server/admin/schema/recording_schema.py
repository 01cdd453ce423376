"""The requests and answers of the admin port about recordings (docs/recordings.md), as in admin_schema.

The operator sees recordings of all principals. Of several with one name, one that belongs to nobody is meant, then the
latest.
"""

from base64 import b64decode
from dataclasses import dataclass
from typing import Annotated, Final, TypeAlias

from forebay.core.recording_info import RecordingInfo
from forebay.server.admin.schema.admin_schema import check_concurrency
from forebay.server.admin.schema.warm_order import check_rate

PART_SIZE: Final = 1 << 20
"""Bytes of a recording in one answer."""
MAX_UPLOAD: Final = 56 << 20
"""Bytes of an upload's JSON: the largest recording in base64."""


def check_offset(value: object, name: str) -> int:
    """A position in a file, from a query: decimal digits."""
    text = str(value)
    if not text.isascii() or not text.isdecimal() or len(text) > 12:
        raise ValueError(f"{name!r} must be a whole number.")
    return int(text)


def check_content(value: object, name: str) -> str:
    """A file in base64."""
    try:
        if isinstance(value, str):
            b64decode(value, validate=True)
            return value
    except ValueError:
        pass
    raise ValueError(f"{name!r} is needed: the file in base64.")


Offset: TypeAlias = Annotated[int, check_offset]
Content: TypeAlias = Annotated[str, check_content]


@dataclass(frozen=True, slots=True)
class RecordingList:
    """GET /v1/recordings."""

    recordings: tuple[RecordingInfo, ...]
    """The oldest first."""


@dataclass(frozen=True, slots=True)
class RecordingPart:
    """GET /v1/recordings/{bucket}/{name}: a part of the file."""

    recording: RecordingInfo
    offset: int
    content: str
    """PART_SIZE bytes at most, in base64."""
    next: int | None
    """The `offset` of the following part; None: this is the last."""


@dataclass(frozen=True, slots=True)
class RecordingStored:
    """PUT /v1/recordings/{bucket}/{name}. An answer with a problem is sent as a refusal."""

    recording: RecordingInfo | None
    problem: str = ""
    """Why it is refused, and where."""


@dataclass(frozen=True, slots=True)
class ReplayOrder:
    """POST /v1/recordings/{bucket}/{name}/replay: warm what was read, in the recorded order."""

    rate: Annotated[int | None, check_rate] = None
    """Bytes a second; None: no bound."""
    concurrency: Annotated[int | None, check_concurrency] = None
    """Objects at once; None: the server's default."""


@dataclass(frozen=True, slots=True)
class RecordingRemoved:
    """DELETE /v1/recordings/{bucket}/{name}."""

    recording: RecordingInfo
