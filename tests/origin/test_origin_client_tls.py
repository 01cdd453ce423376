"""TLS is verified: by the system's authorities, or by the file that is named instead."""

import ssl
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from forebay.core.errors import OriginUnreachable
from forebay.origin.credentials import ANONYMOUS
from forebay.origin.dialects import DIALECTS
from forebay.origin.origin_client import OriginClient
from forebay.origin.origin_request import OriginRequest
from forebay.origin.origin_server import OriginServer
from harness.origin_client import get
from harness.scripted_origin import ScriptedConnection, respond_always, scripted_origin


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A self-signed certificate for 127.0.0.1 with its key, in one file."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "origin")])
    now = datetime.now(UTC)
    built = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    file = tmp_path_factory.mktemp("tls") / "origin.pem"
    file.write_bytes(secret + built.public_bytes(serialization.Encoding.PEM))
    return file


@pytest.fixture
def server_side(certificate: Path) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate)
    return context


def client_of(url: str, ca_file: Path | None) -> OriginClient:
    return OriginClient(
        OriginServer(url, "r", DIALECTS["minio"], ca_file=None if ca_file is None else str(ca_file)), ANONYMOUS
    )


async def test_a_named_authority_is_trusted(server_side: ssl.SSLContext, certificate: Path) -> None:
    async with (
        scripted_origin(respond_always(200), tls=server_side) as origin,
        client_of(origin.url, certificate) as client,
    ):
        async with await client.send(get()) as answer:
            assert answer.status == 200
        assert await client.probe()


async def test_another_authority_is_not_trusted(server_side: ssl.SSLContext) -> None:
    async with scripted_origin(respond_always(200), tls=server_side) as origin, client_of(origin.url, None) as client:
        with pytest.raises(OriginUnreachable, match="TLS certificate of an unknown authority"):
            await client.send(get())
        assert not await client.probe()
    assert origin.requests == []


async def test_an_origin_without_tls(certificate: Path) -> None:
    async def script(line: ScriptedConnection) -> None:
        await line.respond(400)
        await line.wait_closed()

    async with (
        scripted_origin(script) as origin,
        client_of(origin.url.replace("http:", "https:"), certificate) as client,
    ):
        with pytest.raises(OriginUnreachable, match="no TLS on this port"):
            await client.send(get())


@pytest.mark.parametrize("method", ["PUT", "DELETE"])
async def test_a_write_without_a_tls_handshake_is_never_completed(certificate: Path, method: str) -> None:
    async def hang_up(line: ScriptedConnection) -> None:
        await line.reader.read(1)
        line.reset()

    async def completed() -> None:
        raise AssertionError

    body = b"abcd" if method == "PUT" else None
    write = OriginRequest(method, "bucket", "k", body=body, before_completion=completed)
    async with (
        scripted_origin(hang_up) as origin,
        client_of(origin.url.replace("http:", "https:"), certificate) as client,
    ):
        with pytest.raises(OriginUnreachable):
            await client.send(write)
