"""How an answer through Forebay may differ from the origin's own, and the page that says so."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from differential.program import VERSIONING, Call, Content, Program
from harness.raw_connection import RawAnswer


@dataclass(frozen=True, slots=True)
class Found:
    """One field in which two answers differ; None: an answer has no such field."""

    call: Call
    name: str
    direct: str | bytes | None
    through: str | bytes | None
    direct_answer: RawAnswer
    through_answer: RawAnswer
    direct_code: str
    through_code: str

    @property
    def statuses(self) -> tuple[int, int]:
        return self.direct_answer.status, self.through_answer.status

    @property
    def is_added(self) -> bool:
        return self.direct is None


@dataclass(frozen=True, slots=True)
class DocumentedDifference:
    name: str
    anchor: str
    """The page, and the section of it."""
    why: str
    explains: Callable[[Found], bool]
    witness: Program
    """A program that shows it."""
    kind: str = "s3"
    """Of the pair that the program runs on."""
    has_effect: bool = True
    """Whether it lets the origins part, where it is one of a write's success."""


_COMPLETION: Final = (
    "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>{part:2}</ETag></Part></CompleteMultipartUpload>"
)
_PUT: Final = Call(0, "PUT", "open", "minute/a", body=Content(1, 100))

_KEPT: Final = (
    Call(0, "PUT", "kept", query=(("versioning", ""),), body=VERSIONING),
    Call(1, "PUT", "kept", "a", body=Content(1, 9)),
)


_ENTRY: Final = "element ListBucketResult/Contents/Checksum"


def _is_of_origin(found: Found) -> bool:
    """CRC64NVME is what S3 computes by itself; so is the checksum of the whole of a FULL_OBJECT upload."""
    if found.name.startswith(_ENTRY):
        return True
    name, direct = found.name.lower(), found.direct_answer
    etag = direct.headers.get("ETag", "").encode() or direct.body.partition(b"<ETag>")[2].partition(b"<")[0]
    kind = direct.headers.get("x-amz-checksum-type", "").encode() or direct.body
    if b"-" in etag and b"FULL_OBJECT" in kind and "checksum" in name:
        return True
    if "checksumtype" in name or name == "header x-amz-checksum-type":
        return "x-amz-checksum-crc64nvme" in direct.headers or b"<ChecksumCRC64NVME>" in direct.body
    return "crc64nvme" in name


def _is_earlier_refusal(found: Found) -> bool:
    """A HEAD names no code, and a 304 has headers of the object."""
    if found.call.bucket != "packed" or min(found.statuses) < 300 or found.statuses[1] < 400:
        return False
    if any(name == "partNumber" for name, _ in found.call.query):
        return found.statuses[0] in {304, 412}
    is_copy = any(name.lower().endswith("copy-source") for name, _ in found.call.headers)
    is_late = found.direct_code not in {"NoSuchKey", "AccessDenied"} or is_copy
    return found.name in {"code", "status"} and found.through_code == "PreconditionFailed" and is_late


_NO_VERSION: Final = ("NoSuchVersion", "NoSuchKey")

