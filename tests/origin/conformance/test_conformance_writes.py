"""PutObject with its digests and framings, copies, deletes."""

import base64
import hashlib

import pytest

from harness.aws_chunked import Framing
from harness.conformance import Subject, code, parsed, texts
from harness.fake.checksums import ALGORITHMS, digest_of
from harness.quirks import Quirk
from harness.reference_sigv4 import SIGNED_CHUNKS, SIGNED_CHUNKS_TRAILER, UNSIGNED, UNSIGNED_CHUNKS_TRAILER

BODY = bytes(range(256)) * 80  # three chunks of 8 KiB, the last one short
KINDS = [SIGNED_CHUNKS, SIGNED_CHUNKS_TRAILER, UNSIGNED_CHUNKS_TRAILER]


def md5(body: bytes) -> str:
    return base64.b64encode(hashlib.md5(body, usedforsecurity=False).digest()).decode()


async def test_the_etag_is_the_md5(origin: Subject) -> None:
    kept = await origin.put(BODY)
    digest = hashlib.md5(BODY, usedforsecurity=False).hexdigest()
    assert kept.etag == f'"{origin.etag(digest)}"'


async def test_a_put_replaces_everything(origin: Subject) -> None:
    kept = await origin.put(BODY, None, ("x-amz-meta-colour", "blue"))
    again = await origin.put(b"new", kept.key)
    answer = await origin.get(kept.key)
    assert (answer.body, answer.headers["ETag"]) == (b"new", again.etag)
    assert "x-amz-meta-colour" not in answer.headers


async def test_content_md5(origin: Subject) -> None:
    assert (await origin.ask("PUT", "md5", [("Content-MD5", md5(BODY))], BODY)).status == 200
    wrong = await origin.ask("PUT", "md5-wrong", [("Content-MD5", md5(b"other"))], BODY)
    assert (wrong.status, code(wrong)) == (400, "BadDigest")
    invalid = await origin.ask("PUT", "md5-wrong", [("Content-MD5", "AAAA")], BODY)
    assert (invalid.status, code(invalid)) == (400, "InvalidDigest")
    assert (await origin.get("md5-wrong")).status == 404


async def test_the_payload_hash_is_verified(origin: Subject) -> None:
    digest = hashlib.sha256(b"other").hexdigest()
    wrong = await origin.client.request("PUT", origin.target("sha"), body=BODY, payload=digest)
    assert (wrong.status, code(wrong)) == (400, "XAmzContentSHA256Mismatch")
    assert (await origin.get("sha")).status == 404
    unsigned = await origin.client.request("PUT", origin.target("sha"), body=BODY, payload=UNSIGNED)
    assert unsigned.status == 200


@pytest.mark.parametrize("algorithm", ALGORITHMS)
async def test_a_checksum_header_is_verified(origin: Subject, algorithm: str) -> None:
    name, key = f"x-amz-checksum-{algorithm}", f"checksum-{algorithm}"
    wrong = await origin.ask("PUT", key, [(name, digest_of(algorithm, b"other"))], BODY)
    assert wrong.status == 400
    assert code(wrong) in {"BadDigest", "InvalidRequest"}
    assert (await origin.get(key)).status == 404
    assert (await origin.ask("PUT", key, [(name, digest_of(algorithm, BODY))], BODY)).status == 200
    head = await origin.ask("HEAD", key, [("x-amz-checksum-mode", "ENABLED")])
    if origin.has(Quirk.RETURNS_NO_CHECKSUMS):
        assert name not in head.headers
    else:
        assert head.headers[name] == digest_of(algorithm, BODY)
        assert name not in (await origin.ask("HEAD", key)).headers
        ranged = await origin.get(key, ("x-amz-checksum-mode", "ENABLED"), ("Range", "bytes=0-9"))
        assert name not in ranged.headers


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("body", [BODY, b"", b"short"], ids=["long", "empty", "short"])
async def test_aws_chunked_is_undone(origin: Subject, kind: str, body: bytes) -> None:
    framing = Framing(kind, size=8192)
    answer = await origin.client.request("PUT", origin.target(f"framed-{kind}"), body=body, framing=framing)
    assert answer.status == 200, answer
    got = await origin.get(f"framed-{kind}")
    assert got.body == body
    assert "aws-chunked" not in got.headers.get("Content-Encoding", "")


