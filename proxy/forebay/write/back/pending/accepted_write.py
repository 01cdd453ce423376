"""Accepted writes: the fields that the journal keeps, to carry them out at the origin and to answer readers until then.

    put, delete, complete     change an object: they have a place in the order
    create, part, move, abort change an upload, which nobody sees but its writers

One record each; `document` and `decode_record` are its JSON.
"""

from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from forebay.core.heads import DURABLE_LOCAL, Head, HeaderPairs, ObjectFacts, head_of
from forebay.core.names import ObjectName, Version
from forebay.policy.drain_order import WriteInterval
from forebay.storage.journal.body_file import BodyRef
from forebay.storage.journal.journal_record import Document
from forebay.storage.journal.log_writer import RecordId
from forebay.storage.journal.pending_objects import BodyPart, PendingVersion
from forebay.storage.journal.recovery_scan import PendingRecord

WriteKind: TypeAlias = Literal["put", "delete", "complete"]
_KINDS: Final[dict[str, WriteKind]] = {"put": "put", "delete": "delete", "complete": "complete"}
JOINED: Final = 10_000
"""The offset of numbers of joined parts, above those of any other: a part that was joined of small ones has the number
of the first of them, plus this (write.back.accept.joined_parts)."""
_LOG_DIGITS: Final = 12


def write_id(record: RecordId) -> str:
    """Returns the id by which a person names a write."""
    return f"{record.log[:_LOG_DIGITS]}-{record.number}"


class CompletedPart(NamedTuple):
    """A part of a completed upload."""

    number: int
    etag: str
    record: RecordId


class AcceptedWrite(NamedTuple):
    """A write that changes an object."""

    kind: WriteKind
    name: ObjectName
    interval: WriteInterval
    headers: HeaderPairs = ()
    """The headers of the request to the origin; of a completion, those of its upload's creation."""
    facts: ObjectFacts | None = None
    """The facts that readers see; None: the object is deleted."""
    block_size: int = 0
    accepted_at: float = 0.0
    """Seconds since the epoch."""
    sha256: str | None = None
    """The SHA-256 of the body, in hex, where the client sent it."""
    bodies: tuple[BodyRef, ...] = ()
    """The file of the body; none: it is the record's payload."""
    upload_id: str = ""
    """The upload that a completion ends."""
    parts: tuple[CompletedPart, ...] = ()
    """The parts of a completion, whose payload is the document that the client sent."""
    replaces: str | None = None
    """The version that readers saw when it was accepted (write.back.drain.origin_versions)."""

    @property
    def size(self) -> int:
        """Bytes of the object."""
        return self.facts.size if self.facts is not None else 0

    @property
    def head(self) -> Head | None:
        """The head that readers see; None: the object is deleted."""
        facts = self.facts
        if facts is None:
            return None
        headers = (*facts.headers, DURABLE_LOCAL)  # not by dataclasses.replace: four times as long
        shown = ObjectFacts(facts.version, facts.size, facts.last_modified, headers, facts.checksums_known)
        return head_of(shown, self.block_size, self.accepted_at)

    def version(self, record: RecordId, parts: tuple[BodyPart, ...]) -> PendingVersion:
        """Returns the object's pending version. `record`: where it was written; `parts`: its bytes."""
        return PendingVersion(record, self.interval.written, self.head, parts)

    def document(self) -> Document:
        """Returns the document of its record."""
        (bucket, key), (began, written), facts = self.name, self.interval, self.facts
        document: dict[str, Any] = {
            "write": self.kind,
            "bucket": bucket,
            "key": key,
            "began": began,
            "written": written,
            "accepted_at": self.accepted_at,
            "headers": self.headers,
        }
        if self.replaces is not None:
            document["replaces"] = self.replaces
        if facts is not None:
            document |= {
                "etag": facts.version.etag,
                "size": facts.size,
                "last_modified": facts.last_modified,
                "facts": facts.headers,
                "block": self.block_size,
                "sha256": self.sha256,
                "bodies": self.bodies,
            }
        if self.kind == "complete":
            document |= {
                "upload": self.upload_id,
                "parts": [(part.number, part.etag, *part.record) for part in self.parts],
            }
        return document


@dataclass(frozen=True, slots=True)
class AcceptedUpload:
    """A multipart upload that was created."""

    name: ObjectName
    upload_id: str
    headers: HeaderPairs
    """The headers of its creation at the origin."""
    accepted_at: float

    def document(self) -> Document:
        """Returns the document of its record."""
        return {
            "write": "create",
            **_name(self.name),
            "upload": self.upload_id,
            "headers": self.headers,
            "accepted_at": self.accepted_at,
        }


