"""What a listing of the origin says of an object."""

from typing import Final, NamedTuple

OPERATION: Final = "ListObjectsV2"


class ListedObject(NamedTuple):
    """One object of a listing. The ETag is as in a header, quotes included."""

    key: str
    size: int
    etag: str
