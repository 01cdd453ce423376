"""HTTP by itself: TLS, forks, connections, unsigned requests, streams."""

import asyncio
import socket
import ssl
import threading
from collections.abc import AsyncIterator
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import FlexibleChecksumError

from forebay_client import AccessDenied, BodyCorrupt, Client, ClientConfigurationError, ClientError, ServiceUnavailable
from forebay_client.client_transports import ClientTransports
from forebay_client.transport.http_transport import MAX_DOCUMENT
from forebay_client.transport.object_request import BodyInterrupted, ObjectRequest
from harness.certificates import TestAuthority
from harness.clients import boto_client
from harness.fake import actions
from harness.fake.gate import Gate
from harness.fake_origin import FakeOrigin
from harness.forked import in_a_fork
from harness.reference_sigv4 import Secret
from harness.scripted_origin import (
    Script,
    ScriptedConnection,
    never_respond,
    respond_always,
    scripted_origin,
    stall_in_body,
)

CONTENT = bytes(range(256)) * 1000


@pytest.fixture
async def origin() -> AsyncIterator[FakeOrigin]:
    async with FakeOrigin() as origin:
        origin.store.put("b", "k", CONTENT)
        yield origin


def client_of(origin: FakeOrigin, **arguments: Any) -> Client:
    secret = origin.secret
    return Client(
        origin.endpoint,
        **{"access_key": secret.access, "secret_key": secret.secret, "socket": "", "retries": 0, **arguments},
    )


async def test_a_child_after_a_fork_has_connections_of_its_own(origin: FakeOrigin) -> None:
    with client_of(origin) as client:

        def fork_in_use() -> None:
            client.get("b", "k")
            used = client.stats.requests["http"]
            assert in_a_fork(lambda: bytes(client.get("b", "k"))) == CONTENT
            assert in_a_fork(lambda: client.stats.requests) == {}
            assert bytes(client.get("b", "k")) == CONTENT
            assert client.stats.requests["http"] == used + 1

        await asyncio.to_thread(fork_in_use)
        assert origin.log.connections == 2


async def test_a_child_is_not_stopped_by_what_other_threads_do(origin: FakeOrigin) -> None:
    origin.faults.add(actions.HoldRequest(gate := Gate()), key="held")
    origin.store.put("b", "held", b"held")
    with client_of(origin, connections=2) as client:
        async with asyncio.TaskGroup() as group:
            # All connections of the parent are in use, and so is its pool of threads.
            group.create_task(asyncio.to_thread(lambda: list(client.get_many("b", ["held", "held"]))))
            await gate.reached(2)
            child = asyncio.to_thread(in_a_fork, lambda: [bytes(i.content()) for i in client.get_many("b", ["k"])])
            assert await child == [CONTENT]
            gate.open()


async def test_threads_share_a_bounded_number_of_connections(origin: FakeOrigin) -> None:
    with client_of(origin, connections=3) as client:

        def read() -> None:
            for _ in range(5):
                assert bytes(client.get("b", "k")) == CONTENT

        await asyncio.gather(*(asyncio.to_thread(read) for _ in range(8)))
    assert origin.log.connections <= 3
    assert threading.active_count() < 50


async def test_a_stream_gives_its_connection_back_at_its_end(origin: FakeOrigin) -> None:
    request = ObjectRequest("GET", "b", "k", is_streamed=True)

    def read(client: Client) -> None:
        for is_closed in (True, False, True):
            stream = client.send_request(request).stream
            assert stream is not None
            content, buffer = bytearray(), memoryview(bytearray(100_000))
            while count := stream.readinto(buffer):
                content += buffer[:count]
            assert content == CONTENT
            if is_closed:
                stream.close()
        abandoned = client.send_request(request).stream
        assert abandoned is not None
        abandoned.readinto(memoryview(bytearray(10)))
        abandoned.close()
        assert abandoned.readinto(memoryview(bytearray(10))) == 0
        client.get("b", "k")

    with client_of(origin, connections=1) as client:
        await asyncio.to_thread(read, client)
    assert origin.log.connections == 2


async def test_a_stream_that_broke_off_says_so(origin: FakeOrigin) -> None:
    origin.faults.add(actions.CloseAfter(1000))

    def read(client: Client) -> None:
        stream = client.send_request(ObjectRequest("GET", "b", "k", is_streamed=True)).stream
        assert stream is not None
        buffer = memoryview(bytearray(100_000))
        with pytest.raises(BodyInterrupted, match="missing"):
            all(iter(lambda: stream.readinto(buffer), 0))

    with client_of(origin, connections=1) as client:
        await asyncio.to_thread(read, client)


