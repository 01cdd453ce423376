"""Reads a member of a TAR archive if the server can't extract it: the archive is read up to the member.

The archive is streamed and dropped; it ends with the connection once the member is there. For many members of one
archive read the archive. Members are found as Forebay finds them (forebay.protocol.tar_scan).
"""

from typing import Final

from forebay.protocol.tar_scan import MalformedTar, TarMember, TarScan
from forebay_client.client_errors import BodyCorrupt, error_of_response
from forebay_client.objects import BatchKey
from forebay_client.transport.error_document import request_id_of
from forebay_client.transport.object_request import BodyInterrupted, BodyStream, ObjectRequest, SendRequest

_PIECE: Final = 256 << 10


def read_member(send: SendRequest, bucket: str, key: BatchKey) -> memoryview:
    """The bytes of `key.member`, or of the range of it. Raises ObjectNotFound where the archive has no such member,
    InvalidRequest where it is no TAR, and the other ClientErrors."""
    response = send(ObjectRequest("GET", bucket, key.key, is_streamed=True))
    if response.stream is None:
        raise BodyCorrupt("the archive has no body", bucket=bucket, key=key.key)
    archive = _Archive(response.stream)
    try:
        member = _found(archive, key.member)
        if member is None:
            problem = f"the archive has no member {key.member!r}"
            raise error_of_response(404, "NoSuchKey", problem, bucket, key.key, request_id_of(response))
        size = response.headers.get("content-length", "")
        if size.isdecimal() and member.offset + member.size > int(size):
            raise MalformedTar("it is cut short")
        stop = member.size if key.end is None else min(key.end, member.size)
        if key.start >= member.size and (key.start or key.end is not None):
            problem = "the range begins behind the member"
            raise error_of_response(416, "InvalidRange", problem, bucket, key.key, request_id_of(response))
        data = memoryview(bytearray(max(0, stop - key.start)))
        archive.read_into(member.offset + key.start, data)
        return data.toreadonly()
    except BodyInterrupted as error:
        raise BodyCorrupt(f"the archive broke off: {error}", bucket=bucket, key=key.key) from error
    except MalformedTar as error:  # as Forebay says it
        problem = f"no whole TAR: {error}"
        raise error_of_response(400, "InvalidRequest", problem, bucket, key.key, request_id_of(response)) from error
    finally:
        response.stream.close()


def _found(archive: "_Archive", name: str | None) -> TarMember | None:
    """The first member of this name. Raises MalformedTar, BodyInterrupted."""
    scan = TarScan()
    while not scan.is_complete:
        position, needed = scan.position, scan.needed
        content = archive.at(position, needed)
        if archive.size == 0:
            raise MalformedTar("it is empty")
        member = next((each for each in scan.feed(content) if each.name == name), None)
        if member is not None:
            return member
        if len(content) < needed:
            scan.end(archive.size if archive.size is not None else position + len(content))
    return None


class _Archive:
    """A body that is read forward, with a buffer of bytes read ahead."""

    def __init__(self, stream: BodyStream) -> None:
        self._stream = stream
        self._start = 0
        """The position of the held bytes."""
        self._held = b""
        self._buffer = memoryview(bytearray(_PIECE))
        self.size: int | None = None
        """Bytes of all of it, once its end was read."""

    def at(self, position: int, count: int) -> bytes:
        """Returns the held bytes from `position` on: `count` at least, fewer only at the end. Raises
        BodyInterrupted."""
        self._drop(position)
        while len(self._held) < count and (piece := self._receive(_PIECE)):
            self._held += piece
        return self._held

    def read_into(self, position: int, target: memoryview) -> None:
        """Fills `target` with the bytes from `position` on. Raises BodyInterrupted, MalformedTar at the end."""
        self._drop(position)
        done = min(len(target), len(self._held))
        target[:done] = self._held[:done]
        while done < len(target):
            count = self._stream.readinto(target[done:])
            if not count:
                raise MalformedTar("it is cut short")
            done += count

    def _drop(self, position: int) -> None:
        ahead = min(position - self._start, len(self._held))
        self._start, self._held = self._start + ahead, self._held[ahead:]
        while self._start < position and (piece := self._receive(min(_PIECE, position - self._start))):
            self._start += len(piece)

    def _receive(self, most: int) -> bytes:
        count = self._stream.readinto(self._buffer[:most])
        if not count and self.size is None:
            self.size = self._start + len(self._held)
        return bytes(self._buffer[:count])
