"""The reader of multipart/form-data bodies of S3's form uploads. Sans-IO, strict, bounded.

    --boundary CRLF                                             DELIMITER
    Content-Disposition: form-data; name="key" CRLF CRLF        HEADERS
    value CRLF                                                  VALUE, kept
    --boundary CRLF
    Content-Disposition: form-data; name="file"; filename="x" CRLF CRLF
    bytes CRLF                                                  FILE, returned as they arrive
    --boundary-- CRLF                                           END: the rest is ignored

- The bytes before the file are bounded by S3's 20 KB. Of the file, only a possible beginning of its end is buffered.
- As in S3, `file` is the last field that counts; later fields are skipped.
- Field names are case-insensitive and unique. Text is UTF-8.
- Strict: CRLF everywhere, no nested or encoded parts. A file that contains the boundary is refused: it has no defined
  end.

RFC 7578, RFC 2046 section 5.1.1, https://docs.aws.amazon.com/AmazonS3/latest/API/RESTObjectPOST.html
"""

import re
from enum import Enum, auto
from types import MappingProxyType
from typing import Final

from forebay.core.errors import S3Error

MOST_BEFORE_FILE: Final = 20 * 1024  # bytes

_BOUNDARY: Final = re.compile(r"[0-9A-Za-z'()+_,./:=? -]{0,69}[0-9A-Za-z'()+_,./:=?-]")
_PARAMETER: Final = re.compile(r';[ \t]*([A-Za-z*]+)[ \t]*=[ \t]*(?:"((?:[^"\\]|\\.)*)"|([^;\s"]+))[ \t]*')
_FILE: Final = "file"


class _State(Enum):
    DELIMITER = auto()
    HEADERS = auto()
    VALUE = auto()
    FILE = auto()
    END = auto()


def boundary_of(content_type: str) -> str | None:
    """The boundary of a multipart/form-data body; None for another type. Raises S3Error MalformedPOSTRequest."""
    kind, _, _ = content_type.partition(";")
    if kind.strip().lower() != "multipart/form-data":
        return None
    boundary = _parameters(content_type[len(kind) :]).get("boundary")
    if boundary is None or not _BOUNDARY.fullmatch(boundary):
        raise S3Error("MalformedPOSTRequest", "The content type must name the boundary of the form.")
    return boundary


