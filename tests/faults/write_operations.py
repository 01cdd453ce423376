"""The writes of the fault matrix, as data. An acknowledged write is at the origin, whole."""

import base64
import hmac
import json
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from hashlib import md5
from random import Random
from typing import Final

from faults.read_operations import LARGE, SMALL, Operation, document_of, is_of
from faults.scene import SMALLEST, Scene, bytes_of
from harness.aws_chunked import Framing
from harness.clients import chunked, path_of
from harness.raw_connection import RawAnswer
from harness.reference_sigv4 import UNSIGNED_CHUNKS_TRAILER

WRITTEN: Final = Random(4).randbytes(200_000)
PART: Final = Random(5).randbytes(SMALLEST)
LAST_PART: Final = Random(6).randbytes(70_000)
OTHER: Final = "minute/other"
_BOUNDARY: Final = "boundary-of-the-form"
_XML: Final = ("Content-Type", "application/xml")
_TAGS: Final = b"<Tagging><TagSet><Tag><Key>a</Key><Value>b</Value></Tag></TagSet></Tagging>"


async def _cached(scene: Scene) -> None:
    scene.versions = [scene.put(LARGE)]
    await scene.read_into_cache()


async def _cached_warm(scene: Scene) -> None:
    scene.key = "warm/key"
    await _cached(scene)


async def _new(scene: Scene) -> None:
    scene.origin.store.create_bucket(scene.bucket)


async def _two_cached(scene: Scene) -> None:
    await _cached(scene)
    scene.put(SMALL, OTHER)
    assert (await scene.client.request("GET", scene.target(OTHER))).status == 200


async def _with_source(scene: Scene) -> None:
    await _cached(scene)
    scene.put(WRITTEN, OTHER)


def _put(*headers: tuple[str, str], body: bytes = WRITTEN, framing: Framing | None = None) -> "Perform":
    async def perform(scene: Scene) -> RawAnswer:
        return await scene.client.request("PUT", scene.target(), headers, body, framing=framing)

    return perform


Perform = Callable[[Scene], Awaitable[RawAnswer]]


def _holds(body: bytes) -> Callable[[Scene, RawAnswer], str]:
    """The object has this body at the origin, and the answer says so."""

    def complaint(scene: Scene, answer: RawAnswer) -> str:
        current = scene.current()
        if current is None or bytes_of(current) != body:
            return "acknowledged, but not at the origin"
        etag = answer.headers.get("ETag", current.etag).removeprefix("W/")
        return "" if is_of(etag, current.etag) else f"another ETag: {etag}"

    return complaint


def _document_holds(root: str, body: bytes) -> Callable[[Scene, RawAnswer], str]:
    """The same of an operation whose outcome is in its answer's body."""

    def complaint(scene: Scene, answer: RawAnswer) -> str:
        tree = document_of(answer)
        if tree is None or tree.tag == "Error":
            return ""  # each client sees that it failed
        return _holds(body)(scene, answer) if tree.tag == root else f"an answer to something else: {tree.tag}"

    return complaint


async def _put_without_length(scene: Scene) -> RawAnswer:
    signed = scene.client.sign("PUT", scene.target(), (), WRITTEN)
    return await scene.client.send(chunked(signed, 50_000))


async def _copy(scene: Scene) -> RawAnswer:
    return await scene.client.request("PUT", scene.target(), [("x-amz-copy-source", path_of(scene.bucket, OTHER))])


async def _delete(scene: Scene) -> RawAnswer:
    return await scene.client.request("DELETE", scene.target())


def _deleted(scene: Scene, _answer: RawAnswer) -> str:
    return "" if scene.current() is None else "acknowledged, but still there"


def _listed_keys(scene: Scene) -> bytes:
    keys = "".join(f"<Object><Key>{key}</Key></Object>" for key in (scene.key, OTHER))
    return f"<Delete>{keys}</Delete>".encode()


async def _delete_both(scene: Scene) -> RawAnswer:
    body = _listed_keys(scene)
    digest = base64.b64encode(md5(body, usedforsecurity=False).digest()).decode()
    return await scene.client.request("POST", scene.bucket_target("delete"), [("Content-MD5", digest), _XML], body)


async def _oss_delete_both(scene: Scene) -> RawAnswer:
    return await scene.oss.document("POST", scene.bucket_target("delete"), _listed_keys(scene))


def _both_deleted(scene: Scene, answer: RawAnswer) -> str:
    tree = document_of(answer)
    if tree is None or tree.tag == "Error":
        return ""
    if tree.tag != "DeleteResult":
        return f"an answer to something else: {tree.tag}"
    done = {each.findtext("Key") for each in tree.iterfind("Deleted")}
    left = [key for key in (scene.key, OTHER) if key in done and scene.current(key) is not None]
    return f"acknowledged, but still there: {left}" if left else ""


