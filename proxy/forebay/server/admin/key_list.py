"""Lists of objects in the formats that users have, read as they arrive: POST /v1/lists.

    keys           a key a line, the whole of it, or a location: s3://bucket/key. A tab and a range of bytes may follow
                   (`0-1023`, `1024-`), as in a plan. Empty lines are skipped
    jsonl          a JSON value a line: a key, or an object with `key` (or `url`), and perhaps `bucket`, `size`, `range`
    csv            a header that names the same columns, in any order and case; other columns are ignored
    s3-inventory   the same without a header, its keys URL-encoded: a data file of S3 Inventory, or a manifest of S3
                   Batch Operations. The columns are `bucket,key`, or as in the `fileSchema` of manifest.json; versions
                   that are not the latest and delete markers are left out

https://docs.aws.amazon.com/AmazonS3/latest/userguide/storage-inventory-location.html

Nothing else is decoded or normalised. A line that can't be parsed ends the list, and is named by its number.
"""

import csv
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple, TypeAlias, get_args
from urllib.parse import unquote_plus

from forebay.core.errors import MalformedInput
from forebay.server.admin.schema.admin_schema import check_bucket, check_key
from forebay.server.admin.schema.warm_order import parse_object_url

ListFormat: TypeAlias = Literal["keys", "jsonl", "csv", "s3-inventory"]
MAX_LINE: Final = 64 << 10
"""Bytes: a key of 1,024 bytes, escaped, beside many columns."""
_INVENTORY_COLUMNS: Final = ("bucket", "key")
_RANGE: Final = re.compile(r"([0-9]{1,18})-([0-9]{1,18})?")
_NAMES: Final = {"url": "url", "uri": "url", "key": "key", "bucket": "bucket", "size": "size", "range": "range"}
_INVENTORY_NAMES: Final = {"islatest": "is_latest", "isdeletemarker": "is_delete_marker"}


class MalformedKeyList(MalformedInput):
    """A line of a list can't be parsed. `reason` is a sentence."""

    def __init__(self, line: int, reason: str) -> None:
        self.line, self.reason = line, reason
        super().__init__(f"Line {line}: {reason}")


class KeyListEntry(NamedTuple):
    """An object of a list, or a range of one."""

    bucket: str
    key: str
    size: int | None = None
    start: int = 0
    stop: int | None = None


@dataclass(frozen=True, slots=True)
class KeyList:
    """POST /v1/lists: the objects of a list. A job names the list by its id; one job uses it."""

    id: str
    objects: int


def check_format(value: object, name: str) -> ListFormat:
    """One of the formats."""
    for each in get_args(ListFormat):
        if value == each:
            found: ListFormat = each
            return found
    raise ValueError(f"{name!r} must be one of {', '.join(get_args(ListFormat))}.")


def check_columns(value: object, _name: str) -> tuple[str, ...]:
    """Names of columns, separated by commas, as in a manifest.json of S3 Inventory."""
    columns = tuple(each.strip().lower() for each in str(value).split(","))
    if "key" not in columns:
        raise ValueError("'columns' must name a column Key.")
    return columns


