"""The transfer of a journal to another endpoint: everything pending is written there, in the order of acknowledgement.

    check (journal_check) ──> an object is newer there: nothing is sent
                          └─> each write in turn: there already ──> next
                                                  sent, verified ──> next
                              a damaged one: named; what came after it in its bucket is held back

Blocking, for `forebay check-journal --export-to`. The journal stays as it is, so an interrupted transfer is begun
again: a write is left out if the endpoint has what the last write of its object makes. The client's part borders are
kept, so the ETags are those that were acknowledged; where a key of KMS makes others, the bytes are compared.
Credentials are those of the AWS SDKs' usual chain.
"""

import io
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path
from typing import Any, Final

from forebay.core.byte_ranges import Span
from forebay.core.errors import StorageError
from forebay.core.heads import HeaderPairs
from forebay.core.names import ObjectName
from forebay.protocol.conditions import same_etag
from forebay.storage.journal.body_file import SLICE, BodyReader
from forebay.storage.journal.journal_files import JournalFiles
from forebay.storage.journal.journal_layout import JournalLayout
from forebay.storage.journal.log_writer import RecordId
from forebay.storage.journal.pending_objects import BodyPart
from forebay.write.back.journal_check import CheckedWrite
from forebay.write.back.pending.object_metadata import has_same_metadata

PARALLEL_PARTS: Final = 4
_FALLBACK_REGION: Final = "us-east-1"
_KMS: Final = "aws:kms"


class TransferFailed(StorageError):
    """The endpoint can't be written: the message is a sentence. What was sent until then stays."""


class TransferRefused(StorageError):
    """Objects at the origin may have been written by others after the writes of the journal. Nothing was sent."""

    def __init__(self, newer: Sequence[ObjectName], same_second: Sequence[ObjectName]) -> None:
        """`same_second`: those of the second of the journal's write. Last-Modified tells no more of them."""
        super().__init__(f"{len(newer) + len(same_second)} objects are not older there")
        self.newer = newer
        self.same_second = same_second


@dataclass(slots=True)
class TransferReport:
    """The results of the writes."""

    sent: int = 0
    present: int = 0
    """Writes that the endpoint had already."""
    held_back: list[ObjectName] = field(default_factory=list)
    """Objects that are not transferred, as a damaged write of their bucket comes before them."""


