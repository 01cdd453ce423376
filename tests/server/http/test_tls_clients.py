"""HTTPS end to end: unmodified clients through the TLS listener of a whole Forebay, to the fake origin and to Swift."""

import asyncio
import base64
import io
import logging
import random
import ssl
import zlib
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.config import Config

from forebay.server.config_source import ConfigSource
from forebay.server.worker import Worker
from harness.certificates import TestAuthority, install, tls_settings
from harness.clients import RawClient, path_of
from harness.fake.store import md5_etag
from harness.fake_origin import FakeOrigin
from harness.reference_sigv4 import Secret
from harness.rig import TRAINER, Rig
from harness.swift import SwiftOrigin

MIB = 1 << 20


@pytest.fixture
def authority(tmp_path: Path) -> TestAuthority:
    return TestAuthority(tmp_path)


@asynccontextmanager
async def tls_rig(endpoint: str, secret: Secret, directory: Path, authority: TestAuthority) -> AsyncIterator[Rig]:
    install(directory, authority.issue("first"))
    async with Rig(endpoint, secret, directory, server=tls_settings(directory)) as rig:
        yield rig


def secure(rig: Rig, host: str = "127.0.0.1") -> str:
    return f"https://{host}:{rig.worker.tls_address[1]}"


@contextmanager
def boto3_over(endpoint: str, authority: TestAuthority, **config: Any) -> Iterator[Any]:
    """A boto3 client with its defaults, but for retries."""
    session = boto3.session.Session(TRAINER.access, TRAINER.secret, region_name=TRAINER.region)
    settings = Config(retries={"total_max_attempts": 1}, s3={"addressing_style": "path"}, **config)
    client = session.client("s3", endpoint_url=endpoint, verify=str(authority.file), config=settings)
    with closing(client):
        yield client


def remembered(client: Any) -> list[Any]:
    """The requests that the client sends from now on, as they are on the wire."""
    sent: list[Any] = []
    client.meta.events.register("before-send.s3", lambda request, **_: sent.append(request))
    return sent


def work(endpoint: str, authority: TestAuthority, bucket: str) -> None:
    """Put, get, range, multipart, list and delete, with an unmodified client."""
    content = random.Random(7).randbytes(11 * MIB)
    with boto3_over(endpoint, authority) as s3:
        sent = remembered(s3)
        s3.put_object(Bucket=bucket, Key="small", Body=b"over TLS", Metadata={"who": "trainer"})
        s3.put_object(Bucket=bucket, Key="stream", Body=io.BytesIO(content[:MIB]))
        for upload in sent:
            # What makes HTTPS another road than HTTP: two framings, one in the other, and no Content-Length.
            assert upload.headers["X-Amz-Content-SHA256"] == b"STREAMING-UNSIGNED-PAYLOAD-TRAILER"
            assert upload.headers["Transfer-Encoding"] == b"chunked"
            assert "Content-Length" not in upload.headers
        assert len(sent) == 2
        for _ in range(20):  # each as soon as the one before was answered, on the same connection
            s3.put_object(Bucket=bucket, Key="small", Body=b"over TLS", Metadata={"who": "trainer"})
        for _ in range(2):
            answer = s3.get_object(Bucket=bucket, Key="small")
            assert (answer["Body"].read(), answer["Metadata"]) == (b"over TLS", {"who": "trainer"})
        assert answer["ResponseMetadata"]["HTTPHeaders"]["x-forebay-cache"] == "hit-memory"
        s3.upload_fileobj(io.BytesIO(content), bucket, "large")  # above 8 MiB: multipart, parts in parallel
        assert any("partNumber=2" in request.url for request in sent)
        downloaded = io.BytesIO()
        s3.download_fileobj(bucket, "large", downloaded)
        assert downloaded.getvalue() == content
        ranged = s3.get_object(Bucket=bucket, Key="large", Range="bytes=5000000-5000099")
        assert ranged["Body"].read() == content[5000000:5000100]
        assert [each["Key"] for each in s3.list_objects_v2(Bucket=bucket)["Contents"]] == ["large", "small", "stream"]
        s3.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": "small"}, {"Key": "stream"}]})
        s3.delete_object(Bucket=bucket, Key="large")
        assert "Contents" not in s3.list_objects_v2(Bucket=bucket)


async def test_boto3_over_https_with_the_fake_origin(tmp_path: Path, authority: TestAuthority) -> None:
    async with FakeOrigin() as origin, tls_rig(origin.endpoint, origin.secret, tmp_path, authority) as rig:
        origin.store.create_bucket("bucket")
        await asyncio.to_thread(work, secure(rig), authority, "bucket")


async def test_boto3_over_https_with_swift(swift: SwiftOrigin, tmp_path: Path, authority: TestAuthority) -> None:
    bucket = await asyncio.to_thread(swift.fresh_bucket)
    async with tls_rig(swift.endpoint, swift.secret, tmp_path, authority) as rig:
        await asyncio.to_thread(work, secure(rig), authority, bucket)