async def test_a_trailer_as_it_is_documented(origin: Subject) -> None:
    framing = Framing(SIGNED_CHUNKS_TRAILER, end=b"\n\r\n")
    answer = await origin.client.request("PUT", origin.target("documented"), body=BODY, framing=framing)
    assert answer.status == (400 if origin.has(Quirk.TRAILERS_END_IN_CRLF_ONLY) else 200)


@pytest.mark.parametrize("kind", [SIGNED_CHUNKS, SIGNED_CHUNKS_TRAILER])
@pytest.mark.parametrize("spoilt", [0, 1, 3], ids=["first", "second", "last"])
async def test_a_wrong_chunk_signature(origin: Subject, kind: str, spoilt: int) -> None:
    framing = Framing(kind, size=8192, spoil=lambda index, right: "0" * 64 if index == spoilt else right)
    key = f"spoilt-{kind}-{spoilt}"
    answer = await origin.client.request("PUT", origin.target(key), body=BODY, framing=framing)
    assert (answer.status, code(answer)) == (403, "SignatureDoesNotMatch")
    assert (await origin.get(key)).status == 404


async def test_a_wrong_trailer_signature(origin: Subject) -> None:
    framing = Framing(SIGNED_CHUNKS_TRAILER, spoil=lambda index, right: "0" * 64 if index == -1 else right)
    answer = await origin.client.request("PUT", origin.target("spoilt-trailer"), body=BODY, framing=framing)
    assert (answer.status, code(answer)) == (403, "SignatureDoesNotMatch")


@pytest.mark.parametrize("kind", [SIGNED_CHUNKS_TRAILER, UNSIGNED_CHUNKS_TRAILER])
async def test_a_wrong_trailer_checksum(origin: Subject, kind: str) -> None:
    framing = Framing(kind, checksum=digest_of("crc32", b"other"))
    answer = await origin.client.request("PUT", origin.target(f"crc-{kind}"), body=BODY, framing=framing)
    assert answer.status == 400
    assert code(answer) in {"BadDigest", "InvalidRequest"}
    assert (await origin.get(f"crc-{kind}")).status == 404


async def test_a_copy(origin: Subject) -> None:
    kept = await origin.put(BODY, None, ("Content-Type", "text/plain"), ("x-amz-meta-colour", "blue"))
    source = ("x-amz-copy-source", f"/{origin.bucket}/{kept.key}")
    answer = await origin.ask("PUT", f"{kept.key}-copy", [source])
    assert answer.status == 200
    assert parsed(answer).findtext("ETag", "").strip('"') == kept.etag.strip('"')
    copied = await origin.get(f"{kept.key}-copy")
    assert (copied.body, copied.headers["Content-Type"]) == (BODY, "text/plain")
    assert copied.headers["x-amz-meta-colour"] == "blue"
    replaced = [source, ("x-amz-metadata-directive", "REPLACE"), ("Content-Type", "a/b"), ("x-amz-meta-size", "xl")]
    assert (await origin.ask("PUT", f"{kept.key}-copy", replaced)).status == 200
    copied = await origin.get(f"{kept.key}-copy")
    assert (copied.body, copied.headers["Content-Type"], copied.headers["x-amz-meta-size"]) == (BODY, "a/b", "xl")
    assert "x-amz-meta-colour" not in copied.headers


