"""The parts of multipart uploads under way, as they came through here: what they count up to, and the bytes of those
that may have to be gathered.

Known are parts that the origin has confirmed. One that is uploaded again replaces the first, as at the origin. Uploads
are forgotten when they are completed or aborted, when they have been idle for too long, and when there are too many,
the one that was idle longest first; their bytes are let go of with them.
"""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from forebay.core.names import ObjectName
from forebay.protocol.etags import folded, same_etag
from forebay.protocol.xml.s3_documents import UploadedPart
from forebay.storage.spool import SpooledBody, SpooledFile
from forebay.write.body_digest import BodyDigest

MAX_PARTS: Final = 100_000
"""Parts, of all uploads."""


@dataclass(slots=True)
class KnownPart:
    """A part that the origin has confirmed."""

    etag: str
    """As the origin told it."""
    digest: BodyDigest
    spooled: SpooledBody | SpooledFile | None = None
    """Its bytes, where they are kept."""
    coalesced_etag: str = ""
    """The ETag that the origin has under this number since the parts behind it were put to it."""

    def is_named(self, etag: str) -> bool:
        """Whether a completion that lists this ETag means this part."""
        return folded(etag) in {folded(self.etag), folded(self.coalesced_etag) or None}


@dataclass(slots=True)
class _Upload:
    parts: dict[int, KnownPart]
    used_at: float


class MultipartRegistry:
    """Of all uploads. `clock`: seconds, of any beginning. `patience`: how long an upload may be idle."""

    def __init__(self, clock: Callable[[], float], idle_timeout: float, max_parts: int = MAX_PARTS) -> None:
        self._clock = clock
        self._patience = idle_timeout
        self._remembered = max_parts
        self._uploads: OrderedDict[tuple[ObjectName, str], _Upload] = OrderedDict()
        self._count = 0

    def __len__(self) -> int:
        """How many uploads are known."""
        return len(self._uploads)

    def add(self, name: ObjectName, upload_id: str, number: int, part: KnownPart) -> None:
        upload = self._uploads.setdefault((name, upload_id), _Upload({}, 0.0))
        upload.used_at = self._clock()
        self._uploads.move_to_end((name, upload_id))
        before = upload.parts.get(number)
        self._count += before is None
        if before is not None and before.spooled is not None:
            before.spooled.release()
        upload.parts[number] = part
        self.expire()
        while self._count > self._remembered:
            self._forget(next(iter(self._uploads)))

    def remove(self, name: ObjectName, upload_id: str, number: int) -> None:
        """The part was replaced by something that is not known."""
        upload = self._uploads.get((name, upload_id))
        part = upload.parts.pop(number, None) if upload is not None else None
        if part is not None:
            self._count -= 1
            if part.spooled is not None:
                part.spooled.release()

    def lookup(self, name: ObjectName, upload_id: str, parts: Sequence[UploadedPart]) -> list[KnownPart | None]:
        """What is known of the parts that a completion lists, in its order; None where its ETag is not the one."""
        upload = self._uploads.get((name, upload_id))
        if upload is None:
            return [None] * len(parts)
        upload.used_at = self._clock()
        self._uploads.move_to_end((name, upload_id))
        known = [upload.parts.get(part.number) for part in parts]
        return [one if one and one.is_named(part.etag) else None for one, part in zip(known, parts, strict=True)]

    def differs(self, name: ObjectName, upload_id: str, parts: Sequence[UploadedPart]) -> bool:
        """Whether a completion lists a part that is known by another ETag."""
        upload = self._uploads.get((name, upload_id))
        known = upload.parts if upload is not None else {}
        return any(part.number in known and not known[part.number].is_named(part.etag) for part in parts)

    def crc(self, name: ObjectName, upload_id: str, number: int, etag: str) -> int | None:
        """The CRC64 of the part with this number, if it is the one with this ETag."""
        upload = self._uploads.get((name, upload_id))
        part = upload.parts.get(number) if upload is not None else None
        return part.digest.crc if part is not None and same_etag(part.etag, etag) else None

    def forget(self, name: ObjectName, upload_id: str) -> None:
        """Completed or aborted."""
        if (name, upload_id) in self._uploads:
            self._forget((name, upload_id))

    def expire(self) -> None:
        """Forget the uploads that have been idle for too long."""
        until = self._clock() - self._patience
        while self._uploads:
            oldest = next(iter(self._uploads))
            if self._uploads[oldest].used_at > until:
                return
            self._forget(oldest)

    def _forget(self, key: tuple[ObjectName, str]) -> None:
        upload = self._uploads.pop(key)
        self._count -= len(upload.parts)
        for part in upload.parts.values():
            if part.spooled is not None:
                part.spooled.release()