@pytest.mark.parametrize(
    "body", ["Content-Length: 9\r\n\r\nabc", "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nnone\r\n"]
)
async def test_a_stream_that_broke_off_keeps_no_connection(body: str) -> None:
    async def serve(connection: ScriptedConnection) -> None:
        await connection.read_request()
        await connection.send_raw(f"HTTP/1.1 200 OK\r\n{body}".encode())

    def read(client: Client) -> bytes:
        stream = client.send_request(ObjectRequest("GET", "b", "k", is_streamed=True)).stream
        assert stream is not None
        buffer = memoryview(bytearray(100))
        with pytest.raises(BodyInterrupted):
            all(iter(lambda: stream.readinto(buffer), 0))
        assert stream.readinto(buffer) == 0
        return bytes(client.get("b", "k"))

    async with scripted_origin(serve, respond_always(200, "", b"new")) as origin:
        with Client(origin.url, access_key="", socket="", retries=0, connections=1, timeout=5.0) as client:
            assert await asyncio.to_thread(read, client) == b"new"


async def test_a_stream_that_is_closed_twice_gives_one_connection_back(origin: FakeOrigin) -> None:
    request = ObjectRequest("GET", "b", "k", is_streamed=True)

    def read(client: Client) -> None:
        buffer = memoryview(bytearray(len(CONTENT) + 1))
        for count in (1, 2):  # at once
            streams = [client.send_request(request).stream for _ in range(count)]
            for stream in streams:
                assert stream is not None
                while stream.readinto(buffer):
                    pass
                stream.close()
                stream.close()

    with client_of(origin, connections=2, timeout=5.0) as client:
        await asyncio.to_thread(read, client)
    assert origin.log.connections == 2


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (b"404 Not Found\r\nContent-Length: 100\r\n\r\n<Error>", "the response broke off"),
        (b"404 Not Found\r\n\r\n<Error>", "the body has no length"),
        (b"200 OK\r\n\r\nbytes", "the body has no length"),
        (b"404 Not Found\r\nContent-Length: %d\r\n\r\n%b" % (MAX_DOCUMENT + 1, bytes(MAX_DOCUMENT + 1)), "no document"),
    ],
)
async def test_what_is_no_whole_document_is_no_answer(answer: bytes, problem: str) -> None:
    async def serve(connection: ScriptedConnection) -> None:
        await connection.read_request()
        await connection.send_raw(b"HTTP/1.1 " + answer)

    async with scripted_origin(serve) as origin:
        with (
            Client(origin.url, access_key="", socket="", retries=0, timeout=20.0) as client,
            pytest.raises(ServiceUnavailable, match=problem),
        ):
            await asyncio.to_thread(client.get, "b", "k")


async def test_a_document_of_the_largest_size_is_read() -> None:
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n" % MAX_DOCUMENT

    async def serve(connection: ScriptedConnection) -> None:
        await connection.read_request()
        await connection.send_raw(head + bytes(MAX_DOCUMENT) + b"\r\n0\r\n\r\n")

    async with scripted_origin(serve) as large:
        with Client(large.url, access_key="", socket="", retries=0, timeout=20.0) as client:
            assert len(await asyncio.to_thread(client.get, "b", "k")) == MAX_DOCUMENT


async def test_a_range_is_received_into_the_callers_buffer(origin: FakeOrigin) -> None:
    with client_of(origin) as client:
        for size in (1000, 1001):
            buffer = bytearray(size)
            request = ObjectRequest("GET", "b", "k", span=(5, 1005), buffer=memoryview(buffer))
            response = await asyncio.to_thread(client.send_request, request)
            assert (response.body.obj is buffer, bytes(response.body)) == (True, CONTENT[5:1005])
        for size in (1000, len(CONTENT)):
            buffer = bytearray(size)
            request = ObjectRequest("GET", "b", "k", buffer=memoryview(buffer))
            response = await asyncio.to_thread(client.send_request, request)
            assert (response.body.obj is buffer, bytes(response.body)) == (size == len(CONTENT), CONTENT)


async def test_a_response_without_a_body_keeps_the_connection(origin: FakeOrigin) -> None:
    origin.store.put("b", "empty", b"")
    with client_of(origin, connections=1) as client:
        for _ in range(2):
            assert (await asyncio.to_thread(client.head, "b", "k")).size == len(CONTENT)
            assert len(await asyncio.to_thread(client.get, "b", "empty")) == 0
            await asyncio.to_thread(client.delete, "b", "none")
    assert origin.log.connections == 1