def framed(body: bytes, checksum: bytes) -> bytes:
    """aws-chunked with a trailer, as botocore frames it, within HTTP chunks of other sizes."""
    aws = b"%x\r\n%b\r\n0\r\nx-amz-checksum-crc32:%b\r\n\r\n" % (len(body), body, checksum)
    cuts = [aws[start : start + 1000] for start in range(0, len(aws), 1000)]
    return b"".join(b"%x\r\n%b\r\n" % (len(cut), cut) for cut in cuts) + b"0\r\n\r\n"


@pytest.mark.parametrize("right", [True, False])
async def test_a_wrong_trailer_stores_nothing(tmp_path: Path, authority: TestAuthority, right: bool) -> None:
    body = random.Random(8).randbytes(70_000)
    checksum = base64.b64encode((zlib.crc32(body) ^ (not right)).to_bytes(4, "big"))
    async with FakeOrigin() as origin, tls_rig(origin.endpoint, origin.secret, tmp_path, authority) as rig:
        origin.store.create_bucket("bucket")
        head = rig.client().sign(
            "PUT",
            path_of("bucket", "key"),
            [
                ("Content-Encoding", "aws-chunked"),
                ("x-amz-trailer", "x-amz-checksum-crc32"),
                ("x-amz-decoded-content-length", str(len(body))),
                ("Transfer-Encoding", "chunked"),
            ],
            payload="STREAMING-UNSIGNED-PAYLOAD-TRAILER",
        )
        pairs = [(name, value) for name, value in head.pairs if name != "Content-Length"]
        wire = "".join([f"PUT {head.target} HTTP/1.1\r\n", *(f"{name}: {value}\r\n" for name, value in pairs), "\r\n"])
        context = ssl.create_default_context(cafile=authority.file)
        reader, writer = await asyncio.open_connection("127.0.0.1", rig.worker.tls_address[1], ssl=context)
        writer.write(wire.encode() + framed(body, checksum))
        status = int((await reader.readline()).split()[1])
        writer.transport.abort()
        assert status == (200 if right else 400)
        kept = origin.store.current("bucket", "key")
        assert (kept is not None) == right
        assert kept is None or kept.etag == md5_etag(body)


async def test_http_and_https_share_the_cache(tmp_path: Path, authority: TestAuthority) -> None:
    async with FakeOrigin() as origin, tls_rig(origin.endpoint, origin.secret, tmp_path, authority) as rig:
        origin.store.put("bucket", "key", b"content")
        assert (await rig.client().request("GET", path_of("bucket", "key"))).body == b"content"

        def over_tls() -> str:
            with boto3_over(secure(rig, "localhost"), authority) as s3:
                answer = s3.get_object(Bucket="bucket", Key="key")
                assert answer["Body"].read() == b"content"
                return str(answer["ResponseMetadata"]["HTTPHeaders"]["x-forebay-cache"])

        assert await asyncio.to_thread(over_tls) == "hit-memory"


async def test_plain_http_on_the_tls_port_is_refused(tmp_path: Path, authority: TestAuthority) -> None:
    async with FakeOrigin() as origin, tls_rig(origin.endpoint, origin.secret, tmp_path, authority) as rig:
        origin.store.put("bucket", "key", b"content")
        reader, writer = await asyncio.open_connection("127.0.0.1", rig.worker.tls_address[1])
        writer.write(rig.client().sign("GET", path_of("bucket", "key")).wire)
        answered = await reader.read()
        writer.transport.abort()
        assert b"HTTP/1.1 200" not in answered
        assert b"content" not in answered
        assert origin.log.count("GET", key="key") == 0


async def shown(rig: Rig, authority: TestAuthority) -> str:
    """The common name of the certificate that a new connection gets."""
    context = ssl.create_default_context(cafile=authority.file)
    _, writer = await asyncio.open_connection("127.0.0.1", rig.worker.tls_address[1], ssl=context)
    certificate = writer.get_extra_info("peercert")
    writer.close()
    await writer.wait_closed()
    return str(dict(pair[0] for pair in certificate["subject"])["commonName"])


