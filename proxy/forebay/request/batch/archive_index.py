"""The positions of members in archives: TARs of which batches read single files.

    member ──known of this version──> its span
           └──no──> the headers are read on, from where the last search ended, up to the member

An index is of one version of an archive, by its ETag. All indexes of a worker together have MAX_MEMBERS at most: the
ones that were used longest ago go first, and of an archive with more members the rest is searched each time.

Access is not decided here: the bytes of an archive come by `ReadArchive`, which is admitted as a GET is, and the
position of a member is of no use without its bytes.
"""

import asyncio
import copy
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple, TypeAlias

from forebay.core.byte_ranges import Span
from forebay.core.errors import S3Error
from forebay.core.names import ObjectName
from forebay.protocol.tar_scan import MalformedTar, TarScan

MAX_MEMBERS: Final = 100_000
"""The most members of all indexes; each takes some 250 bytes."""
OPENING: Final = 64 << 10
"""Bytes of the first read of an archive."""
_LARGE, _SMALL = 256 << 10, 4 << 10
"""Bytes of a further read: where it may have many headers, and where one read has shown that it has one."""


class ArchivePiece(NamedTuple):
    """The answer to the read of a span of an archive."""

    status: int
    etag: str
    size: int
    """The size of the whole archive."""
    content: bytes
    """The bytes, or the error document."""


ReadArchive: TypeAlias = Callable[[Span, str | None], Awaitable[ArchivePiece]]
"""Reads a span of the archive, of the version with this ETag. Raises ConnectionError if it breaks off."""


class LocatedMember(NamedTuple):
    """The position of a member in its archive."""

    etag: str
    """The ETag of the archive."""
    span: Span


class ArchiveRefused(Exception):
    """The archive can't be read: why, as the answer to its GET."""

    def __init__(self, piece: ArchivePiece) -> None:
        super().__init__(str(piece.status))
        self.piece = piece


class _Index:
    def __init__(self, archive: ObjectName, etag: str, size: int) -> None:
        self.archive = archive
        self.etag = etag
        self.size = size
        self.members: dict[str, Span] = {}
        self.scan = TarScan()
        self.lock = asyncio.Lock()


class ArchiveIndexes:
    """The indexes of one worker."""

    def __init__(self, max_members: int = MAX_MEMBERS) -> None:
        self._max_members = max_members
        self._indexes: OrderedDict[ObjectName, _Index] = OrderedDict()
        self.members = 0
        """The number of members of all indexes."""

    def known(self, archive: ObjectName, member: str) -> LocatedMember | None:
        """The span of a member, as far as it is known."""
        index = self._indexes.get(archive)
        span = index.members.get(member) if index is not None else None
        if index is None or span is None:
            return None
        self._indexes.move_to_end(archive)
        return LocatedMember(index.etag, span)

    def note(self, archive: ObjectName, member: str, located: LocatedMember) -> None:
        """Notes a span that is known from elsewhere."""
        index = self._indexes.get(archive)
        if index is None or index.etag != located.etag:
            index = self._renew(archive, located.etag, 0)
        self._indexes.move_to_end(archive)
        self._add(index, member, located.span)

    def forget(self, archive: ObjectName, etag: str) -> None:
        """Forgets a version of an archive, which may have been replaced."""
        index = self._indexes.get(archive)
        if index is not None and index.etag == etag:
            del self._indexes[archive]
            self.members -= len(index.members)

    async def find(self, archive: ObjectName, member: str, read: ReadArchive) -> LocatedMember:
        """The span of a member in the current version. Raises ArchiveRefused, S3Error NoSuchKey where it has no such
        member, InvalidRequest where it is no TAR, and ConnectionError."""
        opening = await read(Span(0, OPENING), None)
        if opening.status == 416:
            raise S3Error("InvalidRequest", f"{archive.key} is empty, and no TAR.")
        if opening.status != 206:
            raise ArchiveRefused(opening)
        index = self._indexes.get(archive)
        if index is None or index.etag != opening.etag:
            index = self._renew(archive, opening.etag, opening.size)
        index.size = opening.size
        self._indexes.move_to_end(archive)
        async with index.lock:
            try:
                return await self._search(index, member, opening, read)
            except MalformedTar as damage:
                raise S3Error("InvalidRequest", f"{archive.key}: {damage}.") from None

    async def _search(self, index: _Index, member: str, opening: ArchivePiece, read: ReadArchive) -> LocatedMember:
        scan, found, last = index.scan, index.members.get(member), 2
        while found is None and not scan.is_complete:
            if scan is index.scan and self._is_full(index):
                scan = copy.deepcopy(scan)  # what is behind is not kept
            start = scan.position
            if start + scan.needed > index.size:
                scan.end(index.size)
                continue
            stop = min(index.size, start + max(scan.needed, _LARGE if last > 1 else _SMALL))
            if start == 0 and scan.needed <= len(opening.content):
                content = opening.content
            else:
                piece = await read(Span(start, stop), index.etag)
                if piece.status != 206:
                    raise ArchiveRefused(piece)
                content = piece.content
                if len(content) < scan.needed:
                    raise ConnectionAbortedError("fewer bytes of an archive than were requested")
            members = scan.feed(content)
            last = len(members)
            for each in members:
                span = Span(each.offset, each.offset + each.size)
                if span.stop > index.size:
                    if found is not None:
                        break  # the next search says so
                    raise MalformedTar("it is cut short")
                if found is None and each.name == member:
                    found = span
                if scan is index.scan:
                    self._add(index, each.name, span)
        if found is None:
            raise S3Error("NoSuchKey", "The archive has no member of this name.", Key=member)
        return LocatedMember(index.etag, found)

    def _renew(self, archive: ObjectName, etag: str, size: int) -> _Index:
        old = self._indexes.pop(archive, None)
        if old is not None:
            self.members -= len(old.members)
        index = self._indexes[archive] = _Index(archive, etag, size)
        return index

    def _is_full(self, index: _Index) -> bool:
        """Whether there is no room for more members of an index, nor for those of one that was given up meanwhile."""
        return len(index.members) >= self._max_members or self._indexes.get(index.archive) is not index

    def _add(self, index: _Index, member: str, span: Span) -> None:
        if self._is_full(index) or member in index.members:
            return
        index.members[member] = span
        self.members += 1
        while self.members > self._max_members:  # of others: this one was used last
            _, oldest = self._indexes.popitem(last=False)
            self.members -= len(oldest.members)
