"""Form uploads: which requests they are, how a large file is streamed, and how the form is answered."""

import time
from collections.abc import AsyncIterator
from typing import Any

import pytest
from multidict import CIMultiDict, CIMultiDictProxy

from forebay.core.errors import S3Error
from forebay.core.names import ObjectName
from forebay.core.request_record import RequestRecord
from forebay.core.requester import requester
from forebay.policy.grants import Grant, Principal
from forebay.policy.path_patterns import Pattern
from forebay.policy.rules import Rule, Rules
from forebay.protocol.exchange import EMPTY_BODY, Request
from forebay.protocol.forms.form_reader import FormReader
from forebay.protocol.operations import Access
from forebay.protocol.target import parse_target
from forebay.request.admission import GatewayPolicy
from forebay.request.authentication import Keyring
from forebay.request.form_upload import FormUpload, StreamedFile, form_reply, is_form
from harness.memory_exchange import MemoryBody, MemoryReply

HEAD = b'--B\r\nContent-Disposition: form-data; name="file"\r\n\r\n'
END = b"\r\n--B--\r\n"


@pytest.mark.parametrize(
    ("method", "target", "content_type", "expected"),
    [
        ("POST", "/b", "multipart/form-data; boundary=B", True),
        ("POST", "/b", 'multipart/form-data; boundary="B"', True),
        ("POST", "/b", "text/plain", False),
        ("PUT", "/b", "multipart/form-data; boundary=B", False),
        ("POST", "/b/k", "multipart/form-data; boundary=B", False),
        ("POST", "/b?delete", "multipart/form-data; boundary=B", False),
        ("POST", "/", "multipart/form-data; boundary=B", False),
    ],
)
def test_a_form_is_a_post_to_a_bucket(method: str, target: str, content_type: str, expected: bool) -> None:
    headers = CIMultiDictProxy(CIMultiDict({"Content-Type": content_type}))
    request = Request(method, target, "h", headers, EMPTY_BODY, True, 0.0, "")
    assert is_form(request, parse_target(target, "h", ())) is expected


def test_a_form_without_a_boundary_is_refused() -> None:
    headers = CIMultiDictProxy(CIMultiDict({"Content-Type": "multipart/form-data"}))
    with pytest.raises(S3Error, match="boundary"):
        is_form(Request("POST", "/b", "h", headers, EMPTY_BODY, True, 0.0, ""), parse_target("/b", "h", ()))


async def pieces_of(data: bytes, size: int) -> AsyncIterator[bytes]:
    for at in range(0, len(data), size):
        yield data[at : at + size]


async def streamed(content: bytes, behind: bytes, size: int) -> bytes:
    """The file of a form as it is streamed; `size`: of the pieces that the form is received in."""
    form, pieces, first = FormReader("B"), pieces_of(HEAD + content + behind, size), b""
    while not form.is_at_file:
        first = form.feed(await anext(pieces))
    file = StreamedFile(form, first, pieces, len(content + behind) - form.usual_epilogue_size)
    return b"".join([piece async for piece in file.pieces()])


@pytest.mark.parametrize("size", [1, 7, 64, 1000])
async def test_a_file_is_streamed_whole(size: int) -> None:
    assert await streamed(b"content" * 20, END, size) == b"content" * 20


@pytest.mark.parametrize("size", [1, 7, 64, 1000])
async def test_a_form_that_breaks_off_is_no_whole_file(size: int) -> None:
    for behind in (b"", END[:4], b"and more than was announced"):
        with pytest.raises(S3Error) as caught:
            await streamed(b"content" * 20, behind, size)
        assert caught.value.code == "MalformedPOSTRequest"


async def test_a_file_without_its_end_is_never_taken_for_whole() -> None:
    form = FormReader("B")
    file = StreamedFile(form, form.feed(HEAD + b"12345678"), pieces_of(b"9", 1), 9)
    with pytest.raises(S3Error, match="within a field"):
        assert not [piece async for piece in file.pieces()]


async def test_a_file_never_has_more_bytes_than_its_announced_length() -> None:
    form, received = FormReader("B"), bytearray()
    first = form.feed(HEAD + b"1234")
    file = StreamedFile(form, first, pieces_of(b"5678" + END, 4), 6)

    async def receive() -> None:
        async for piece in file.pieces():
            received.extend(piece)

    with pytest.raises(S3Error, match="last field"):
        await receive()
    assert len(received) <= 6