class FormReader:
    """Reads one form. From `is_at_file` to `is_complete`, `feed` returns the bytes of the file."""

    def __init__(self, boundary: str) -> None:
        self._delimiter = f"\r\n--{boundary}".encode("ascii")
        # The first delimiter of a body has no CRLF before it, so one is put there.
        self._buffer = bytearray(b"\r\n")
        self._state = _State.DELIMITER
        self._fields: dict[str, str] = {}
        self._field_name = ""
        self._seen = 0
        self.fields = MappingProxyType(self._fields)
        """The fields before the file, by lower-case name."""
        self.filename = ""
        """The client's name of the file, without directories."""
        self.before_file = 0
        """Bytes of the body before the file."""

    @property
    def is_at_file(self) -> bool:
        """Whether all fields before the file have been read."""
        return self._state in {_State.FILE, _State.END}

    @property
    def is_complete(self) -> bool:
        """Whether the file has been read to its end."""
        return self._state is _State.END

    @property
    def usual_epilogue_size(self) -> int:
        """Bytes after the file if only the closing delimiter follows, as nearly all clients write it."""
        return len(self._delimiter) + len(b"--\r\n")

    def feed(self, data: bytes) -> bytes:
        """Parses the next bytes of the body and returns the bytes of the file among them, possibly none.

        Raises S3Error: MalformedPOSTRequest, MaxPostPreDataLengthExceeded, InvalidArgument.
        """
        if self._state is _State.END:
            return b""
        self._buffer += data
        self._seen += len(data)
        while not self.is_at_file and self._step():
            pass
        if self._state is _State.FILE:
            return self._file_bytes()
        if self._seen > MOST_BEFORE_FILE and not self.is_at_file:
            raise S3Error("MaxPostPreDataLengthExceeded")
        return b""

    def close(self) -> None:
        """Ends the body. Raises S3Error MalformedPOSTRequest if the form is not complete."""
        if self.is_complete:
            return
        raise S3Error("MalformedPOSTRequest", "The form ended within a field.")

    def _step(self) -> bool:
        """Parses one part of the form before the file; False if that needs more bytes."""
        match self._state:
            case _State.DELIMITER:
                return self._read_delimiter()
            case _State.HEADERS:
                return self._read_headers()
            case _State.VALUE:
                return self._read_value()
            case _:
                return False

    def _read_delimiter(self) -> bool:
        size = len(self._delimiter)
        if len(self._buffer) < size + 2:
            return False
        if not self._buffer.startswith(self._delimiter):
            raise _malformed("A boundary is missing.")
        following = bytes(self._buffer[size : size + 2])
        if following == b"--":
            raise S3Error("InvalidArgument", "A form upload needs exactly one file.", ArgumentName=_FILE)
        if following != b"\r\n":
            raise _malformed("A boundary is not followed by CRLF.")
        del self._buffer[:size]  # the CRLF stays, so that the headers end with an empty line even if there are none
        self._state = _State.HEADERS
        return True

    def _read_headers(self) -> bool:
        stop = self._buffer.find(b"\r\n\r\n")
        if stop < 0:
            self._check_bound(len(self._buffer))
            return False
        head = bytes(self._buffer[2:stop])
        del self._buffer[: stop + 4]
        self._check_bound(0)
        name, filename = _disposition(head)
        if name == _FILE:
            # Some browsers send the whole path.
            self.filename = re.split(r"[\\/]", filename or "")[-1]
            self.before_file = self._seen - len(self._buffer)
            self._state = _State.FILE
        elif name in self._fields:
            raise S3Error("InvalidArgument", "A field of the form was given more than once.", ArgumentName=name)
        else:
            self._field_name = name
            self._state = _State.VALUE
        return True

    def _read_value(self) -> bool:
        stop = self._buffer.find(self._delimiter)
        if stop < 0:
            self._check_bound(len(self._buffer))
            return False
        self._fields[self._field_name] = _text(bytes(self._buffer[:stop]))
        del self._buffer[:stop]
        self._check_bound(0)
        self._state = _State.DELIMITER
        return True

    def _check_bound(self, unparsed: int) -> None:
        if self._seen - len(self._buffer) + unparsed > MOST_BEFORE_FILE:
            raise S3Error("MaxPostPreDataLengthExceeded")

    def _file_bytes(self) -> bytes:
        stop = self._buffer.find(self._delimiter)
        size = len(self._delimiter)
        if stop < 0:
            length = max(0, len(self._buffer) - size + 1)  # the rest may be a part of the delimiter
        elif len(self._buffer) < stop + size + 2:
            length = stop
        else:
            if bytes(self._buffer[stop + size : stop + size + 2]) not in {b"--", b"\r\n"}:
                raise _malformed("The boundary occurs in the file.")
            length = stop
            self._state = _State.END
        piece = bytes(self._buffer[:length])
        del self._buffer[:length]
        if self._state is _State.END:
            self._buffer.clear()
        return piece


def _disposition(head: bytes) -> tuple[str, str | None]:
    """The lower-case name and the file name of one part, from its headers."""
    disposition = None
    for line in _text(head).split("\r\n"):
        name, _, value = line.partition(":")
        match name.strip().lower():
            case "content-disposition" if disposition is None:
                disposition = value.strip()
            case "content-disposition" | "content-transfer-encoding":
                raise _malformed("A field of the form is encoded, or has two names.")
            case _:
                pass
    disposition = disposition or ""
    kind, _, _ = disposition.partition(";")
    parameters = _parameters(disposition[len(kind) :])
    if kind.strip().lower() != "form-data" or not parameters.get("name"):
        raise _malformed("A field of the form has no name.")
    return parameters["name"].lower(), parameters.get("filename")


def _parameters(text: str) -> dict[str, str]:
    """The parameters of `; name="value"; ...` by lower-case name. Raises S3Error MalformedPOSTRequest."""
    found: dict[str, str] = {}
    position = 0
    while position < len(text):
        parameter = _PARAMETER.match(text, position)
        if parameter is None or parameter[1].lower() in found:
            raise _malformed("A parameter of a header is not well-formed, or given twice.")
        quoted, bare = parameter[2], parameter[3]
        # A backslash is literal except before a quote: file names of Windows contain them.
        found[parameter[1].lower()] = bare if quoted is None else quoted.replace('\\"', '"')
        position = parameter.end()
    return found


def _text(raw: bytes) -> str:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        raise _malformed("The form is not UTF-8.") from None


def _malformed(message: str) -> S3Error:
    return S3Error("MalformedPOSTRequest", message)