async def break_off_in_body(connection: ScriptedConnection) -> None:
    await connection.read_request()
    await connection.respond(200, "", b"ab", 4)


@pytest.mark.parametrize(("first", "attempts"), [(stall_in_body, 2), (break_off_in_body, 3)])
async def test_a_server_that_hangs_in_a_body_hangs_since_then(first: Script, attempts: int) -> None:
    """It is given up after two attempts without a byte, and a body that breaks off is none of these."""
    async with scripted_origin(first, never_respond) as origin:
        with Client(origin.url, access_key="", socket="", retries=4, timeout=0.2) as client:
            with pytest.raises(ServiceUnavailable, match="timed out"):
                await asyncio.to_thread(client.get, "b", "k")
            assert origin.connections == attempts


async def test_an_empty_access_key_signs_nothing() -> None:
    async with FakeOrigin(verify=False) as origin:
        origin.store.put("b", "k", CONTENT)
        with client_of(origin, access_key="", secret_key=None) as client:
            await asyncio.to_thread(client.put, "b", "new", b"content")
            assert bytes(await asyncio.to_thread(client.get, "b", "new")) == b"content"
        assert [entry.headers.get("Authorization") for entry in origin.log.requests] == [None, None]


async def test_a_server_that_says_nothing_is_given_up() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        endpoint = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with (
            Client(endpoint, access_key="a", secret_key="b", socket="", timeout=0.05, retries=0) as client,
            pytest.raises(ServiceUnavailable, match="timed out"),
        ):
            await asyncio.to_thread(client.get, "b", "k")


class SilentServer:
    """Takes connections and answers nothing. Counts them."""

    def __init__(self) -> None:
        self._listening = socket.create_server(("127.0.0.1", 0), backlog=1024)
        self._listening.setblocking(False)
        self.endpoint = f"http://127.0.0.1:{self._listening.getsockname()[1]}"
        self._taken: list[socket.socket] = []

    def taken(self) -> int:
        """Connections so far: the kernel makes them, and they wait to be taken."""
        with suppress(BlockingIOError):
            while True:
                self._taken.append(self._listening.accept()[0])
        return len(self._taken)

    def close(self) -> None:
        for each in (self._listening, *self._taken):
            each.close()


async def test_a_read_at_a_server_that_hangs_costs_two_timeouts() -> None:
    with (
        closing(SilentServer()) as silent,
        Client(silent.endpoint, access_key="a", secret_key="b", socket="", timeout=0.1, retries=4) as client,
    ):
        with pytest.raises(ServiceUnavailable, match=r"no response from .*: timed out") as failed:
            await asyncio.to_thread(client.get, "b", "k")
        assert (failed.value.bucket, failed.value.key, failed.value.status) == ("b", "k", None)
        assert silent.taken() == 2


async def test_a_batch_at_a_server_that_hangs_costs_one_timeout_more() -> None:
    """The client's clock goes on by the second attempts and no further, however long the test takes."""
    keys = [f"{number}" for number in range(5000)]  # ten requests of a batch
    with (
        closing(SilentServer()) as silent,
        Client(silent.endpoint, access_key="a", secret_key="b", socket="", timeout=0.1, retries=4) as client,
    ):
        transport = client._transports.make()[-1]  # noqa: SLF001 # whose clock it is
        transport._clock = lambda: 0.1 if silent.taken() > 2 else 0.0  # noqa: SLF001 # likewise
        items = await asyncio.to_thread(lambda: list(client.get_many("b", keys)))
        assert [item.key for item in items] == keys
        assert all(isinstance(item.error, ServiceUnavailable) for item in items)
        assert silent.taken() <= 5  # two each of the first requests, which are sent at once, and a read that finds out


async def test_one_object_without_answer_stops_no_other(origin: FakeOrigin) -> None:
    origin.store.put("b", "held", b"held")
    origin.faults.add(actions.HoldRequest(gate := Gate()), key="held")
    with client_of(origin, timeout=0.2, retries=4) as client:

        def read() -> None:
            with pytest.raises(ServiceUnavailable, match="timed out"):
                client.get("b", "held")
            assert bytes(client.get("b", "k")) == CONTENT
            assert bytes(client.get("b", "k")) == CONTENT

        await asyncio.to_thread(read)
    gate.open()


