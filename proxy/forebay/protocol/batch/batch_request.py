"""The body of a batch: which objects are to be read, as JSON.

    {
      "keys": ["train/0001.jpg",                                   an object
               {"key": "train/0002.jpg", "start": 0, "end": 4096}, bytes of one, `end` excluded; either may be left out
               {"key": "shards/000.tar", "member": "0001.jpg"}],   a member of a TAR, or bytes of one
      "order": "listed",                                           or "arrival": as each is there
      "continue_on_error": true                                    false: the first failure ends the batch
    }

Strict, so that a misspelt field is no silent default: every problem is an S3Error that names the entry and the field.
The model is the GetBatch of AIStore, whose `coer` is `continue_on_error`, and whose `archpath` is `member`; `mime` is
always `.tar`, and names never carry the bucket (`onob`).

https://docs.nvidia.com/aistore/get_batch
"""

import json
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeGuard

from forebay.core.errors import S3Error
from forebay.core.names import MAX_KEY_BYTES

MAX_KEYS: Final = 10_000
MAX_BODY: Final = 16 << 20
"""Bytes of the JSON: as many of the longest keys as there may be."""
MAX_POSITION: Final = 1 << 62
"""No object has so many bytes."""
_FIELDS: Final = frozenset({"keys", "order", "continue_on_error"})
_ENTRY_FIELDS: Final = frozenset({"key", "start", "end", "member"})
_ORDERS: Final = {"listed": False, "arrival": True}


class BatchEntry(NamedTuple):
    """One object, or a part of it."""

    key: str
    start: int = 0
    end: int | None = None
    """Excluded; None: the last byte is included."""
    member: str | None = None
    """The member of the object, a TAR, whose bytes are meant."""

    @property
    def is_whole(self) -> bool:
        """Whether all of the object, or of its member, is meant."""
        return not self.start and self.end is None

    @property
    def entry_name(self) -> str:
        """The name of the entry in the TAR."""
        return self.key if self.member is None else f"{self.key}/{self.member}"


@dataclass(frozen=True, slots=True)
class BatchRequest:
    """A batch as its client sent it."""

    entries: tuple[BatchEntry, ...]
    as_they_come: bool = False
    """Whether the order of the TAR is that in which the objects are there, not that of `entries`."""
    continue_on_error: bool = True
    """Whether an unreadable entry gets a mark in the TAR; else it ends the batch."""


def parse_batch(body: bytes | bytearray) -> BatchRequest:
    """Parses the body of a batch. Raises S3Error."""
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        raise S3Error("InvalidRequest", "The body of a batch is a JSON object in UTF-8.") from None
    if not isinstance(document, dict):
        raise S3Error("InvalidRequest", "The body of a batch is a JSON object.")
    _check_fields(document, _FIELDS, "the batch")
    keys = document.get("keys")
    if not isinstance(keys, list):
        raise _invalid("keys", "must be a list of keys.")
    if len(keys) > MAX_KEYS:
        raise _invalid("keys", f"may have at most {MAX_KEYS} entries, and has {len(keys)}.")
    order, continues = document.get("order", "listed"), document.get("continue_on_error", True)
    if not isinstance(order, str) or order not in _ORDERS:
        raise _invalid("order", 'must be "listed" or "arrival".')
    if not isinstance(continues, bool):
        raise _invalid("continue_on_error", "must be true or false.")
    entries = [BatchEntry(each) if is_plain_name(each) else _entry(each, at) for at, each in enumerate(keys)]
    return BatchRequest(tuple(entries), _ORDERS[order], continues)


def batch_document(batch: BatchRequest) -> bytes:
    """The JSON of a batch, which `parse_batch` reads."""
    keys: list[str | dict[str, str | int]] = []
    for entry in batch.entries:
        if entry.member is None and entry.is_whole:
            keys.append(entry.key)
            continue
        fields: dict[str, str | int] = {"key": entry.key}
        if entry.start:
            fields["start"] = entry.start
        if entry.end is not None:
            fields["end"] = entry.end
        if entry.member is not None:
            fields["member"] = entry.member
        keys.append(fields)
    document: dict[str, object] = {"keys": keys}
    if batch.as_they_come:
        document["order"] = "arrival"
    if not batch.continue_on_error:
        document["continue_on_error"] = False
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()


def is_plain_name(value: object) -> TypeGuard[str]:
    """Whether a key needs no closer check, as most keys do not."""
    return isinstance(value, str) and value.isascii() and 0 < len(value) <= MAX_KEY_BYTES and "\0" not in value


def is_name(text: str) -> bool:
    """Whether a batch may contain this key or member name. The whole batch is refused otherwise."""
    try:
        return 0 < len(text.encode()) <= MAX_KEY_BYTES and "\0" not in text
    except UnicodeEncodeError:
        return False


def _entry(value: object, position: int) -> BatchEntry:
    where = f"keys[{position}]"
    if isinstance(value, str):
        return BatchEntry(_name(value, where))
    if not isinstance(value, dict):
        raise _invalid(where, "must be a key, or an object with one.")
    _check_fields(value, _ENTRY_FIELDS, where)
    key = _name(value.get("key"), f"{where}.key")
    start, end, member = value.get("start", 0), value.get("end"), value.get("member")
    start = _byte_position(start, f"{where}.start")
    if end is not None:
        end = _byte_position(end, f"{where}.end")
        if end <= start:
            raise _invalid(f"{where}.end", "must be above start: it is the first byte that is not read.")
    return BatchEntry(key, start, end, None if member is None else _name(member, f"{where}.member"))


def _name(value: object, where: str) -> str:
    if not isinstance(value, str) or not value:
        raise _invalid(where, "must be a text, and not empty.")
    if "\0" in value:
        raise _invalid(where, "has a NUL character.")
    try:
        size = len(value) if value.isascii() else len(value.encode())
    except UnicodeEncodeError:
        raise _invalid(where, "is not Unicode: it has half of a surrogate pair.") from None
    if size > MAX_KEY_BYTES:
        raise _invalid(where, f"may have at most {MAX_KEY_BYTES} bytes, and has {size}.")
    return value


def _byte_position(value: object, where: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= MAX_POSITION:
        raise _invalid(where, "must be a number of bytes, from 0 on.")
    return value


def _check_fields(value: dict[str, object], known: frozenset[str], where: str) -> None:
    unknown = value.keys() - known
    if unknown:
        raise _invalid(f"{where}: {min(unknown)[:100]!r}", f"is not known; known are {', '.join(sorted(known))}.")


def _invalid(where: str, problem: str) -> S3Error:
    return S3Error("InvalidArgument", f"{where} {problem}", ArgumentName=where)
