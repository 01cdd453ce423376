import asyncio
import socket
import ssl
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest

from forebay_client import ClientConfigurationError
from forebay_client.client_settings import ClientSettings, resolve_settings
from forebay_client.http_proxy import HttpProxy, find_proxy
from forebay_client.transport.http_transport import HttpTransport
from forebay_client.transport.object_request import ObjectRequest, TransportFailed
from forebay_client.transport.signed_request import ObjectRequestSigner
from harness.certificates import TestAuthority
from harness.fake_origin import FakeOrigin
from harness.forward_proxy import ForwardProxy

PROXY = HttpProxy("proxy", 3128)


def settings_of(origin: FakeOrigin, endpoint: str, **environ: str) -> ClientSettings:
    arguments: dict[str, Any] = {"session_token": None, "region": None, "profile": None, "socket": ""}
    return resolve_settings(
        endpoint=endpoint,
        access_key=origin.secret.access,
        secret_key=origin.secret.secret,
        **arguments,
        dialect="s3",
        addressing="path",
        connections=2,
        timeout=10.0,
        retries=0,
        environ=environ,
    )


def read(settings: ClientSettings, key: str) -> bytes:
    transport = HttpTransport(settings, ObjectRequestSigner(settings))
    try:
        return bytes(transport.send(ObjectRequest("GET", "b", key)).body)
    finally:
        transport.close()


@pytest.mark.parametrize(
    ("environ", "found"),
    [
        ({}, None),
        ({"HTTP_PROXY": "http://proxy:3128"}, PROXY),
        ({"HTTP_PROXY": "proxy:3128/"}, PROXY),
        ({"HTTP_PROXY": "http://other:1", "http_proxy": "http://proxy:3128"}, PROXY),
        ({"HTTPS_PROXY": "http://proxy:3128"}, None),
        ({"HTTP_PROXY": "http://proxy"}, HttpProxy("proxy", 80)),
        ({"HTTP_PROXY": "http://proxy:3128", "NO_PROXY": "*"}, None),
        ({"HTTP_PROXY": "http://proxy:3128", "NO_PROXY": "other, .example.com"}, None),
        ({"HTTP_PROXY": "http://proxy:3128", "NO_PROXY": "S3.example.com:9000"}, None),
        ({"HTTP_PROXY": "http://proxy:3128", "no_proxy": "s3.example.com:80,3.example.com"}, PROXY),
    ],
)
def test_the_variables_say_which_servers_have_one(environ: dict[str, str], found: HttpProxy | None) -> None:
    assert find_proxy("http", "s3.example.com", 9000, environ) == found


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost", "bucket.localhost"])
def test_a_server_on_this_machine_has_none(host: str) -> None:
    assert find_proxy("http", host, 9000, {"HTTP_PROXY": "http://proxy:3128"}) is None


@pytest.mark.parametrize("url", ["https://proxy:1", "socks5://proxy:1", "http://:1", "http://u:secret@proxy:port"])
def test_an_unusable_one_is_refused_without_its_password(url: str) -> None:
    with pytest.raises(ClientConfigurationError, match="HTTPS_PROXY is a URL") as refused:
        find_proxy("https", "s3.example.com", 443, {"HTTPS_PROXY": url})
    assert "secret" not in str(refused.value)


async def test_requests_go_through_it() -> None:
    async with FakeOrigin() as origin, ForwardProxy(origin.port) as proxy:
        origin.store.put("b", "a key", b"content")
        variables = {"HTTP_PROXY": f"http://user:p%40ss@127.0.0.1:{proxy.port}"}
        settings = settings_of(origin, "http://s3.example.com:9000", **variables)
        assert await asyncio.to_thread(read, settings, "a key") == b"content"
        authorization = f"Basic {b64encode(b'user:p@ss').decode()}"
        assert proxy.requests == [f"GET http://s3.example.com:9000/b/a%20key {authorization}"]
        assert "p@ss" not in repr(settings)


async def test_one_that_is_gone_is_named_with_its_server() -> None:
    async with FakeOrigin() as origin:
        with socket.socket() as closed:
            closed.bind(("127.0.0.1", 0))
            proxy = f"127.0.0.1:{closed.getsockname()[1]}"
            settings = settings_of(origin, "http://s3.example.com", HTTP_PROXY=f"http://{proxy}")
            with pytest.raises(
                TransportFailed,
                match=rf"no connection to http://s3\.example\.com through the proxy {proxy}: Connection",
            ):
                await asyncio.to_thread(read, settings, "k")


async def test_a_server_with_tls_is_reached_by_a_tunnel(tmp_path: Path) -> None:
    authority = TestAuthority(tmp_path)
    (tmp_path / "chain.pem").write_bytes(b"".join(authority.issue("server")))
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(tmp_path / "chain.pem")
    async with FakeOrigin() as origin:
        origin.store.put("b", "k", b"content")
        server = await asyncio.get_running_loop().create_server(origin.protocol, "127.0.0.1", 0, ssl=context)
        async with ForwardProxy(server.sockets[0].getsockname()[1]) as proxy:
            url = f"http://user:p%40ss@127.0.0.1:{proxy.port}"
            variables = {"HTTPS_PROXY": url, "AWS_CA_BUNDLE": str(authority.file)}
            settings = settings_of(origin, "https://forebay.internal", **variables)
            assert await asyncio.to_thread(read, settings, "k") == b"content"
            authorization = f"Basic {b64encode(b'user:p@ss').decode()}"
            assert proxy.requests == [f"CONNECT forebay.internal:443 {authorization}"]
            assert "proxy-authorization" not in {name.lower() for name in origin.log.requests[-1].headers}
            stranger = settings_of(origin, "https://stranger.internal", **variables)
            with pytest.raises(TransportFailed, match="certificate"):
                await asyncio.to_thread(read, stranger, "k")
        server.close()
        await server.wait_closed()
