"""Multipart uploads: the good way, each error, and reads of what came of it."""

import hashlib
from collections.abc import Sequence

import pytest

from harness.conformance import Subject, code, parsed, texts
from harness.quirks import Quirk

BIG, SMALL = bytes(range(256)) * (5 << 12), b"the end"  # 5 MiB, the least that a part may have
WHOLE = BIG + SMALL


def manifest(parts: Sequence[tuple[int, str]]) -> bytes:
    lines = "".join(f"<Part><PartNumber>{number}</PartNumber><ETag>{etag}</ETag></Part>" for number, etag in parts)
    return f"<CompleteMultipartUpload>{lines}</CompleteMultipartUpload>".encode()


async def begin(origin: Subject, key: str, *headers: tuple[str, str]) -> str:
    answer = await origin.ask("POST", key, headers, uploads="")
    assert answer.status == 200
    return texts(answer, "UploadId")[0]


async def send(origin: Subject, key: str, upload: str, number: int, body: bytes) -> tuple[int, str]:
    answer = await origin.ask("PUT", key, (), body, uploadId=upload, partNumber=str(number))
    assert answer.status == 200, answer
    return number, answer.headers["ETag"]


async def uploaded(origin: Subject, key: str) -> str:
    """An object of two parts; returns the ETag that Complete told."""
    upload = await begin(origin, key, ("Content-Type", "text/plain"), ("x-amz-meta-colour", "blue"))
    parts = [await send(origin, key, upload, 1, BIG), await send(origin, key, upload, 2, SMALL)]
    answer = await origin.ask("POST", key, (), manifest(parts), uploadId=upload)
    assert answer.status == 200
    return texts(answer, "ETag")[0]


async def test_an_upload(origin: Subject) -> None:
    etag = await uploaded(origin, "multi")
    digests = b"".join(hashlib.md5(each, usedforsecurity=False).digest() for each in (BIG, SMALL))
    assert etag.strip('"') == origin.etag(hashlib.md5(digests, usedforsecurity=False).hexdigest()) + "-2"
    head = await origin.ask("HEAD", "multi")
    assert (head.headers["Content-Length"], head.headers["ETag"].strip('"')) == (str(len(WHOLE)), etag.strip('"'))
    assert (head.headers["Content-Type"], head.headers["x-amz-meta-colour"]) == ("text/plain", "blue")


async def test_reads_of_parts_and_across_them(origin: Subject) -> None:
    await uploaded(origin, "multi")
    assert (await origin.get("multi")).body == WHOLE
    edge = len(BIG)
    across = await origin.get("multi", ("Range", f"bytes={edge - 3}-{edge + 2}"))
    assert (across.status, across.body) == (206, WHOLE[edge - 3 : edge + 3])
    assert across.headers["Content-Range"] == f"bytes {edge - 3}-{edge + 2}/{len(WHOLE)}"
    second = await origin.get("multi", partNumber="2")
    if origin.has(Quirk.NO_READS_BY_PART):
        assert (second.status, code(second)) == (501, "NotImplemented")
        return
    assert (second.status, second.body, second.headers["x-amz-mp-parts-count"]) == (206, SMALL, "2")
    assert second.headers["Content-Range"] == f"bytes {edge}-{len(WHOLE) - 1}/{len(WHOLE)}"
    head = await origin.ask("HEAD", "multi", partNumber="1")
    assert (head.status, head.headers["Content-Length"]) == (206, str(edge))
    assert (await origin.get("multi", partNumber="3")).status == 416


async def test_part_numbers_and_ranges_exclude_each_other(origin: Subject) -> None:
    kept = await origin.put(b"0123")
    answer = await origin.get(kept.key, ("Range", "bytes=0-1"), partNumber="1")
    expected = (501, "NotImplemented") if origin.has(Quirk.NO_READS_BY_PART) else (400, "InvalidRequest")
    assert (answer.status, code(answer)) == expected