class KeyListReader:
    """Reads one list. `bucket`: of the keys that name none; empty if each must. Raises MalformedKeyList."""

    def __init__(self, list_format: ListFormat, bucket: str = "", columns: Sequence[str] = ()) -> None:
        self._bucket = bucket
        self._line = 0
        self._record_line = 1
        """The line in which the present record begins: a quoted field of CSV may hold line ends."""
        self._unread = b""
        self._record = ""
        self._format = list_format
        self._columns: tuple[str | None, ...] | None = None
        self._fields = 0
        """The fields of each line of an inventory whose columns are named; 0: any."""
        if list_format == "s3-inventory":
            names = _NAMES | _INVENTORY_NAMES
            self._fields = len(columns)
            self._columns = tuple(names.get(each) for each in columns or _INVENTORY_COLUMNS)

    def feed(self, data: bytes) -> list[KeyListEntry]:
        """Returns the objects of the lines that have ended."""
        *lines, self._unread = (self._unread + data).split(b"\n")
        found = [entry for line in lines for entry in self._read_line(line)]
        if len(self._unread) > MAX_LINE:
            raise MalformedKeyList(self._line + 1, f"it is longer than {MAX_LINE} bytes.")
        return found

    def close(self) -> list[KeyListEntry]:
        """The list has ended. Returns the object of a last line without an end."""
        found = list(self._read_line(self._unread)) if self._unread else []
        if self._record:
            raise MalformedKeyList(self._record_line, "its quotation mark is not closed.")
        return found

    def _read_line(self, raw: bytes) -> Iterator[KeyListEntry]:
        self._line += 1
        try:
            line = raw.removesuffix(b"\r").decode()
        except UnicodeDecodeError:
            raise MalformedKeyList(self._line, "it is not UTF-8.") from None
        if self._line == 1:
            line = line.removeprefix("\ufeff")  # as spreadsheets write it
        if not self._record:
            self._record_line = self._line
            if not (line if self._format == "keys" else line.strip()):
                return
        try:
            entry = self._read_record(line)
        except ValueError as error:
            raise MalformedKeyList(self._record_line, str(error)) from None
        if entry is not None:
            yield entry

    def _read_record(self, line: str) -> KeyListEntry | None:
        match self._format:
            case "keys":
                key, tab, tail = line.rpartition("\t")
                ranged = tab and _RANGE.fullmatch(tail)
                return self._entry({"key": key, "range": tail} if ranged else {"key": line})
            case "jsonl":
                return self._read_json(line)
            case _:
                return self._read_csv(line)

    def _read_json(self, line: str) -> KeyListEntry:
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            raise ValueError("it is not JSON.") from None
        if isinstance(value, str):
            return self._entry({"key": value})
        if not isinstance(value, dict):
            raise ValueError("it is neither a key nor an object.")
        fields = {_NAMES.get(str(name).lower(), ""): each for name, each in value.items() if each is not None}
        fields.pop("", None)
        wrong = [name for name, each in fields.items() if not isinstance(each, str | int) or isinstance(each, bool)]
        if wrong:
            raise ValueError(f"its {wrong[0]!r} is neither text nor a number.")
        return self._entry({name: str(each) for name, each in fields.items()})

    def _read_csv(self, line: str) -> KeyListEntry | None:
        self._record = f"{self._record}\n{line}" if self._record else line
        if self._record.count('"') % 2:
            if len(self._record) > MAX_LINE:
                raise ValueError("its quotation mark is not closed.")
            return None  # it goes on
        record, self._record = self._record, ""
        try:
            [cells] = csv.reader([record.replace("\n", "\0")], strict=True)
        except (ValueError, csv.Error):
            raise ValueError("it is not CSV.") from None
        cells = [cell.replace("\0", "\n") for cell in cells]
        if self._columns is None:
            self._columns = tuple(_NAMES.get(cell.strip().lower()) for cell in cells)
            if not {"key", "url"} & set(self._columns):
                raise ValueError("the header has neither a column 'key' nor a column 'url'.")
            return None
        if self._fields not in {0, len(cells)}:
            raise ValueError(f"its fields are {len(cells)}, and the columns named are {self._fields}.")
        fields = {name: cell for name, cell in zip(self._columns, cells, strict=False) if name is not None and cell}
        if self._format == "s3-inventory":
            if fields.pop("is_latest", "true") != "true" or fields.pop("is_delete_marker", "false") != "false":
                return None
            if "key" in fields:
                try:
                    fields["key"] = unquote_plus(fields["key"], errors="strict")
                except UnicodeDecodeError:
                    raise ValueError("its key is not UTF-8.") from None
        return self._entry(fields)

    def _entry(self, fields: Mapping[str, str]) -> KeyListEntry:
        text = fields.get("url") or fields.get("key")
        if not text:
            raise ValueError("it names no key.")
        is_raw = self._format == "s3-inventory"
        url = None if is_raw else parse_object_url(text)
        if url is not None:
            bucket, key = url
            if not key:
                raise ValueError(f"{text!r} is a bucket, and no key.")
        elif "url" in fields:
            raise ValueError(f"{text!r} is no location; one looks like s3://bucket/key.")
        else:
            bucket, key = fields.get("bucket", self._bucket), check_key(text, "key")
            if not bucket:
                raise ValueError("its key has no bucket: name a bucket, or write s3://bucket/key.")
            check_bucket(bucket, "bucket")
        size = fields.get("size")
        if size is not None and not (size.isascii() and size.isdecimal() and len(size) <= 18):
            raise ValueError(f"{size!r} is no size in bytes.")
        start, stop = _range(fields.get("range"))
        return KeyListEntry(bucket, key, int(size) if size is not None else None, start, stop)


def _range(text: str | None) -> tuple[int, int | None]:
    """The first byte, and the end behind the last one; None: of the object."""
    if text is None:
        return 0, None
    found = _RANGE.fullmatch(text.removeprefix("bytes="))
    if found is None:
        raise ValueError(f"{text!r} is no range of bytes; one looks like 0-1023 or 1024-.")
    start, last = int(found[1]), found[2]
    if last is not None and int(last) < start:
        raise ValueError(f"the range {text!r} ends before it begins.")
    return start, int(last) + 1 if last is not None else None