async def _post_form(scene: Scene) -> RawAnswer:
    expiration = datetime.fromtimestamp(time.time() + 600, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    conditions: list[object] = [{"bucket": scene.bucket}, ["starts-with", "$key", ""]]
    policy = base64.b64encode(json.dumps({"expiration": expiration, "conditions": conditions}).encode()).decode()
    secret = scene.client.secret
    signature = base64.b64encode(hmac.digest(secret.secret.encode(), policy.encode(), "sha1")).decode()
    fields = {"key": scene.key, "AWSAccessKeyId": secret.access, "policy": policy, "signature": signature}
    parts = [
        f'--{_BOUNDARY}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'.encode()
        for name, value in fields.items()
    ]
    head = f'--{_BOUNDARY}\r\nContent-Disposition: form-data; name="file"; filename="f"\r\n\r\n'.encode()
    body = b"".join([*parts, head, WRITTEN, f"\r\n--{_BOUNDARY}--\r\n".encode()])
    headers = [("Content-Type", f"multipart/form-data; boundary={_BOUNDARY}")]
    return await scene.client.unsigned("POST", scene.bucket_target(), headers, body)


async def _put_tags(scene: Scene) -> RawAnswer:
    return await scene.client.request("PUT", scene.target(tagging=""), [_XML], _TAGS)


def _tagged(scene: Scene, _answer: RawAnswer) -> str:
    current = scene.current()
    return "" if current is not None and current.tags == (("a", "b"),) else "acknowledged, but not at the origin"


# Uploads in parts


async def _create(scene: Scene) -> RawAnswer:
    return await scene.client.request("POST", scene.target(uploads=""))


def _created(scene: Scene, answer: RawAnswer) -> str:
    tree = document_of(answer)
    if tree is None or tree.tag == "Error":
        return ""
    upload = tree.findtext("UploadId")
    return "" if upload in scene.origin.store.bucket(scene.bucket).uploads else f"no such upload: {upload}"


async def _begun(scene: Scene) -> None:
    await _cached(scene)
    await _begin(scene)


async def _begin(scene: Scene) -> None:
    tree = document_of(await _create(scene))
    assert tree is not None
    scene.notes["upload"] = tree.findtext("UploadId") or ""


async def _part(scene: Scene, number: int, body: bytes) -> RawAnswer:
    return await scene.client.request(
        "PUT", scene.target(partNumber=str(number), uploadId=scene.notes["upload"]), (), body
    )


async def _send_part(scene: Scene) -> RawAnswer:
    return await _part(scene, 1, LAST_PART)


def _part_is_there(scene: Scene, answer: RawAnswer) -> str:
    upload = scene.origin.store.bucket(scene.bucket).uploads.get(scene.notes["upload"])
    part = upload.parts.get(1) if upload is not None else None
    if part is None or bytes_of(part) != LAST_PART:
        return "acknowledged, but not at the origin"
    etag = answer.headers.get("ETag", part.etag).removeprefix("W/")
    return "" if is_of(etag, part.etag) else f"another ETag: {etag}"


async def _copy_part(scene: Scene) -> RawAnswer:
    target = scene.target(partNumber="1", uploadId=scene.notes["upload"])
    return await scene.client.request("PUT", target, [("x-amz-copy-source", path_of(scene.bucket, OTHER))])


def _part_is_copied(scene: Scene, answer: RawAnswer) -> str:
    tree = document_of(answer)
    if tree is None or tree.tag == "Error":
        return ""
    if tree.tag != "CopyPartResult":
        return f"an answer to something else: {tree.tag}"
    upload = scene.origin.store.bucket(scene.bucket).uploads.get(scene.notes["upload"])
    part = upload.parts.get(1) if upload is not None else None
    return "" if part is not None and bytes_of(part) == WRITTEN else "acknowledged, but not at the origin"


async def _begun_with_source(scene: Scene) -> None:
    await _begun(scene)
    scene.put(WRITTEN, OTHER)


async def _sent(scene: Scene) -> None:
    await _begun(scene)
    await _send_both(scene)


async def _send_both(scene: Scene) -> None:
    for number, body in ((1, PART), (2, LAST_PART)):
        answer = await _part(scene, number, body)
        assert answer.status == 200, answer
        scene.notes[f"part {number}"] = answer.headers["ETag"]


async def _sent_warm(scene: Scene) -> None:
    await _cached_warm(scene)
    await _begin(scene)
    await _send_both(scene)


async def _complete(scene: Scene) -> RawAnswer:
    listed = "".join(
        f"<Part><PartNumber>{number}</PartNumber><ETag>{scene.notes[f'part {number}']}</ETag></Part>"
        for number in (1, 2)
    )
    body = f"<CompleteMultipartUpload>{listed}</CompleteMultipartUpload>".encode()
    return await scene.client.request("POST", scene.target(uploadId=scene.notes["upload"]), [_XML], body)


async def _abort(scene: Scene) -> RawAnswer:
    return await scene.client.request("DELETE", scene.target(uploadId=scene.notes["upload"]))


def _aborted(scene: Scene, _answer: RawAnswer) -> str:
    uploads = scene.origin.store.bucket(scene.bucket).uploads
    return "acknowledged, but still there" if scene.notes["upload"] in uploads else ""


async def _list_parts(scene: Scene) -> RawAnswer:
    return await scene.client.request("GET", scene.target(uploadId=scene.notes["upload"]))


def _parts_complaint(_scene: Scene, answer: RawAnswer) -> str:
    tree = document_of(answer)
    if tree is None or tree.tag == "Error":
        return ""
    found = [each.findtext("Size") for each in tree.iterfind("Part")]
    return "" if found == [str(len(PART)), str(len(LAST_PART))] else f"other parts: {found}"


# In OSS's dialect


async def _oss_put(scene: Scene) -> RawAnswer:
    return await scene.oss.request("PUT", scene.target(), (), WRITTEN)


async def _oss_copy(scene: Scene) -> RawAnswer:
    return await scene.oss.request("PUT", scene.target(), [("x-oss-copy-source", path_of(scene.bucket, OTHER))])


async def _oss_delete(scene: Scene) -> RawAnswer:
    return await scene.oss.request("DELETE", scene.target())


async def _oss_sent(scene: Scene) -> None:
    await _cached(scene)
    scene.notes["upload"] = await scene.oss.initiate(scene.target())
    for number, body in ((1, WRITTEN), (2, LAST_PART)):  # the first is too small for S3: both are joined
        answer = await scene.oss.part(scene.target(), scene.notes["upload"], number, body)
        scene.notes[f"part {number}"] = answer.headers["ETag"]


async def _oss_complete(scene: Scene) -> RawAnswer:
    parts = [(number, scene.notes[f"part {number}"]) for number in (1, 2)]
    return await scene.oss.complete(scene.target(), scene.notes["upload"], parts)


def _write(
    name: str,
    prepare: Callable[[Scene], Awaitable[None]],
    perform: Perform,
    complaint: Callable[[Scene, RawAnswer], str],
    *honest: int,
    oss: bool = False,
    origins: frozenset[str] = frozenset({"s3", "oss"}),
) -> Operation:
    uploads = name.removeprefix("OSS ").startswith(("PUT", "upload part", "form upload"))
    documents = name.removeprefix("OSS ").startswith(("DeleteObjects", "complete upload", "put tags"))
    return Operation(
        name, "write", prepare, perform, complaint, frozenset(honest or {200}), passes_on=True, is_of_object=False,
        sends_body=name != "PUT empty" and (uploads or documents), answers_etag=uploads, oss=oss, origins=origins,
    )  # fmt: skip


_ONLY_S3: Final = frozenset({"s3"})

WRITES: Final[tuple[Operation, ...]] = (
    _write("PUT", _cached, _put(), _holds(WRITTEN)),
    _write("PUT aws-chunked", _cached, _put(framing=Framing()), _holds(WRITTEN)),
    _write("PUT with a trailer", _cached, _put(framing=Framing(UNSIGNED_CHUNKS_TRAILER)), _holds(WRITTEN)),
    _write("PUT without a length", _cached, _put_without_length, _holds(WRITTEN)),
    _write("PUT empty", _cached, _put(body=b""), _holds(b"")),
    _write("PUT, warmed", _cached_warm, _put(), _holds(WRITTEN)),
    _write("PUT if new", _new, _put(("If-None-Match", "*")), _holds(WRITTEN), 200, origins=_ONLY_S3),
    _write("copy", _with_source, _copy, _document_holds("CopyObjectResult", WRITTEN)),
    _write("DELETE", _cached, _delete, _deleted, 204),
    _write("DeleteObjects", _two_cached, _delete_both, _both_deleted),
    _write("form upload", _cached, _post_form, _holds(WRITTEN), 204),
    _write("put tags", _cached, _put_tags, _tagged),
    _write("create upload", _cached, _create, _created),
    _write("upload part", _begun, _send_part, _part_is_there),
    _write("copy part", _begun_with_source, _copy_part, _part_is_copied),
    _write("complete upload", _sent, _complete, _document_holds("CompleteMultipartUploadResult", PART + LAST_PART)),
    _write("complete upload, warmed", _sent_warm, _complete,
           _document_holds("CompleteMultipartUploadResult", PART + LAST_PART)),
    _write("abort upload", _begun, _abort, _aborted, 204),
    Operation("list parts", "read", _sent, _list_parts, _parts_complaint, passes_on=True, is_of_object=False),
    _write("OSS PUT", _cached, _oss_put, _holds(WRITTEN), oss=True),
    _write("OSS copy", _with_source, _oss_copy, _document_holds("CopyObjectResult", WRITTEN), oss=True),
    _write("OSS DELETE", _cached, _oss_delete, _deleted, 204, oss=True),
    _write("OSS DeleteObjects", _two_cached, _oss_delete_both, _both_deleted, oss=True),
    _write("OSS complete upload", _oss_sent, _oss_complete,
           _document_holds("CompleteMultipartUploadResult", WRITTEN + LAST_PART), oss=True),
)  # fmt: skip
