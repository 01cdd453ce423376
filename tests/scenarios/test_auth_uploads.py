"""Uploads in every framing of SigV4: what is right arrives as it was sent, what is not right becomes no object."""

from pathlib import Path

import pytest

from harness.aws_chunked import Framing
from harness.clients import UNSIGNED_PAYLOAD, Pairs, RawRequest, chunked
from harness.fake.checksums import ALGORITHMS, digest_of
from harness.fake_origin import FakeOrigin
from harness.inspection import error_code
from harness.raw_connection import head_bytes
from harness.reference_sigv4 import SIGNED_CHUNKS, SIGNED_CHUNKS_TRAILER, UNSIGNED_CHUNKS_TRAILER, Secret
from harness.rig import READER, Rig

TARGET = "/bucket/key"
KINDS = (SIGNED_CHUNKS, SIGNED_CHUNKS_TRAILER, UNSIGNED_CHUNKS_TRAILER)
FOREVER = '[[rules]]\npath = "**"\nfreshness = "immutable"\nwarm_on_write = true\n'
BODY = bytes(range(256)) * 1000


def stored(origin: FakeOrigin) -> bytes:
    content = origin.store.get("bucket", "key").content
    return b"".join(content.views(0, content.size))


@pytest.mark.parametrize("dialect", ["swift", "aws", "ceph"])
@pytest.mark.parametrize("transfer", ["length", "chunked"])
@pytest.mark.parametrize("size", [0, 1, 70_000])
@pytest.mark.parametrize("kind", KINDS)
async def test_each_framing_arrives(tmp_path: Path, kind: str, size: int, transfer: str, dialect: str) -> None:
    async with (
        FakeOrigin() as origin,
        Rig(origin.endpoint, origin.secret, tmp_path, dialect=dialect, rest=FOREVER) as rig,
    ):
        origin.store.put("bucket", "key", b"old")
        client, body = rig.client(), BODY[:size]
        headers = (("Content-Type", "text/plain"), ("x-amz-meta-colour", "blue"))
        request = client.sign("PUT", TARGET, headers, body, framing=Framing(kind, 8192))
        answer = await client.send(chunked(request) if transfer == "chunked" else request)
        assert (answer.status, stored(origin)) == (200, body)
        got = await client.request("GET", TARGET)
        assert (got.body, got.headers["x-amz-meta-colour"]) == (body, "blue")
        assert "Content-Encoding" not in got.headers


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("kind", [SIGNED_CHUNKS_TRAILER, UNSIGNED_CHUNKS_TRAILER])
async def test_each_trailing_checksum_is_verified_and_reaches_the_origin(
    tmp_path: Path, kind: str, algorithm: str
) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path) as rig:
        origin.store.create_bucket("bucket")
        answer = await rig.client().request("PUT", TARGET, (), BODY, framing=Framing(kind, algorithm=algorithm))
        assert answer.headers[f"x-amz-checksum-{algorithm}"] == digest_of(algorithm, BODY)
        wrong = Framing(kind, algorithm=algorithm, checksum=digest_of(algorithm, b"other"))
        answer = await rig.client().request("PUT", TARGET, (), b"", framing=wrong)
        assert (answer.status, error_code(answer)) == (400, "BadDigest")
        assert stored(origin) == BODY


async def test_an_encoding_of_the_object_itself_is_kept(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path) as rig:
        origin.store.create_bucket("bucket")
        client, framing = rig.client(), Framing(UNSIGNED_CHUNKS_TRAILER)
        request = client.sign("PUT", TARGET, (("Content-Encoding", "gzip"),), b"zipped", framing=framing)
        assert (await client.send(request)).status == 200
        assert (await client.request("GET", TARGET)).headers["Content-Encoding"] == "gzip"


def spoiled(index: int) -> Framing:
    return Framing(SIGNED_CHUNKS_TRAILER, 8192, spoil=lambda at, right: "0" * 64 if at == index else right)


def cut(request: RawRequest, drop: int) -> RawRequest:
    """Shorter than was announced to the framing, but whole to HTTP."""
    pairs = tuple(
        (name, str(len(request.body) - drop) if name == "Content-Length" else value) for name, value in request.pairs
    )
    return RawRequest(request.method, request.target, pairs, request.body[:-drop])