DOCUMENTED: Final[tuple[DocumentedDifference, ...]] = (
    DocumentedDifference(
        "location of an upload",
        "compatibility.md#what-no-table-can-list",
        "it is the URL that the client used",
        lambda found: found.name == "element CompleteMultipartUploadResult/Location 1" and found.statuses == (200, 200),
        (
            Call(0, "POST", "open", "a", (("uploads", ""),)),
            Call(1, "PUT", "open", "a", (("partNumber", "1"), ("uploadId", "{upload:0}")), body=Content(1, 9)),
            Call(
                2,
                "POST",
                "open",
                "a",
                (("uploadId", "{upload:0}"),),
                body="<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>{part:1}</ETag></Part>"
                "</CompleteMultipartUpload>",
            ),
        ),
    ),
    DocumentedDifference(
        "headers of a 304",
        "compatibility.md#ranges-and-conditions",
        "RFC 9110 wants those that guide caches, and S3 leaves them out",
        lambda found: (
            found.statuses == (304, 304)
            and found.is_added
            and found.name in {"header accept-ranges", "header cache-control", "header expires"}
        ),
        (_PUT, Call(1, "GET", "open", "minute/a", headers=(("If-None-Match", "*"),))),
    ),
    DocumentedDifference(
        "headers of a 416",
        "compatibility.md#ranges-and-conditions",
        "RFC 9110 wants the object's size, which S3 has in its document alone",
        lambda found: (
            found.statuses == (416, 416)
            and found.is_added
            and found.name in {"header accept-ranges", "header content-range"}
        ),
        (_PUT, Call(1, "GET", "open", "minute/a", headers=(("Range", "bytes=100-"),))),
    ),
    DocumentedDifference(
        "checksums of the journal",
        "write-back.md#the-same-object",
        "an answer from the journal has the checksums that its client sent, the origin's computes one of its own",
        lambda found: (
            found.through is None
            and _is_of_origin(found)
            and (found.through_answer.headers.get("x-forebay-durable") == "local" or found.name.startswith(_ENTRY))
            and found.call.bucket == "back"
        ),
        (Call(0, "PUT", "back", "a", body=Content(1, 9)), Call(1, "PUT", "back", "b", body=Content(1, 9))),
    ),
    DocumentedDifference(
        "type of a pending entry",
        "write-back.md#the-same-object",
        "S3 has none; an OSS origin's own entries keep it",
        lambda found: found.name.startswith("element ListBucketResult/Contents/Type ") and found.through is None,
        (
            Call(0, "PUT", "back", "a", body=Content(1, 9)),
            Call(1, "PUT", "back", "b", body=Content(1, 9)),
            Call(2, "GET", "back", None, (("list-type", "2"),)),
        ),
        "s3-on-oss",
    ),
    DocumentedDifference(
        "repeated completion",
        "write-back.md#completions-and-aborts",
        "it is answered as the first one, whose answer its client may have missed",
        lambda found: (
            found.direct_code == "NoSuchUpload"
            and found.through_answer.status == 200
            and b"CompleteMultipartUploadResult" in found.through_answer.body
        ),
        (
            Call(0, "PUT", "back", "a", body=Content(1, 9)),
            Call(1, "POST", "back", "b", (("uploads", ""),)),
            Call(2, "PUT", "back", "b", (("partNumber", "1"), ("uploadId", "{upload:1}")), body=Content(1, 9)),
            *(Call(number, "POST", "back", "b", (("uploadId", "{upload:1}"),), body=_COMPLETION) for number in (3, 4)),
        ),
        has_effect=False,
    ),
    DocumentedDifference(
        "next marker of a snapshot",
        "oss.md#an-oss-origin",
        "S3 has it with a delimiter alone, and OSS always",
        lambda found: found.name.startswith("element ListBucketResult/NextMarker") and found.through is None,
        (
            Call(0, "PUT", "listed", "a", body=Content(1, 9)),
            Call(1, "PUT", "listed", "b", body=Content(1, 9)),
            Call(2, "GET", "listed", None, (("max-keys", "1"),)),
        ),
        "s3-on-oss",
    ),
    DocumentedDifference(
        "checksums of a range",
        "compatibility.md#what-is-cached",
        "a response to a range never has any, the origin's has those of the whole if the range is all of it",
        lambda found: (
            found.name.startswith("header x-amz-checksum-") and found.through is None and found.statuses == (206, 206)
        ),
        (
            _PUT,
            Call(1, "GET", "open", "minute/a", headers=(("Range", "bytes=0-"), ("x-amz-checksum-mode", "ENABLED"))),
        ),
    ),
    DocumentedDifference(
        "owner of an upload in the journal",
        "write-back.md#uploads",
        "only the origin knows who owns its buckets",
        lambda found: (
            found.call.bucket == "back"
            and found.name.startswith("element ListMultipartUploadsResult/Upload/Owner/")
            and found.through is None
        ),
        (
            Call(0, "PUT", "back", "a", body=Content(1, 9)),
            Call(1, "POST", "back", "b", (("uploads", ""),)),
            Call(2, "GET", "back", None, (("uploads", ""),)),
        ),
    ),
    DocumentedDifference(
        "owner of a member",
        "packs.md#what-is-promised",
        "only the origin knows who owns its buckets, and it has no entry of a member",
        lambda found: (
            found.call.bucket == "packed"
            and found.name.startswith("element ListBucketResult/Contents/Owner/")
            and found.through is None
        ),
        (Call(0, "GET", "packed", None, (("prefix", "train/"),)),),
        "packed",
    ),
    DocumentedDifference(
        "checksums of a member",
        "packs.md#what-is-promised",
        "a member has none, and what is copied from it those of a PUT of its bytes",
        lambda found: (
            found.call.bucket == "packed" and any(word in found.name.lower() for word in ("checksum", "crc64"))
        ),
        (
            Call(0, "PUT", "packed", "train/b", headers=(("x-amz-copy-source", "{bucket:packed}/train/a%2Bb"),)),
            Call(1, "GET", "packed", None, (("prefix", "train/b"),)),
        ),
        "packed",
    ),
    DocumentedDifference(
        "first of two refusals about a member",
        "packs.md#what-is-promised",
        "conditions of a write come before what the origin says of it, a part's number before conditions of a read",
        _is_earlier_refusal,
        (Call(0, "PUT", "packed", "train/a+b", headers=(("If-Match", '"0"'),), body=Content(1, 9), digest="wrong"),),
        "packed",
    ),
    DocumentedDifference(
        "other requests about a member",
        "packs.md#what-is-promised",
        "a member has no ACL, retention and the like, and what else is asked of it gets 405",
        lambda found: found.call.bucket == "packed" and found.through_code == "MethodNotAllowed",
        (Call(0, "GET", "packed", "train/a+b", (("torrent", ""),)),),
        "packed",
    ),
    DocumentedDifference(
        "code of a HEAD",
        "oss.md#clients-of-oss",
        "S3 has no code in answers to HEAD, so a version that is not there is an object that is not there",
        lambda found: (
            found.name == "code" and found.call.method == "HEAD" and (found.direct, found.through) == _NO_VERSION
        ),
        (*_KEPT, Call(2, "HEAD", "kept", "a", (("versionId", "unknown"),))),
        "oss",
    ),
    DocumentedDifference(
        "delete marker in an error",
        "oss.md#clients-of-oss",
        "an error has no header of the object",
        lambda found: (
            found.name in {"header x-oss-delete-marker", "header x-oss-version-id"}
            and found.through is None
            and found.statuses[1] >= 400
        ),
        (*_KEPT, Call(2, "DELETE", "kept", "a"), Call(3, "GET", "kept", "a")),
        "oss",
    ),
    DocumentedDifference(
        "code of a long key",
        "oss.md#clients-of-oss",
        "it is that of S3's error in OSS's terms",
        lambda found: (
            found.name == "code" and (found.direct, found.through) == ("InvalidObjectName", "InvalidArgument")
        ),
        (Call(0, "GET", "open", "k" * 1024),),
        "oss",
    ),
    DocumentedDifference(
        "code of a key and a digest",
        "oss.md#clients-of-oss",
        "what Forebay refuses by itself comes first",
        lambda found: (
            found.name == "code"
            and found.statuses == (400, 400)
            and (found.direct, found.through) == ("InvalidObjectName", "InvalidDigest")
        ),
        (Call(0, "PUT", "open", "/lead", headers=(("Content-MD5", "nonsense"),)),),
        "oss",
    ),
    DocumentedDifference(
        "document of what is not there",
        "oss.md#clients-of-oss",
        "a document is read before the origin is asked",
        lambda found: (
            found.name in {"code", "status"}
            and found.call.method in {"POST", "PUT"}
            and found.statuses == (404, 400)
            and found.through_code == "MalformedXML"
        ),
        (Call(0, "PUT", "open", "a", (("tagging", ""),), body="<Tagging>", digest="right"),),
        "oss",
    ),
    DocumentedDifference(
        "CRC64 of a part in a list",
        "oss.md#clients-of-oss",
        "the stand-in has none",
        lambda found: found.is_added and found.name.startswith("element ListPartsResult/Part/HashCrc64ecma"),
        (
            Call(0, "POST", "open", "a", (("uploads", ""),)),
            Call(1, "PUT", "open", "a", (("partNumber", "1"), ("uploadId", "{upload:0}")), body=Content(1, 9)),
            Call(2, "GET", "open", "a", (("uploadId", "{upload:0}"),)),
        ),
        "oss",
    ),
)