@pytest.mark.parametrize("size", [1, 7, 64, 1000])
async def test_a_field_behind_a_large_file_is_refused(size: int) -> None:
    behind = b'\r\n--B\r\nContent-Disposition: form-data; name="x"\r\n\r\nlate' + END
    with pytest.raises(S3Error):
        await streamed(b"content" * 20, behind, size)


@pytest.mark.parametrize(
    ("fields", "status", "body"),
    [({}, 204, b""), ({"success_action_status": "200"}, 200, b""), ({"success_action_status": "201"}, 201, b"<?xml")],
)
async def test_a_success_is_answered_as_the_form_wishes(fields: dict[str, str], status: int, body: bytes) -> None:
    inner = MemoryReply()
    reply = form_reply(inner, fields, ObjectName("b", "k"))
    await reply.start(200, (("ETag", '"e"'), ("Content-Type", "application/xml")), 0)
    await reply.finish()
    assert (inner.status, inner.finished, inner.headers["Location"]) == (status, True, "/b/k")
    assert inner.body.startswith(body)
    assert inner.length in {None, len(inner.body)}


async def test_an_error_passes_unchanged() -> None:
    inner = MemoryReply()
    reply = form_reply(inner, {"success_action_status": "201"}, ObjectName("b", "k"))
    await reply.start(403, (("Content-Type", "application/xml"),), 3)
    await reply.write(b"<E>")
    await reply.finish()
    assert (inner.status, bytes(inner.body), inner.headers["Content-Type"]) == (403, b"<E>", "application/xml")


class Writer:
    """In place of the writer of objects: takes note of what it was given, and for whom."""

    def __init__(self) -> None:
        self.written: list[tuple[ObjectName, str]] = []

    async def write(self, context: Any) -> None:
        self.written.append((context.forward.target.name, requester.get()))


EVERYBODY = Principal("everybody", (Grant(Pattern("**"), frozenset(Access)),))


async def answered(body: bytes, keyring: Keyring, **more: str) -> tuple[Writer, RequestRecord]:
    """What becomes of a form."""
    policy = GatewayPolicy(keyring, Rules([Rule("b/up/**", name="uploads")]), (), {})
    pairs = {"Content-Type": "multipart/form-data; boundary=B", "Content_Length": str(len(body)), **more}
    headers = CIMultiDictProxy(CIMultiDict({name.replace("_", "-"): value for name, value in pairs.items()}))
    request = Request("POST", "/b", "h", headers, MemoryBody([body]), True, time.time(), "")
    writer, record = Writer(), RequestRecord("POST", time.monotonic(), "ID")
    upload: Any = FormUpload(writer)  # type: ignore[arg-type] # a fake
    await upload.answer(policy, request, parse_target("/b", "h", ()), MemoryReply(), record)
    return writer, record


KEY = b'--B\r\nContent-Disposition: form-data; name="key"\r\n\r\nup/k\r\n'


@pytest.mark.parametrize("more", [{}, {"Authorization": "AWS4-HMAC-SHA256 Credential=a/20260101/r/s3/aws4_request"}])
async def test_open_mode_takes_forms_without_a_policy(more: dict[str, str]) -> None:
    """Whatever else they are signed with; the turns at the origin are those of whom the form is by."""
    writer, record = await answered(KEY + HEAD + b"content" + END, Keyring({}, {}, EVERYBODY), **more)
    assert writer.written == [(ObjectName("b", "up/k"), "everybody")]
    assert (record.principal, record.rule) == ("everybody", "uploads")


@pytest.mark.parametrize(("body", "code"), [(KEY + b"--B--\r\n", "InvalidArgument"), (KEY, "MalformedPOSTRequest")])
async def test_a_form_without_a_file_is_refused_as_such(body: bytes, code: str) -> None:
    """Before its signature, which may be cut off as well."""
    with pytest.raises(S3Error) as refused:
        await answered(body, Keyring({}, {}))
    assert refused.value.code == code


@pytest.mark.parametrize("length", ["x", "-1", "", "\u0663", "1" * 20])
async def test_a_length_that_is_none_is_refused(length: str) -> None:
    with pytest.raises(S3Error) as refused:
        await answered(KEY + HEAD + END, Keyring({}, {}, EVERYBODY), Content_Length=length)
    assert refused.value.code == "InvalidArgument"