class JournalTransfer:
    """Writes to one endpoint. Raises TransferFailed, TransferRefused, OSError and BodyDamaged."""

    def __init__(self, path: Path, endpoint: str, settled: Mapping[ObjectName, Collection[str]]) -> None:
        """`path`: of the journal. `settled`: ETags that its earlier writes have made, at whichever endpoint."""
        self._layout, self._files = JournalLayout(str(path)), JournalFiles()
        self._client, self._errors = _connect(endpoint)
        self._settled = settled
        self._found: dict[ObjectName, Mapping[str, Any] | None] = {}
        self._compared: dict[RecordId, bool] = {}

    def send(self, writes: Sequence[CheckedWrite], *, force: bool = False) -> TransferReport:
        """Sends the writes, which are in their order. `force`: also over objects that are newer there."""
        if not force:
            self._refuse_newer(writes)
        report, damaged = TransferReport(), dict[str, int]()
        last = {each.write.name: each for each in writes}
        for each in writes:
            name, interval = each.write.name, each.write.interval
            if each.damage:
                damaged.setdefault(name.bucket, interval.written)
            elif interval.began > damaged.get(name.bucket, interval.began):
                report.held_back.append(name)
            elif self._is_present(last[name]):
                report.present += 1
            else:
                with self._failures(name):
                    self._send(each)
                report.sent += 1
        return report

    def _is_present(self, each: CheckedWrite) -> bool:
        """Whether the endpoint has the result of the last write of an object."""
        facts, found = each.write.facts, self._head(each.write.name)
        if facts is None or found is None:
            return facts is None and found is None
        if not self._is_made_by(each, found):
            return False
        return has_same_metadata(tuple(found["ResponseMetadata"]["HTTPHeaders"].items()), facts.headers)

    def _is_made_by(self, each: CheckedWrite, found: Mapping[str, Any]) -> bool:
        """Whether the endpoint has the bytes of a write."""
        facts = each.write.facts
        if facts is None or found["ContentLength"] != facts.size:
            return False
        if not _is_opaque(found):
            return same_etag(found["ETag"], facts.version.etag)
        if each.record not in self._compared:
            with self._failures(each.write.name):
                self._compared[each.record] = self._has_same_bytes(each, found["ETag"])
        return self._compared[each.record]

    def _has_same_bytes(self, each: CheckedWrite, etag: str) -> bool:
        name = each.write.name
        answer = self._client.get_object(Bucket=name.bucket, Key=name.key, IfMatch=etag)
        with self._content(each.parts) as content, closing(answer["Body"]) as body:
            return all(piece == content.read(len(piece)) for piece in body.iter_chunks(SLICE))

    def _refuse_newer(self, writes: Sequence[CheckedWrite]) -> None:
        """Raises TransferRefused if somebody else may have written objects there since they were written here."""
        of_object: dict[ObjectName, list[CheckedWrite]] = {}
        for each in writes:
            if not each.damage:
                of_object.setdefault(each.write.name, []).append(each)
        newer, same_second = list[ObjectName](), list[ObjectName]()
        for name, pending in of_object.items():
            found, first = self._head(name), int(pending[0].write.accepted_at)
            if found is None or found["LastModified"].timestamp() < first or self._is_known(found, pending):
                continue
            (newer if found["LastModified"].timestamp() >= first + 1 else same_second).append(name)
        if newer or same_second:
            raise TransferRefused(newer, same_second)

    def _is_known(self, found: Mapping[str, Any], pending: Sequence[CheckedWrite]) -> bool:
        """Whether an object is the result of these writes, the version that they replace, or the result of an earlier
        write of the journal."""
        first = pending[0].write
        etags = filter(None, (first.replaces, *self._settled.get(first.name, ())))
        return any(same_etag(found["ETag"], etag) for etag in etags) or any(
            self._is_made_by(each, found) for each in pending
        )

    def _head(self, name: ObjectName) -> Mapping[str, Any] | None:
        """The endpoint's version at the first look."""
        if name not in self._found:
            with self._failures(name):
                self._found[name] = self._request_head(name)
        return self._found[name]

    def _request_head(self, name: ObjectName) -> Mapping[str, Any] | None:
        try:
            found: Mapping[str, Any] = self._client.head_object(Bucket=name.bucket, Key=name.key)
        except self._errors.ClientError as refusal:
            if refusal.response["ResponseMetadata"]["HTTPStatusCode"] == 404:
                return None
            raise
        return found

    def _send(self, each: CheckedWrite) -> None:
        write = each.write
        names = {"Bucket": write.name.bucket, "Key": write.name.key}
        match write.kind:
            case "delete":
                self._client.delete_object(**names)
                return
            case "put":
                with self._content(each.parts) as body, _headers(self._client, "PutObject", write.headers):
                    answer = self._client.put_object(**names, Body=body, ContentLength=write.size)
            case "complete":
                answer = self._upload(each, names)
        if write.facts is not None and not _is_opaque(answer):
            _verify(write.name, answer["ETag"], write.facts.version.etag)

    def _upload(self, each: CheckedWrite, names: Mapping[str, str]) -> Mapping[str, Any]:
        with _headers(self._client, "CreateMultipartUpload", each.write.headers):
            upload = self._client.create_multipart_upload(**names)["UploadId"]

        def send(nth: int) -> dict[str, Any]:
            part, body = each.write.parts[nth], each.parts[nth]
            with self._content([body]) as content:
                names_of_part = {**names, "UploadId": upload, "PartNumber": part.number}
                sent = self._client.upload_part(**names_of_part, Body=content, ContentLength=body.size)
            return {"PartNumber": part.number, "ETag": sent["ETag"]}

        parts_sent = zip(each.write.parts, each.part_headers, strict=True)
        headers = {part.number: of_part for part, of_part in parts_sent}

        def part_headers(params: Mapping[str, Any]) -> HeaderPairs:
            number = int(params["query_string"]["partNumber"])
            return headers[number]

        try:
            with (
                _headers(self._client, "UploadPart", part_headers),
                ThreadPoolExecutor(PARALLEL_PARTS, "part") as pool,
            ):
                parts = list(pool.map(send, range(len(each.parts))))
            answer: Mapping[str, Any] = self._client.complete_multipart_upload(
                **names, UploadId=upload, MultipartUpload={"Parts": parts}
            )
        except BaseException:
            self._client.abort_multipart_upload(**names, UploadId=upload)
            raise
        return answer

    def _content(self, parts: Sequence[BodyPart]) -> io.BufferedReader:
        """The bytes as a file. A slice of a body is verified as a whole, so that it is read at once."""
        return io.BufferedReader(_ContentFile(self._files, self._layout, parts), SLICE)

    @contextmanager
    def _failures(self, name: ObjectName) -> Iterator[None]:
        try:
            yield
        except (self._errors.BotoCoreError, self._errors.ClientError) as failure:
            sentence = f"s3://{name.path} can't be written: {failure}"
            raise TransferFailed(sentence) from None