async def test_a_part_copy(origin: Subject) -> None:
    source = await origin.put(WHOLE)
    upload = await begin(origin, "copied")
    named = ("x-amz-copy-source", f"/{origin.bucket}/{source.key}")
    ranged = ("x-amz-copy-source-range", f"bytes=0-{len(BIG) - 1}")
    first = await origin.ask("PUT", "copied", [named, ranged], uploadId=upload, partNumber="1")
    assert first.status == 200
    etag = parsed(first).findtext("ETag", "")
    second = await send(origin, "copied", upload, 2, SMALL)
    assert (await origin.ask("POST", "copied", (), manifest([(1, etag), second]), uploadId=upload)).status == 200
    assert (await origin.get("copied")).body == WHOLE


async def test_parts_are_listed_and_replaced(origin: Subject) -> None:
    upload = await begin(origin, "listed")
    await send(origin, "listed", upload, 7, b"first try")
    await send(origin, "listed", upload, 7, b"again")
    await send(origin, "listed", upload, 2, b"earlier")
    answer = await origin.ask("GET", "listed", uploadId=upload)
    assert texts(answer, "Part/PartNumber") == ["2", "7"]
    assert texts(answer, "Part/Size") == ["7", "5"]
    assert texts(answer, "IsTruncated") == ["false"]
    few = await origin.ask("GET", "listed", uploadId=upload, max_parts="1")
    assert (texts(few, "Part/PartNumber"), texts(few, "NextPartNumberMarker")) == (["2"], ["2"])
    assert texts(few, "IsTruncated") == ["true"]
    listed = await origin.ask("GET", None, uploads="", prefix="listed")
    assert upload in texts(listed, "Upload/UploadId")


async def test_too_small_a_part(origin: Subject) -> None:
    upload = await begin(origin, "small")
    parts = [await send(origin, "small", upload, number, SMALL) for number in (1, 2)]
    answer = await origin.ask("POST", "small", (), manifest(parts), uploadId=upload)
    assert (answer.status, code(answer)) == (400, "EntityTooSmall")
    assert (await origin.get("small")).status == 404


async def test_a_part_that_is_not_there(origin: Subject) -> None:
    upload = await begin(origin, "absent")
    number, etag = await send(origin, "absent", upload, 1, SMALL)
    for parts in ([(number, etag), (2, etag)], [(number, '"' + "0" * 32 + '"')]):
        answer = await origin.ask("POST", "absent", (), manifest(parts), uploadId=upload)
        assert (answer.status, code(answer)) == (400, "InvalidPart")


async def test_parts_out_of_order(origin: Subject) -> None:
    upload = await begin(origin, "order")
    parts = [await send(origin, "order", upload, number, SMALL) for number in (1, 2)]
    answer = await origin.ask("POST", "order", (), manifest(parts[::-1]), uploadId=upload)
    assert (answer.status, code(answer)) == (400, "InvalidPartOrder")


async def test_a_malformed_manifest(origin: Subject) -> None:
    upload = await begin(origin, "malformed")
    for body in (b"<CompleteMultipartUpload>", manifest([])):
        answer = await origin.ask("POST", "malformed", (), body, uploadId=upload)
        assert (answer.status, code(answer)) == (400, "MalformedXML")


async def test_abort(origin: Subject) -> None:
    upload = await begin(origin, "aborted")
    await send(origin, "aborted", upload, 1, SMALL)
    assert (await origin.ask("DELETE", "aborted", uploadId=upload)).status == 204
    for method, query in (("GET", {}), ("PUT", {"partNumber": "1"}), ("DELETE", {})):
        answer = await origin.ask(method, "aborted", (), b"", uploadId=upload, **query)
        assert (answer.status, code(answer)) == (404, "NoSuchUpload"), method
    assert (await origin.get("aborted")).status == 404


@pytest.mark.parametrize("number", ["0", "10001", "x"])
async def test_impossible_part_numbers(origin: Subject, number: str) -> None:
    upload = await begin(origin, "numbers")
    answer = await origin.ask("PUT", "numbers", (), SMALL, uploadId=upload, partNumber=number)
    assert (answer.status, code(answer)) == (400, "InvalidArgument")