async def test_tls_is_verified_with_the_bundle_of_the_environment(origin: FakeOrigin, tmp_path: Path) -> None:
    authority = TestAuthority(tmp_path)
    (tmp_path / "chain.pem").write_bytes(b"".join(authority.issue("server")))
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(tmp_path / "chain.pem")
    server = await asyncio.get_running_loop().create_server(origin.protocol, "127.0.0.1", 0, ssl=context)
    endpoint = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    with client_of(origin) as client:
        keys: dict[str, Any] = {"access_key": origin.secret.access, "secret_key": origin.secret.secret}
        stranger = Client(endpoint, **keys, retries=0)
        with stranger, pytest.raises(ServiceUnavailable, match="certificate verify failed"):
            await asyncio.to_thread(stranger.get, "b", "k")
        with Client(endpoint, **keys, retries=0) as trusting:
            settings = replace(trusting._settings, ca_bundle=str(authority.file))  # noqa: SLF001 # as AWS_CA_BUNDLE would
            trusting._transports = ClientTransports(settings, trusting._signer)  # noqa: SLF001 # likewise
            assert bytes(await asyncio.to_thread(trusting.get, "b", "k")) == CONTENT
            assert (await asyncio.to_thread(trusting.put, "b", "over-tls", b"content")).size == 7
            assert origin.log.requests[-1].headers["x-amz-content-sha256"] == "UNSIGNED-PAYLOAD"
        assert bytes(await asyncio.to_thread(client.get, "b", "over-tls")) == b"content"
    server.close()
    await server.wait_closed()


async def test_a_bundle_that_is_none_is_named(tmp_path: Path) -> None:
    (tmp_path / "config").write_text(f"[default]\nca_bundle = {tmp_path / 'none.pem'}\n")
    with Client("https://127.0.0.1:9", access_key="a", secret_key="b", retries=0) as client:
        settings = client._settings  # noqa: SLF001 # what the environment would say
        object.__setattr__(settings, "ca_bundle", str(tmp_path / "none.pem"))
        with pytest.raises(ClientConfigurationError, match=r"none\.pem"):
            await asyncio.to_thread(client.get, "b", "k")


@pytest.mark.parametrize("ignores_range", [False, True])
async def test_a_part_sent_as_a_200_is_taken_for_what_it_is(*, ignores_range: bool) -> None:
    """As `rclone serve s3` does. For the whole object, the bytes from 10 to 20 of it would be others."""

    async def serve(connection: ScriptedConnection) -> None:
        while True:
            asked = (await connection.read_request()).header("range")
            assert asked is not None
            first, _, last = asked.removeprefix("bytes=").partition("-")
            start, end = int(first), min(int(last or len(CONTENT)), len(CONTENT) - 1) + 1
            if ignores_range:
                start, end = 0, len(CONTENT)
            said = f'Content-Range: bytes {start}-{end - 1}/{len(CONTENT)}\nETag: "e"\nx-amz-checksum-crc32: AAAAAA=='
            said = 'ETag: "e"' if ignores_range else said  # the checksum is of the whole object
            await connection.respond(200, said, CONTENT[start:end])

    async with scripted_origin(serve) as origin:
        with Client(origin.url, access_key="", secret_key="", socket="", retries=0) as client:
            buffer = bytearray(1000)

            def read() -> None:
                assert bytes(client.get_range("b", "k", 10, 30)) == CONTENT[10:30]
                assert bytes(client.get_range("b", "k", 200_000, None)) == CONTENT[200_000:]
                assert bytes(client.get_range("b", "k", len(CONTENT) - 5, len(CONTENT) + 5)) == CONTENT[-5:]
                assert client.get_into("b", "k", buffer, 5) == 1000
                assert bytes(buffer) == CONTENT[5:1005]
                large = bytearray(2 * len(CONTENT))
                assert client.get_into("b", "k", large, 5) == len(CONTENT) - 5
                assert large[: len(CONTENT) - 5] == CONTENT[5:]

            await asyncio.to_thread(read)


WHOLE = {
    "get": lambda client: client.get("b", "k"),
    "get_many": lambda client: next(client.get_many("b", ["k"])).content(),
}