async def test_a_reload_renews_the_certificate_of_new_connections(
    tmp_path: Path, authority: TestAuthority, caplog: pytest.LogCaptureFixture
) -> None:
    async with FakeOrigin() as origin, tls_rig(origin.endpoint, origin.secret, tmp_path, authority) as rig:
        origin.store.put("bucket", "key", b"content")
        context = ssl.create_default_context(cafile=authority.file)
        reader, writer = await asyncio.open_connection("127.0.0.1", rig.worker.tls_address[1], ssl=context)
        total = rig.parts.context.metrics.total
        install(tmp_path, authority.issue("second"))
        await rig.worker.reload()
        assert await shown(rig, authority) == "second"
        assert total("forebay_certificate_renewals_total") == 1
        (tmp_path / "key.pem").write_bytes(authority.issue("third")[1])
        with caplog.at_level(logging.ERROR, "forebay"):
            await rig.worker.reload()
        assert await shown(rig, authority) == "second"
        assert total("forebay_certificate_refusals_total") == 1
        assert "server.tls_key" in caplog.text
        assert "the old one stays" in caplog.text
        # The connection of before the first change has not noticed any of it.
        writer.write(rig.client().sign("GET", path_of("bucket", "key")).wire)
        assert b"200 OK" in await reader.readline()
        writer.transport.abort()


async def test_a_changed_certificate_is_noticed_without_a_signal(tmp_path: Path, authority: TestAuthority) -> None:
    async with FakeOrigin() as origin, tls_rig(origin.endpoint, origin.secret, tmp_path, authority) as rig:
        await rig.stop()
        source = ConfigSource(tmp_path / "forebay.toml", {}, {})
        worker = Worker(source.load().settings, source, check_interval=0.01)
        await worker.start()
        try:
            install(tmp_path, authority.issue("second"))
            context = ssl.create_default_context(cafile=authority.file)
            async with asyncio.timeout(20):
                name = ""
                while name != "second":  # each try is a handshake: no busy loop
                    _, writer = await asyncio.open_connection("127.0.0.1", worker.tls_address[1], ssl=context)
                    subject = writer.get_extra_info("peercert")["subject"]
                    name = dict(pair[0] for pair in subject)["commonName"]
                    writer.transport.abort()
        finally:
            await worker.stop()


async def test_one_connection_too_many_is_refused_over_tls(tmp_path: Path, authority: TestAuthority) -> None:
    install(tmp_path, authority.issue("first"))
    limits = "[limits]\nconnections = 1\n"
    async with (
        FakeOrigin() as origin,
        Rig(origin.endpoint, origin.secret, tmp_path, server=tls_settings(tmp_path), rest=limits) as rig,
    ):
        context = ssl.create_default_context(cafile=authority.file)
        _, first = await asyncio.open_connection("127.0.0.1", rig.worker.tls_address[1], ssl=context)
        reader, second = await asyncio.open_connection("127.0.0.1", rig.worker.tls_address[1], ssl=context)
        answer = await reader.read()
        assert answer.startswith(b"HTTP/1.1 503")
        assert b"<Code>SlowDown</Code>" in answer
        first.transport.abort()
        second.transport.abort()


async def test_a_silent_tls_connection_does_not_delay_a_stop(tmp_path: Path, authority: TestAuthority) -> None:
    async with FakeOrigin() as origin, tls_rig(origin.endpoint, origin.secret, tmp_path, authority) as rig:
        context = ssl.create_default_context(cafile=authority.file)
        reader, writer = await asyncio.open_connection("127.0.0.1", rig.worker.tls_address[1], ssl=context)
        async with asyncio.timeout(20):
            await rig.stop()
            assert await reader.read() == b""
        writer.transport.abort()


async def test_the_signed_host_counts_behind_a_tls_terminator(tmp_path: Path, authority: TestAuthority) -> None:
    """Something before us ends TLS and passes the request as it was sent: its Host is not our address, and what it adds
    about the client is neither believed nor passed on."""
    async with FakeOrigin() as origin, tls_rig(origin.endpoint, origin.secret, tmp_path, authority) as rig:
        origin.store.put("bucket", "key", b"content")
        added = (
            ("X-Forwarded-For", "203.0.113.7"),
            ("X-Forwarded-Host", "elsewhere.example.org"),
            ("X-Forwarded-Proto", "https"),
            ("Forwarded", "for=203.0.113.7;host=elsewhere.example.org"),
        )
        for host in ("data.example.org", "data.example.org:8443"):
            client = RawClient(rig.endpoint, TRAINER, host=host)
            signed = client.sign("GET", path_of("bucket", "key"), [("Cache-Control", "no-cache")])
            answer = await client.send(replace(signed, pairs=(*signed.pairs, *added)))
            assert (answer.status, answer.body) == (200, b"content")
        # Rewritten on the way, it is not what was signed; and telling so does not help.
        forwarded = (("X-Forwarded-Host", host), *(pair for pair in signed.pairs if pair[0] != "Host"))
        rewritten = replace(signed, pairs=(("Host", "127.0.0.1:9000"), *forwarded))
        assert (await client.send(rewritten)).status == 403
        assert origin.log.requests
        assert not any("forwarded" in name.lower() for seen in origin.log.requests for name in seen.headers)
    assert "203.0.113.7" not in (tmp_path / "access.log").read_text()
    assert "127.0.0.1" in (tmp_path / "access.log").read_text()
