import io
import tarfile
from itertools import pairwise

import pytest

from forebay.core.byte_ranges import Span
from forebay.core.errors import S3Error
from forebay.core.names import ObjectName
from forebay.request.batch.archive_index import ArchiveIndexes, ArchivePiece, LocatedMember, ReadArchive

FIRST, SECOND = ObjectName("bucket", "1.tar"), ObjectName("bucket", "2.tar")


def archive(names: list[str], size: int = 10) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as tar:
        for name in names:
            information = tarfile.TarInfo(name)
            information.size = size
            tar.addfile(information, io.BytesIO(bytes(size)))
    return file.getvalue()


def reader(content: bytes, reads: list[Span], etag: str = '"1"') -> ReadArchive:
    async def read(span: Span, _etag: str | None) -> ArchivePiece:
        reads.append(span)
        return ArchivePiece(206, etag, len(content), content[span.start : span.stop])

    return read


async def test_a_search_goes_on_where_the_last_one_ended() -> None:
    names, reads = [f"{number:05}" for number in range(2000)], list[Span]()
    content = archive(names)
    indexes, read = ArchiveIndexes(), reader(content, reads)
    assert (await indexes.find(FIRST, "00010", read)).span.start == 10 * 1024 + 512
    assert len(reads) == 1
    await indexes.find(FIRST, "01990", read)
    searched = [span for span in reads if span.start]
    assert len(searched) > 1
    assert all(one.stop <= other.stop for one, other in pairwise(searched))
    number = len(reads)
    assert indexes.known(FIRST, "01000") == await indexes.find(FIRST, "01000", read)
    assert len(reads) == number + 1, "the opening read alone"
    assert indexes.known(FIRST, "none") is None
    with pytest.raises(S3Error, match="no member"):
        await indexes.find(FIRST, "none", read)


async def test_large_members_are_passed_over() -> None:
    reads: list[Span] = []
    content = archive(["a", "b", "c", "d"], 1 << 20)
    await ArchiveIndexes().find(FIRST, "d", reader(content, reads))
    assert sum(span.length for span in reads) < 1 << 20


async def test_members_are_bounded_over_all_archives() -> None:
    names = [f"{number:05}" for number in range(3000)]
    first, second = archive(names), archive(names[:400])
    indexes = ArchiveIndexes(max_members=500)
    read_second = reader(second, [])
    await indexes.find(SECOND, "00399", read_second)
    assert indexes.members == 400
    located = await indexes.find(FIRST, "02999", reader(first, []))
    assert first[located.span.start - 512 : located.span.start - 507] == b"02999"
    assert indexes.members <= 500
    assert indexes.known(SECOND, "00001") is None, "it was used longest ago"
    assert await indexes.find(FIRST, "02999", reader(first, [])) == located
    assert indexes.members <= 500


async def test_another_version_is_another_index() -> None:
    indexes = ArchiveIndexes()
    await indexes.find(FIRST, "a", reader(archive(["a"]), []))
    with pytest.raises(S3Error, match="no member"):
        await indexes.find(FIRST, "a", reader(archive(["b"]), [], '"2"'))
    assert indexes.known(FIRST, "a") is None
    indexes.forget(FIRST, '"2"')
    assert indexes.members == 0


async def test_a_search_reads_one_version() -> None:
    pins, content = list[str | None](), archive([f"{number:05}" for number in range(2000)])

    async def read(span: Span, etag: str | None) -> ArchivePiece:
        pins.append(etag)
        return ArchivePiece(206, '"1"', len(content), content[span.start : span.stop])

    await ArchiveIndexes().find(FIRST, "01990", read)
    assert pins == [None, *['"1"'] * (len(pins) - 1)]
    assert len(pins) > 2


def test_a_span_that_is_noted_is_of_its_version() -> None:
    indexes = ArchiveIndexes()
    indexes.note(FIRST, "a", LocatedMember('"1"', Span(512, 522)))
    indexes.note(FIRST, "b", LocatedMember('"2"', Span(1536, 1546)))
    assert indexes.known(FIRST, "a") is None
    assert indexes.known(FIRST, "b") == LocatedMember('"2"', Span(1536, 1546))


async def test_what_is_whole_of_an_archive_that_is_cut_short_is_found() -> None:
    """At the first look, too, which sees the cut."""
    content = archive(["a", "b"], 2000)[:4000]
    indexes = ArchiveIndexes()
    for _ in range(2):
        assert (await indexes.find(FIRST, "a", reader(content, []))).span == Span(512, 2512)
        with pytest.raises(S3Error, match="cut short"):
            await indexes.find(FIRST, "b", reader(content, []))