@pytest.mark.parametrize("call", WHOLE)
@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        ("200 OK\r\nContent-Length: 3\r\nContent-Length: 5\r\n\r\nabcde", "no number: 3, 5"),
        ("200 OK\r\nContent-Length: -5\r\n\r\nabcde", "no number: -5"),
        ("200 OK\r\nContent-Length: 1_0\r\n\r\nabcde", "no number: 1_0"),
        (f"200 OK\r\nContent-Length: {10**18}\r\n\r\nabcde", "no memory for a body of 1000000000000000000 bytes"),
        (f"200 OK\r\nContent-Length: {10**24}\r\n\r\nabcde", "no memory"),
        ("200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-5\r\nabc\r\n0\r\n\r\n", "broke off"),
        ("206 Partial Content\r\nContent-Range: bytes 5-8/100\r\nContent-Length: 4\r\n\r\nabcd", "a part came"),
        ("206 Partial Content\r\nContent-Range: bytes 0-3/100\r\nContent-Length: 4\r\n\r\nabcd", "a part came"),
        ("206 Partial Content\r\nContent-Length: 4\r\n\r\nabcd", "a part came"),
        ("200 OK\r\nContent-Range: bytes 0-3/100\r\nContent-Length: 4\r\n\r\nabcd", "a part came"),
        ("307 Temporary Redirect\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n", "HTTP 307"),
    ],
)
async def test_a_server_that_lies_is_not_believed(call: str, answer: str, problem: str) -> None:
    async def serve(connection: ScriptedConnection) -> None:
        while True:
            await connection.read_request()
            await connection.send_raw(f"HTTP/1.1 {answer}".encode())

    async with scripted_origin(serve) as origin:
        with Client(origin.url, access_key="", secret_key="", socket="", retries=0, timeout=5.0) as client:
            with pytest.raises(ClientError, match=problem) as found:
                await asyncio.to_thread(WHOLE[call], client)
            assert found.value.key == "k"


