"""Multipart uploads that are remembered until they are completed."""

from forebay.core.names import Generation, ObjectName
from forebay.metadata.staged_objects import StagedBody
from forebay.protocol.xml.s3_documents import UploadedPart
from forebay.write.multipart.staged_uploads import StagedUploads

NAME = ObjectName("bucket", "key")


def staged(etag: str) -> StagedBody:
    return StagedBody(Generation(etag.encode().ljust(8)), 64, 100, f'"{etag}"')


def remembering(*parts: tuple[int, str]) -> StagedUploads:
    uploads = StagedUploads()
    for number, etag in parts:
        uploads.add(NAME, "u", number, staged(etag))
    return uploads


def test_the_parts_come_in_the_order_of_the_completion() -> None:
    uploads = remembering((3, "c"), (1, "a"), (2, "b"))
    listed = [UploadedPart(1, '"a"'), UploadedPart(3, "C")]
    assert uploads.completed(NAME, "u", listed) == [staged("a"), staged("c")]
    assert len(uploads) == 0


def test_a_part_that_is_not_known_as_it_is_listed_spoils_the_whole() -> None:
    for listed in (
        [UploadedPart(1, "a"), UploadedPart(2, "b")],
        [UploadedPart(1, "another")],
        [UploadedPart(1, "")],
        [UploadedPart(2, "b"), UploadedPart(1, "a")],
    ):
        assert remembering((1, "a")).completed(NAME, "u", listed) is None


def test_the_later_upload_of_a_part_counts() -> None:
    uploads = remembering((1, "a"), (1, "b"))
    assert uploads.completed(NAME, "u", [UploadedPart(1, "b")]) == [staged("b")]


def test_uploads_are_known_by_object_and_id() -> None:
    uploads = remembering((1, "a"))
    assert uploads.completed(NAME, "other", [UploadedPart(1, "a")]) is None
    assert uploads.completed(ObjectName("bucket", "other"), "u", [UploadedPart(1, "a")]) is None
    uploads.end(NAME, "u")
    assert uploads.completed(NAME, "u", [UploadedPart(1, "a")]) is None


def test_the_one_that_was_idle_longest_is_forgotten() -> None:
    uploads = StagedUploads(remembered=2)
    for upload in ("1", "2", "1", "3"):
        uploads.add(NAME, upload, 1, staged("a"))
    assert len(uploads) == 2
    assert uploads.completed(NAME, "2", [UploadedPart(1, "a")]) is None
    assert uploads.completed(NAME, "1", [UploadedPart(1, "a")]) is not None


def test_parts_are_what_is_counted_and_whole_uploads_what_is_forgotten() -> None:
    uploads = StagedUploads(remembered=3)
    for upload, number in (("1", 1), ("2", 1), ("2", 2), ("2", 2), ("3", 1)):
        uploads.add(NAME, upload, number, staged("a"))
    assert uploads.completed(NAME, "1", [UploadedPart(1, "a")]) is None
    assert uploads.completed(NAME, "2", [UploadedPart(1, "a"), UploadedPart(2, "a")]) is not None
    for number in (1, 2, 3):  # what was completed is not counted any more
        uploads.add(NAME, "4", number, staged("a"))
    assert len(uploads) == 1
    uploads.end(NAME, "4")
    uploads.add(NAME, "5", 1, staged("a"))
    assert uploads.completed(NAME, "5", [UploadedPart(1, "a")]) is not None