async def test_a_copy_with_conditions(origin: Subject) -> None:
    kept = await origin.put(BODY)
    source, other = ("x-amz-copy-source", f"/{origin.bucket}/{kept.key}"), '"' + "0" * 32 + '"'
    for name, value, status in [
        ("if-match", kept.etag, 200),
        ("if-match", other, 412),
        ("if-none-match", kept.etag, 412),
        ("if-none-match", other, 200),
        ("if-modified-since", kept.modified, 412),
        ("if-unmodified-since", kept.modified, 200),
    ]:
        answer = await origin.ask("PUT", f"{kept.key}-to", [source, (f"x-amz-copy-source-{name}", value)])
        assert answer.status == status, (name, answer)


async def test_copy_of_a_missing_object(origin: Subject) -> None:
    answer = await origin.ask("PUT", "to", [("x-amz-copy-source", f"/{origin.bucket}/no-such-key")])
    assert (answer.status, code(answer)) == (404, "NoSuchKey")


async def test_a_copy_onto_itself_must_change_something(origin: Subject) -> None:
    kept = await origin.put(BODY)
    source = ("x-amz-copy-source", f"/{origin.bucket}/{kept.key}")
    answer = await origin.ask("PUT", kept.key, [source])
    assert (answer.status, code(answer)) == (400, "InvalidRequest")
    assert (await origin.ask("PUT", kept.key, [source, ("x-amz-metadata-directive", "REPLACE")])).status == 200


async def test_delete(origin: Subject) -> None:
    kept = await origin.put(BODY)
    assert (await origin.ask("DELETE", kept.key)).status == 204
    assert (await origin.get(kept.key)).status == 404
    assert (await origin.ask("DELETE", kept.key)).status == 204


async def test_batch_delete(origin: Subject) -> None:
    keys = [(await origin.put(BODY)).key for _ in range(2)] + ["never there", "a&b<c>"]
    listed = "".join(f"<Object><Key>{key.replace('&', '&amp;').replace('<', '&lt;')}</Key></Object>" for key in keys)
    body = f"<Delete>{listed}</Delete>".encode()
    answer = await origin.ask("POST", None, [("Content-MD5", md5(body))], body, delete="")
    assert answer.status == 200
    assert sorted(texts(answer, "Deleted/Key")) == sorted(keys)
    assert [(await origin.get(key)).status for key in keys[:2]] == [404, 404]


async def test_a_quiet_batch_delete(origin: Subject) -> None:
    kept = await origin.put(BODY)
    body = f"<Delete><Quiet>true</Quiet><Object><Key>{kept.key}</Key></Object></Delete>".encode()
    answer = await origin.ask("POST", None, [("Content-MD5", md5(body))], body, delete="")
    assert (answer.status, texts(answer, "Deleted/Key")) == (200, [])
    assert (await origin.get(kept.key)).status == 404


async def test_a_malformed_batch_delete(origin: Subject) -> None:
    body = b"<Delete><Object><Key>a"
    answer = await origin.ask("POST", None, [("Content-MD5", md5(body))], body, delete="")
    assert (answer.status, code(answer)) == (400, "MalformedXML")


async def test_tags(origin: Subject) -> None:
    kept = await origin.put(BODY)
    body = b"<Tagging><TagSet><Tag><Key>a</Key><Value>b</Value></Tag></TagSet></Tagging>"
    answer = await origin.ask("PUT", kept.key, [("Content-MD5", md5(body))], body, tagging="")
    if origin.has(Quirk.NO_TAGS):
        assert answer.status == 501
        return
    assert answer.status == 200
    got = await origin.get(kept.key, tagging="")
    assert (texts(got, "TagSet/Tag/Key"), texts(got, "TagSet/Tag/Value")) == (["a"], ["b"])
    assert (await origin.get(kept.key)).headers["x-amz-tagging-count"] == "1"
    assert (await origin.get(kept.key)).headers["ETag"] == kept.etag
    assert (await origin.ask("DELETE", kept.key, tagging="")).status == 204
    assert texts(await origin.get(kept.key, tagging=""), "TagSet/Tag/Key") == []