async def test_a_length_that_is_said_twice_is_one() -> None:
    async def serve(connection: ScriptedConnection) -> None:
        await connection.read_request()
        await connection.send_raw(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 3\r\n\r\nabc")

    async with scripted_origin(serve) as origin:
        with Client(origin.url, access_key="", secret_key="", socket="", retries=0) as client:
            assert bytes(await asyncio.to_thread(client.get, "b", "k")) == b"abc"


@pytest.mark.parametrize("is_in_head", [True, False])
async def test_a_checksum_is_read_in_the_head_alone_as_by_boto3(*, is_in_head: bool) -> None:
    """The standard library, like urllib3, drops the trailer; what comes behind it is the next response."""
    wrong = "x-amz-checksum-crc32: AAAAAA==\r\n"
    head, trailer = (wrong, "") if is_in_head else ("", wrong)
    framing = "Transfer-Encoding: chunked\r\nTrailer: x-amz-checksum-crc32\r\n"
    answer = f"HTTP/1.1 200 OK\r\n{head}{framing}\r\n5\r\nbytes\r\n0\r\n{trailer}\r\n".encode()

    async def serve(connection: ScriptedConnection) -> None:
        while True:
            await connection.read_request()
            await connection.send_raw(answer)

    async with scripted_origin(serve) as origin:
        with (
            closing(boto_client(origin.url, Secret("a", "b"), response_checksum_validation="when_supported")) as boto,
            Client(origin.url, access_key="", socket="", retries=0, connections=1) as client,
        ):

            def read() -> bytes:
                return bytes(client.get("b", "k"))

            def read_by_boto() -> bytes:
                content: bytes = boto.get_object(Bucket="b", Key="k")["Body"].read()
                return content

            if is_in_head:
                with pytest.raises(BodyCorrupt, match="another checksum"):
                    await asyncio.to_thread(read)
                with pytest.raises(FlexibleChecksumError):
                    await asyncio.to_thread(read_by_boto)
            else:
                assert [await asyncio.to_thread(each) for each in (read, read, read_by_boto)] == [b"bytes"] * 3
            assert origin.connections == 2


async def test_a_request_on_a_connection_that_ends_is_sent_again() -> None:
    """The server closed it between the look at it and the request. On a new one, that is a failure."""

    async def end_at_second(connection: ScriptedConnection) -> None:
        await connection.read_request()
        await connection.respond(200, 'ETag: "e"', b"content")
        await connection.read_request()

    async def end_at_first(connection: ScriptedConnection) -> None:
        await connection.read_request()

    async with scripted_origin(end_at_second, end_at_second, end_at_first, respond_always(200, "", b"new")) as origin:
        with Client(origin.url, access_key="", socket="", retries=0, connections=1, timeout=5.0) as client:
            for _ in range(2):
                assert bytes(await asyncio.to_thread(client.get, "b", "k")) == b"content"
            assert (origin.connections, len(origin.requests), client.stats.retries) == (2, 3, 0)
            client.close()
            with pytest.raises(ServiceUnavailable, match="no response"):
                await asyncio.to_thread(client.get, "b", "k")
            assert (origin.connections, len(origin.requests)) == (3, 4)
            assert bytes(await asyncio.to_thread(client.get, "b", "k")) == b"new"


async def test_a_request_names_the_client_and_wants_no_coding() -> None:
    async def serve(connection: ScriptedConnection) -> None:
        request = await connection.read_request()
        assert sorted(request.names()) == ["accept-encoding", "host", "user-agent"]
        assert (request.header("accept-encoding"), request.header("user-agent")) == ("identity", "forebay-client")
        await connection.respond(200, 'ETag: "e"', b"content")

    async with scripted_origin(serve) as origin:
        with Client(origin.url, access_key="", socket="", retries=0) as client:
            assert bytes(await asyncio.to_thread(client.get, "b", "k")) == b"content"


async def test_a_connection_that_the_server_closes_is_not_kept() -> None:
    async with scripted_origin(respond_always(200, "Connection: close", b"content")) as origin:
        with Client(origin.url, access_key="", socket="", retries=0) as client:
            for _ in range(2):
                assert bytes(await asyncio.to_thread(client.get, "b", "k")) == b"content"
            assert origin.connections == 2


async def test_a_refusal_before_the_end_of_an_upload_is_read() -> None:
    async def serve(connection: ScriptedConnection) -> None:
        await connection.read_request()
        await connection.respond(403, "Connection: close", b"<Error><Code>AccessDenied</Code></Error>")

    async with scripted_origin(serve) as origin:
        with Client(origin.url, access_key="", socket="", retries=0) as client:
            with pytest.raises(AccessDenied) as caught:
                await asyncio.to_thread(client.put, "b", "k", bytes(24 << 20))
            assert caught.value.code == "AccessDenied"


async def test_a_server_is_named_with_the_bucket_in_its_host() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
        for addressing, host in (("path", "localhost"), ("virtual", "b.localhost")):
            with (
                Client(
                    f"http://localhost:{port}", access_key="", socket="", retries=0, addressing=addressing
                ) as client,
                pytest.raises(ServiceUnavailable, match=rf"no connection to http://{host}:{port}:"),
            ):
                await asyncio.to_thread(client.get, "b", "k")


async def test_a_stream_gives_what_is_there_chunk_by_chunk() -> None:
    """No more is waited for than a byte: the next chunk comes once the first one was read."""
    chunks, was_read = [b"first", b"x" * 20_000, b"last"], [asyncio.Event() for _ in range(3)]

    async def serve(connection: ScriptedConnection) -> None:
        await connection.read_request()
        await connection.send_raw(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        for chunk, event in zip(chunks, was_read, strict=True):
            await connection.send_raw(f"{len(chunk):x}\r\n".encode() + chunk + b"\r\n")
            await event.wait()
        await connection.send_raw(b"0\r\n\r\n")
        await connection.wait_closed()

    loop = asyncio.get_running_loop()

    def read(client: Client) -> None:
        stream = client.send_request(ObjectRequest("GET", "b", "k", is_streamed=True)).stream
        assert stream is not None
        buffer = memoryview(bytearray(100_000))
        for chunk, event in zip(chunks, was_read, strict=True):
            assert stream.readinto(buffer[:0]) == 0
            content = b""
            while len(content) < len(chunk):
                content += bytes(buffer[: stream.readinto(buffer)])
            assert content == chunk
            loop.call_soon_threadsafe(event.set)
        assert stream.readinto(buffer) == 0

    async with scripted_origin(serve) as origin:
        with Client(origin.url, access_key="", socket="", retries=0, timeout=10.0) as client:
            await asyncio.to_thread(read, client)


async def test_a_stream_ends_in_the_child_and_goes_on_in_the_parent(origin: FakeOrigin) -> None:
    def read(client: Client) -> None:
        stream = client.send_request(ObjectRequest("GET", "b", "k", is_streamed=True)).stream
        assert stream is not None
        content, buffer = bytearray(), memoryview(bytearray(1000))

        def child() -> int:
            with pytest.raises(BodyInterrupted, match="forked"):
                stream.readinto(buffer)
            return stream.readinto(buffer)

        content += buffer[: stream.readinto(buffer)]
        assert in_a_fork(child) == 0
        while count := stream.readinto(buffer):
            content += buffer[:count]
        assert content == CONTENT

    with client_of(origin, connections=1) as client:
        await asyncio.to_thread(read, client)