BAD: dict[str, tuple[Pairs, str | None, Framing | None, int, str]] = {
    "first chunk's signature": ((), None, spoiled(0), 0, "SignatureDoesNotMatch"),
    "middle chunk's signature": ((), None, spoiled(3), 0, "SignatureDoesNotMatch"),
    "last chunk's signature": ((), None, spoiled(32), 0, "SignatureDoesNotMatch"),
    "trailer's signature": ((), None, spoiled(-1), 0, "SignatureDoesNotMatch"),
    "trailing checksum": ((), None, Framing(UNSIGNED_CHUNKS_TRAILER, checksum="AAAAAQ=="), 0, "BadDigest"),
    "trailer left out": ((), None, Framing(UNSIGNED_CHUNKS_TRAILER), 34, ""),
    "cut in the middle": ((), None, Framing(SIGNED_CHUNKS), 100_000, "IncompleteBody"),
    "cut in the last chunk": ((), None, Framing(SIGNED_CHUNKS), 4, ""),
    "decoded length": ((("x-amz-decoded-content-length", "255999"),), None, Framing(SIGNED_CHUNKS), 0, ""),
    "hash": ((), "0" * 64, None, 0, "XAmzContentSHA256Mismatch"),
    "hash of a form that nobody knows": ((), "STREAMING-SOMETHING", None, 0, "InvalidArgument"),
    "version 4A": ((), "STREAMING-AWS4-ECDSA-P256-SHA256-PAYLOAD", None, 0, "NotImplemented"),
    "md5": ((("Content-MD5", "AAAAAAAAAAAAAAAAAAAAAA=="),), None, None, 0, "BadDigest"),
    "md5 that is none": ((("Content-MD5", "x"),), None, None, 0, "InvalidDigest"),
    "checksum": ((("x-amz-checksum-crc32c", "AAAAAQ=="),), UNSIGNED_PAYLOAD, None, 0, "BadDigest"),
    "checksum of a kind that nobody knows": ((("x-amz-checksum-crc31", "AAAAAA=="),), None, None, 0, ""),
}


@pytest.mark.parametrize("size", [len(BODY), 0], ids=["full", "empty"])
@pytest.mark.parametrize("name", BAD)
async def test_invalid_upload_creates_no_object(tmp_path: Path, name: str, size: int) -> None:
    headers, payload, framing, drop, code = BAD[name]
    if not size and (drop > 4 or name in {"middle chunk's signature", "last chunk's signature"}):
        return  # an empty body has no such place
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, rest=FOREVER) as rig:
        origin.store.put("bucket", "key", b"old")
        client = rig.client()
        assert (await client.request("GET", TARGET)).body == b"old"
        request = client.sign("PUT", TARGET, headers, BODY[:size], payload=payload, framing=framing)
        answer = await client.send(cut(request, drop) if drop else request)
        assert 400 <= answer.status < 600
        if code:
            assert error_code(answer) == code
        await rig.wait_idle()
        await origin.log.wait_idle()
        assert stored(origin) == b"old"
        assert (await client.request("GET", TARGET)).body == b"old"


@pytest.mark.parametrize(
    ("secret", "code"),
    [(READER, "AccessDenied"), (Secret("trainer", "wrong"), "SignatureDoesNotMatch")],
)
async def test_100_continue_is_sent_after_authentication(tmp_path: Path, secret: Secret, code: str) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path) as rig:
        origin.store.create_bucket("bucket")
        for who, status in ((secret, 403), (None, 100)):
            client = rig.client(who) if who is not None else rig.client()
            request = client.sign("PUT", TARGET, (("Expect", "100-continue"),), BODY)
            async with await client.open() as connection:
                await connection.send(head_bytes(request.method, request.target, request.pairs))
                first = await connection.read_head("100-continue")
                assert first.status == status
                if status == 403:
                    body, _ = await connection.read_rest()
                    assert code.encode() in body
                    assert first.headers["Connection"] == "close"
                    continue
                await connection.send(BODY)
                assert (await connection.answer()).status == 200
        assert stored(origin) == BODY