class _ContentFile(io.RawIOBase):
    """Verified bytes of the journal, as a file that can be read again from any position."""

    def __init__(self, files: JournalFiles, layout: JournalLayout, parts: Sequence[BodyPart]) -> None:
        super().__init__()
        self._parts = parts
        self._ends = list(accumulate(part.size for part in parts))
        self._readers = [None if part.file is None else BodyReader(files, layout, part.file) for part in parts]
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._ends[-1] if self._ends else 0}
        self._position = base[whence] + offset
        return self._position

    def readinto(self, target: Any) -> int:
        for part, reader, end in zip(self._parts, self._readers, self._ends, strict=True):
            start = self._position - (end - part.size)
            if start >= part.size:
                continue
            stop = min(part.size, start + len(target), (start // SLICE + 1) * SLICE)
            piece = part.content[start:stop] if reader is None else reader.read(Span(start, stop))
            target[: len(piece)] = piece
            self._position += len(piece)
            return len(piece)
        return 0

    def close(self) -> None:
        for reader in self._readers:
            if reader is not None:
                reader.close()
        super().close()


def _is_opaque(answer: Mapping[str, Any]) -> bool:
    """Whether the ETag of an object says nothing of its bytes."""
    return str(answer.get("ServerSideEncryption", "")).startswith(_KMS)


def _verify(name: ObjectName, found: str, expected: str) -> None:
    if not same_etag(found, expected):
        raise TransferFailed(f"s3://{name.path} has the ETag {found} there in place of {expected}.")


@contextmanager
def _headers(
    client: Any, operation: str, headers: HeaderPairs | Callable[[Mapping[str, Any]], HeaderPairs]
) -> Iterator[None]:
    """Adds headers to the requests of an operation: the same ones, or by its parameters."""

    def add(params: dict[str, Any], **_rest: object) -> None:
        for name, value in headers(params) if callable(headers) else headers:
            params["headers"][name] = value

    event = f"before-call.s3.{operation}"
    client.meta.events.register(event, add)
    try:
        yield
    finally:
        client.meta.events.unregister(event, add)


def _connect(endpoint: str) -> tuple[Any, Any]:
    """Returns a client of botocore's, and its errors. Raises TransferFailed."""
    import botocore.exceptions  # noqa: PLC0415 # 200 modules, which a check alone does not need
    from botocore.config import Config  # noqa: PLC0415 # likewise
    from botocore.session import Session  # noqa: PLC0415 # likewise

    session = Session()
    try:
        style = session.get_scoped_config().get("s3", {}).get("addressing_style", "path")
        client = session.create_client(
            "s3",
            region_name=session.get_config_variable("region") or _FALLBACK_REGION,
            endpoint_url=endpoint if "://" in endpoint else f"https://{endpoint}",
            config=Config(
                retries={"total_max_attempts": 5, "mode": "standard"},
                s3={"addressing_style": style},
                request_checksum_calculation="when_required",
                response_checksum_validation="when_required",
            ),
        )
    except (botocore.exceptions.BotoCoreError, ValueError) as failure:
        sentence = f"{endpoint} can't be used: {failure}"
        raise TransferFailed(sentence) from None
    return client, botocore.exceptions
