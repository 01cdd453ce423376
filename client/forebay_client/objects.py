"""Objects, as calls of the client library take and return them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from operator import index
from typing import TYPE_CHECKING, NamedTuple, SupportsIndex, TypeVar

from forebay_client.client_errors import ClientError, InvalidRequest

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer, WriteableBuffer

_Key = TypeVar("_Key")


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """The facts of one object, from a HEAD, a listing, or the acknowledgement of an upload.

    A listing knows neither content type nor metadata; an acknowledged upload no `last_modified`.
    """

    bucket: str
    key: str
    size: int
    """Bytes."""
    etag: str
    """The ETag as the server sent it, quotes included: the form that If-Match compares."""
    last_modified: datetime | None = None
    """The time of the last change, with its time zone, UTC; None: not known."""
    content_type: str | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)
    """The user's, without the prefix `x-amz-meta-`; names in lower case."""
    version_id: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    """All headers of the response, names in lower case; none for an object of a listing."""


@dataclass(frozen=True, slots=True)
class CommonPrefix:
    """A common prefix, which a listing with a delimiter shows in place of all keys that begin with it."""

    bucket: str
    prefix: str
    """Up to the delimiter, which it includes."""


class BatchKey(NamedTuple):
    """One read of a batch: an object, or a part of it."""

    key: str
    start: int = 0
    end: int | None = None
    """The byte after the last; None: to the end of the object, or of the member."""
    member: str | None = None
    """The name of a member of a TAR archive that `key` is; None: the object itself."""


@dataclass(slots=True)
class BatchItem:
    """The outcome of one read of a batch: either `data` or `error`."""

    index: int
    """Position of the key in the batch, from 0."""
    key: str
    data: memoryview | None = None
    error: ClientError | None = None

    def content(self) -> memoryview:
        """The bytes that were read. Raises the error where there is one."""
        if self.error is not None:
            raise self.error
        if self.data is None:
            raise ValueError("an item has data or an error")
        return self.data


def checked_key(key: str) -> str:
    """`key`, as it is. Raises TypeError for what is no text: without a key, a request would be one about the bucket."""
    if not isinstance(key, str):
        raise TypeError(f"a key is a str, not {type(key).__name__}")
    return key


def key_problem(key: str) -> str:
    """Returns the reason why no server can have such a key; empty: there is none."""
    if not key:
        return "the key of an object is not empty"
    if "\0" in key:
        return "a key has no NUL character"
    if not key.isascii():
        try:
            key.encode()
        except UnicodeEncodeError:
            return "the key has half of a surrogate pair"
    return ""


def bytes_of(data: "ReadableBuffer") -> memoryview:
    """The bytes of a buffer, without a copy. Raises TypeError for anything else, a text for instance."""
    return _bytes_of(data, "data is bytes")


def bytes_to_fill(buffer: "WriteableBuffer") -> memoryview:
    """The bytes of a writable buffer, without a copy. Raises ValueError for a read-only one, else as bytes_of."""
    view = _bytes_of(buffer, "buffer is a bytearray")
    if view.readonly:
        raise ValueError("the buffer is read-only")
    return view


def _bytes_of(data: "ReadableBuffer", wanted: str) -> memoryview:
    try:
        view = memoryview(data)
        if not view.nbytes:  # there is no cast of an array of several dimensions without elements
            return memoryview(b"" if view.readonly else bytearray())
        return view.cast("B")
    except TypeError:
        kind = "str: encode it first" if isinstance(data, str) else type(data).__name__
        raise TypeError(f"{wanted}, or another contiguous buffer; not {kind}{_gaps_of(data)}") from None


def _gaps_of(data: object) -> str:
    """Returns the end of a message about a buffer with gaps, or in another order than C's; else empty."""
    try:
        return "" if memoryview(data).c_contiguous else " that has gaps"  # type: ignore[arg-type] # that is the question
    except TypeError:
        return ""


def checked_bucket(bucket: str) -> str:
    """`bucket`, as it is. Raises InvalidRequest for what would be another bucket in a path, or none."""
    if not isinstance(bucket, str):
        raise TypeError(f"a bucket is a str, not {type(bucket).__name__}")
    if not bucket or "/" in bucket:
        raise InvalidRequest(f"a bucket is a name such as 'datasets', not {bucket!r}")
    return bucket


def index_of(position: SupportsIndex, name: str = "the position of a byte") -> int:
    """A byte's position as an int: JSON has no integers of numpy. Raises TypeError for anything but an integer.
    `name`: of another argument that is one."""
    try:
        return index(position)
    except TypeError:
        raise TypeError(f"{name} is an int, not {type(position).__name__}") from None


def end_of(position: SupportsIndex | None) -> int | None:
    """The same; None: the end of the object."""
    return None if position is None else index_of(position)


def checked_keys(keys: Iterable[_Key]) -> Iterable[_Key]:
    """`keys`, as they are. Raises TypeError for one text, whose characters would be taken for keys."""
    if isinstance(keys, str | bytes):
        raise TypeError("keys are a list, or whatever else yields keys; not one key")
    return keys
