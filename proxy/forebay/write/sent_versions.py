"""Sent versions: what a write that goes through makes of its objects, as far as the origin's answer does not decide it.

    PutObject                   the MD5 of its body, under a `back` rule
    CopyObject                  the MD5 that its source has as its ETag, where readers here know that
    CompleteMultipartUpload     the MD5 of the MD5s of the parts that it lists, unless Forebay joins them
    DeleteObject, DeleteObjects no object
    others                      not known

An origin that has such a version has it from this node: also if the answer was lost, a write that was accepted
meanwhile is in no conflict with it (write.back.drain.origin_versions). Once it has answered, only the version counts
that it has confirmed last.

https://docs.aws.amazon.com/AmazonS3/latest/userguide/checking-object-integrity-upload.html
"""

from collections.abc import Sequence
from typing import Protocol

from forebay.core.names import ObjectName
from forebay.protocol.xml.s3_documents import ListedKey, UploadedPart
from forebay.write.conditional_writes import ABSENT
from forebay.write.forward_request import ForwardRequest
from forebay.write.repeated_completion import completed_etag

Versions = Sequence[tuple[ObjectName, str]]
"""Objects, and their ETags at the origin; ABSENT: there is none."""


def versions_made(
    forward: ForwardRequest, body_etag: str, parts: Sequence[UploadedPart], listed: Sequence[ListedKey]
) -> Versions:
    """Returns the versions that a write makes if the origin carries it out. `body_etag`: of an object with its body, or
    with the bytes of its source, empty if it is not known; `parts`: those that a completion lists; `listed`: the keys
    that a batch delete lists."""
    match forward.operation.name:
        case "PutObject" | "CopyObject":
            return [(forward.target.name, body_etag)] if body_etag else []
        case "CompleteMultipartUpload":
            etag = completed_etag(parts)
            return [(forward.target.name, etag)] if etag else []
        case "DeleteObject" if forward.target.param("versionId") is None:
            return [(forward.target.name, ABSENT)]
        case "DeleteObjects":
            bucket = forward.target.bucket or ""
            return [(ObjectName(bucket, each.key), ABSENT) for each in listed if each.version_id is None]
        case _:
            return []


class SentNotes(Protocol):
    """The receiver of notes on sent versions: the write-back."""

    def note_sent(self, versions: Versions) -> None:
        """A write that goes through is about to be completed at the origin. `versions`: what it makes there."""

    def note_lost(self, versions: Versions) -> None:
        """The origin has not answered whether it has made versions that were sent."""

    def note_settled(self, versions: Versions) -> None:
        """The origin has answered whether it has made versions that were sent: they are not in doubt any more."""


class SentVersions:
    """The versions of one write, from before the bytes are sent that complete it."""

    def __init__(self, notes: SentNotes | None) -> None:
        """`notes` None: no write of the objects is accepted before the origin has it."""
        self._notes = notes
        self._versions: Versions = ()

    def begin(self, versions: Versions) -> None:
        """The origin may have them from here on."""
        self._versions = versions
        if self._notes is not None and versions:
            self._notes.note_sent(versions)

    def lose(self) -> None:
        """Notes that no answer says whether the origin has the versions."""
        if self._notes is not None and self._versions:
            self._notes.note_lost(self._versions)

    def settle(self) -> None:
        """The origin has answered: it has made them, which is noted elsewhere, or has refused them."""
        if self._notes is not None and self._versions:
            self._notes.note_settled(self._versions)
