"""The raw client: what it hides from nobody."""

import asyncio
from dataclasses import replace

from forebay.core.byte_ranges import Span
from harness.clients import RawClient, path_of, query_of
from harness.fake_origin import FakeOrigin

SIZE = 64 << 20


async def test_slow_reader_blocks_the_sender(fake: FakeOrigin, client: RawClient) -> None:
    content = fake.store.put_synthetic("bucket", "big", SIZE)
    async with await client.open(receive_buffer=16 << 10) as connection:
        await connection.send(client.sign("GET", "/bucket/big").wire)
        assert (await connection.read_head()).status == 200
        assert await connection.read(1000) == content.expected(Span(0, 1000))
        await fake.log.wait_for(1)
        assert fake.log.requests[0].bytes_sent < SIZE // 2
    await fake.log.wait_idle()
    assert fake.log.requests[0].bytes_sent < SIZE


async def test_leaving_in_the_middle(fake: FakeOrigin, client: RawClient) -> None:
    fake.store.put_synthetic("bucket", "big", SIZE)
    async with await client.open() as connection:
        await connection.send(client.sign("GET", "/bucket/big").wire)
        await connection.read_head()
        await connection.read(10)
        connection.reset()
    await fake.log.wait_idle()
    assert fake.log.requests[0].bytes_sent < SIZE


async def test_headers_keep_their_order_and_spelling(fake: FakeOrigin, client: RawClient) -> None:
    fake.store.put("bucket", "k", b"x", x_amz_meta_b="1", x_amz_meta_a="2")
    names = [name for name, _ in (await client.request("GET", "/bucket/k")).pairs]
    assert names.index("x-amz-meta-b") < names.index("x-amz-meta-a")
    assert "ETag" in names


async def test_malformed_requests_can_be_sent(fake: FakeOrigin, client: RawClient) -> None:
    async with await client.open() as connection:
        await connection.send(b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n")
        assert (await connection.answer()).status == 400


async def test_a_signed_request_can_be_changed(fake: FakeOrigin, client: RawClient) -> None:
    fake.store.put("bucket", "k", b"x")
    request = client.sign("GET", "/bucket/k")
    assert (await client.send(request)).status == 200
    assert (await client.send(replace(request, target="/bucket/l"))).status == 403


async def test_the_answer_may_come_before_the_body_is_sent(fake: FakeOrigin, client: RawClient) -> None:
    request = client.sign("PUT", "/bucket/k", body=b"x" * 1000)
    async with await client.open() as connection:
        await connection.send(request.wire[:-500])
        await connection.half_close()
        assert (await connection.answer("PUT")).aborted
    async with asyncio.timeout(60):
        await fake.log.wait_idle()


def test_targets_are_encoded_as_signers_expect() -> None:
    assert path_of("b", "a/ü +~%") == "/b/a/%C3%BC%20%2B~%25"
    assert path_of("b") == "/b"
    assert query_of({"prefix": "a/b c", "list-type": "2"}) == "list-type=2&prefix=a%2Fb%20c"