@dataclass(frozen=True, slots=True)
class AcceptedPart:
    """A part of an upload."""

    name: ObjectName
    upload_id: str
    number: int
    etag: str
    size: int
    headers: HeaderPairs
    sha256: str | None
    bodies: tuple[BodyRef, ...]
    accepted_at: float
    crc: int
    """CRC-64/XZ of its bytes."""
    stamp: int
    """The time on the node's clock before it was written: of two parts with one number the later one counts."""

    @property
    def is_joined(self) -> bool:
        """Whether it was joined of small parts, which no client lists."""
        return self.number > JOINED

    @property
    def origin_number(self) -> int:
        """The part's number at the origin."""
        return self.number - JOINED if self.is_joined else self.number

    def document(self) -> Document:
        """Returns the document of its record."""
        return {
            "write": "part",
            **_name(self.name),
            "upload": self.upload_id,
            "number": self.number,
            "etag": self.etag,
            "size": self.size,
            "headers": self.headers,
            "sha256": self.sha256,
            "bodies": self.bodies,
            "accepted_at": self.accepted_at,
            "crc": self.crc,
            "stamp": self.stamp,
        }


class OriginCompletion(NamedTuple):
    """A completion that the origin has carried out for its client."""

    etag: str
    sums: HeaderPairs
    """The checksums and the CRC-64 of the object, as headers."""
    request: str
    """The digest of the request that its client sent (write.repeated_completion.completion_digest), in hex."""


@dataclass(frozen=True, slots=True)
class AbortedUpload:
    """An upload that has ended, and of which nothing is carried out any more."""

    name: ObjectName
    upload_id: str
    completion: OriginCompletion | None = None
    """None: it was aborted."""

    def document(self) -> Document:
        """Returns the document of its record."""
        document = {"write": "abort", **_name(self.name), "upload": self.upload_id}
        return document if self.completion is None else {**document, "completed": self.completion}


@dataclass(frozen=True, slots=True)
class MovedUpload:
    """An upload that goes on at the origin (write.back.accept.upload_moves)."""

    name: ObjectName
    upload_id: str
    origin_id: str
    """The upload's id at the origin."""
    moved: int
    """The time on the node's clock at which the move was recorded: the last record counts."""

    def document(self) -> Document:
        """Returns the document of its record."""
        return {
            "write": "move",
            **_name(self.name),
            "upload": self.upload_id,
            "origin_upload": self.origin_id,
            "moved": self.moved,
        }


JournalEntry: TypeAlias = AcceptedWrite | AcceptedUpload | AcceptedPart | AbortedUpload | MovedUpload


def decode_record(record: PendingRecord) -> JournalEntry:
    """Returns the content of a record. Raises ValueError for one that no Forebay of this version wrote."""
    try:
        return _decode(record.document)
    except (KeyError, TypeError, ValueError):
        raise ValueError(f"the record {record.id.number} of the log {record.id.log} is no write") from None


def body_parts(bodies: tuple[BodyRef, ...], payload: bytes) -> tuple[BodyPart, ...]:
    """Returns the bytes of a record: in its files, or its payload."""
    return tuple(BodyPart(ref.size, b"", ref) for ref in bodies) or (BodyPart(len(payload), payload, None),)


def _decode(document: Document) -> JournalEntry:
    name = ObjectName(str(document["bucket"]), str(document["key"]))
    match document["write"]:
        case "create":
            created = float(document["accepted_at"])
            return AcceptedUpload(name, str(document["upload"]), _pairs(document["headers"]), created)
        case "abort":
            return AbortedUpload(name, str(document["upload"]), _completion(document.get("completed")))
        case "move":
            return MovedUpload(name, str(document["upload"]), str(document["origin_upload"]), int(document["moved"]))
        case "part":
            return AcceptedPart(
                name,
                str(document["upload"]),
                int(document["number"]),
                str(document["etag"]),
                int(document["size"]),
                _pairs(document["headers"]),
                document["sha256"],
                _bodies(document["bodies"]),
                float(document["accepted_at"]),
                int(document["crc"]),
                int(document["stamp"]),
            )
        case kind:
            return _write(_KINDS[kind], name, document)


def _write(kind: WriteKind, name: ObjectName, document: Document) -> AcceptedWrite:
    facts = None
    if "etag" in document:
        facts = ObjectFacts(
            Version(str(document["etag"])),
            int(document["size"]),
            str(document["last_modified"]),
            _pairs(document["facts"]),
            checksums_known=True,
        )
    return AcceptedWrite(
        kind,
        name,
        WriteInterval(int(document["began"]), int(document["written"])),
        _pairs(document["headers"]),
        facts,
        int(document.get("block", 0)),
        float(document["accepted_at"]),
        document.get("sha256"),
        _bodies(document.get("bodies", ())),
        str(document.get("upload", "")),
        tuple(
            CompletedPart(int(number), str(etag), RecordId(str(log), int(record)))
            for number, etag, log, record in document.get("parts", ())
        ),
        document.get("replaces"),
    )


def _completion(found: Any) -> OriginCompletion | None:
    return None if found is None else OriginCompletion(str(found[0]), _pairs(found[1]), str(found[2]))


def _name(name: ObjectName) -> dict[str, str]:
    return {"bucket": name.bucket, "key": name.key}


def _bodies(bodies: Any) -> tuple[BodyRef, ...]:
    return tuple(BodyRef(str(body), int(size), int(sums)) for body, size, sums in bodies)


def _pairs(pairs: Any) -> HeaderPairs:
    return tuple((str(name), str(value)) for name, value in pairs)
