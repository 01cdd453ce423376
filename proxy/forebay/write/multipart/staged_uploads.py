"""Multipart uploads whose parts were staged, until they are completed.

A part is staged on its own, for its place in the object is known only when the upload is completed. Then the parts are
cut anew into the blocks of the object, in the order the completion lists them. An upload of which any part is unknown
(it went to another node, was copied in, or was forgotten) is not warmed; the read that follows fetches it.
"""

from collections import OrderedDict
from collections.abc import Sequence
from typing import Final

from forebay.core.names import ObjectName
from forebay.metadata.staged_objects import StagedBody
from forebay.protocol.etags import same_etag
from forebay.protocol.xml.s3_documents import UploadedPart

REMEMBERED: Final = 100_000
"""Parts, of all uploads. Whole uploads are forgotten for more, the one that was idle longest first: those that are
neither completed nor aborted must not pile up."""


class StagedUploads:
    """Which parts of which uploads are staged."""

    def __init__(self, remembered: int = REMEMBERED) -> None:
        self._remembered = remembered
        self._parts: OrderedDict[tuple[ObjectName, str], dict[int, StagedBody]] = OrderedDict()
        self._count = 0

    def __len__(self) -> int:
        """How many uploads are known."""
        return len(self._parts)

    def add(self, name: ObjectName, upload_id: str, number: int, staged: StagedBody) -> None:
        """A part was confirmed. One that is uploaded again replaces the first."""
        parts = self._parts.setdefault((name, upload_id), {})
        self._count += number not in parts
        parts[number] = staged
        self._parts.move_to_end((name, upload_id))
        while self._count > self._remembered:
            _, idle = self._parts.popitem(last=False)
            self._count -= len(idle)

    def end(self, name: ObjectName, upload_id: str) -> None:
        """Aborted, or not to be warmed."""
        self._taken(name, upload_id)

    def known(self, name: ObjectName, upload_id: str, parts: Sequence[UploadedPart]) -> list[tuple[int, StagedBody]]:
        """Of the listed parts, those that are known as they are listed, by number."""
        known = self._parts.get((name, upload_id), {})
        found = [(part, known.get(part.number)) for part in parts]
        return [(part.number, one) for part, one in found if one is not None and same_etag(one.etag, part.etag)]

    def missing(self, name: ObjectName, upload_id: str, parts: Sequence[UploadedPart]) -> list[UploadedPart]:
        """Of the listed parts, those that are not."""
        known = {number for number, _ in self.known(name, upload_id, parts)}
        return [part for part in parts if part.number not in known]

    def completed(self, name: ObjectName, upload_id: str, parts: Sequence[UploadedPart]) -> list[StagedBody] | None:
        """The staged parts in the order of the object, or None if they are not all known as they were listed."""
        known = self._taken(name, upload_id)
        found = [known.get(part.number) for part in parts]
        staged = [part for part in found if part is not None]
        same = [same_etag(one.etag, part.etag) for one, part in zip(staged, parts, strict=False)]
        return staged if len(staged) == len(parts) and all(same) else None

    def _taken(self, name: ObjectName, upload_id: str) -> dict[int, StagedBody]:
        parts = self._parts.pop((name, upload_id), {})
        self._count -= len(parts)
        return parts
