"""The client against origins without Forebay, S3 and OSS, and through a Forebay."""

import asyncio
import ctypes
import os
import pickle
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest

from forebay_client import (
    AccessDenied,
    BatchKey,
    Client,
    CommonPrefix,
    InvalidRequest,
    ObjectInfo,
    ObjectNotFound,
    RangeNotSatisfiable,
)
from harness.clients import library_client
from harness.fake_origin import FakeOrigin
from harness.oss_origin import OssOrigin
from harness.rig import TRAINER, Rig

T = TypeVar("T")
CONTENT = bytes(range(256)) * 100


@pytest.fixture(params=["s3", "oss", "forebay", "forebay-oss"])
async def client(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Client]:
    """A client of a server that holds the bucket `data`, empty."""
    kind: str = request.param
    if kind == "oss":
        async with OssOrigin() as oss:
            oss.store.put("data", "seed", b"")
            with library_client(oss.endpoint, oss.secret, dialect="oss", addressing="virtual") as client:
                yield client
        return
    async with FakeOrigin() as origin:
        origin.store.put("data", "seed", b"")
        if kind == "s3":
            with library_client(origin.endpoint, origin.secret) as client:
                yield client
        else:
            dialect = "oss" if kind == "forebay-oss" else "s3"
            async with Rig(origin.endpoint, origin.secret, tmp_path) as rig:
                with library_client(rig.endpoint, TRAINER, dialect=dialect) as client:
                    yield client


async def run(call: Callable[..., T], *arguments: Any, **named: Any) -> T:
    return await asyncio.to_thread(call, *arguments, **named)


async def test_an_object_is_written_read_and_deleted(client: Client) -> None:
    def dialogue() -> None:
        written = client.put("data", "a key/ä+%", CONTENT, content_type="image/x", metadata={"Split": "train"})
        assert (written.size, bytes(client.get("data", "a key/ä+%"))) == (len(CONTENT), CONTENT)
        info = client.head("data", "a key/ä+%")
        assert (info.size, info.etag.lower(), info.content_type) == (len(CONTENT), written.etag.lower(), "image/x")
        assert info.metadata == {"split": "train"}
        client.delete("data", "a key/ä+%")
        with pytest.raises(ObjectNotFound) as caught:
            client.get("data", "a key/ä+%")
        assert (caught.value.bucket, caught.value.key, caught.value.code) == ("data", "a key/ä+%", "NoSuchKey")
        with pytest.raises(ObjectNotFound):
            client.head("data", "a key/ä+%")

    await run(dialogue)


async def test_ranges_are_slices(client: Client) -> None:
    def dialogue() -> None:
        client.put("data", "k", CONTENT)
        assert bytes(client.get_range("data", "k", 10, 20)) == CONTENT[10:20]
        assert bytes(client.get_range("data", "k", 25_000, None)) == CONTENT[25_000:]
        assert bytes(client.get_range("data", "k", 25_000, 99_999)) == CONTENT[25_000:]
        assert bytes(client.get_range("data", "k", 7, 7)) == b""
        with pytest.raises(RangeNotSatisfiable):
            client.get_range("data", "k", len(CONTENT), None)
        buffer = bytearray(1000)
        assert client.get_into("data", "k", buffer, 100) == 1000
        assert buffer == CONTENT[100:1100]
        assert client.get_into("data", "k", buffer, len(CONTENT) - 10) == 10
        assert buffer[:10] == CONTENT[-10:]
        assert client.get_into("data", "k", buffer, len(CONTENT)) == 0

    await run(dialogue)


async def test_listings_show_keys_and_common_prefixes(client: Client) -> None:
    def dialogue() -> None:
        for key in ("x/a b", "x/c+d", "x/sub/1", "x/sub/2", "y"):
            client.put("data", key, key.encode())
        listed = list(client.list("data", "x/"))
        assert [(each.key, each.size) for each in listed if isinstance(each, ObjectInfo)] == [
            (key, len(key)) for key in ("x/a b", "x/c+d", "x/sub/1", "x/sub/2")
        ]
        rolled = list(client.list("data", "x/", delimiter="/"))
        assert [type(each).__name__ for each in rolled] == ["ObjectInfo", "ObjectInfo", "CommonPrefix"]
        assert rolled[-1] == CommonPrefix("data", "x/sub/")
        after = client.list("data", "x/", start_after="x/c+d")
        assert [each.key for each in after if isinstance(each, ObjectInfo)] == ["x/sub/1", "x/sub/2"]

    await run(dialogue)


async def test_many_objects_come_in_order_or_as_they_come(client: Client) -> None:
    def dialogue() -> None:
        for number in range(20):
            client.put("data", f"n/{number}", b"%d" % number * 10)
        keys: list[str | BatchKey] = [f"n/{number}" for number in range(20)]
        keys[3] = BatchKey("n/3", 2, 5)
        keys[4] = "n/none"
        items = list(client.get_many("data", keys))
        assert [item.index for item in items] == list(range(20))
        assert bytes(items[3].content()) == b"333"
        assert isinstance(items[4].error, ObjectNotFound)
        with pytest.raises(ObjectNotFound):
            items[4].content()
        as_they_come = list(client.get_many("data", iter(keys), ordered=False))
        assert sorted(item.index for item in as_they_come) == list(range(20))
        assert {item.index: item.data for item in as_they_come} == {item.index: item.data for item in items}

    await run(dialogue)


async def test_errors_of_many_objects_name_what_an_error_of_one_does(client: Client) -> None:
    def dialogue() -> None:
        items = list(client.get_many("data", ["none", BatchKey("seed", 5), "seed"]))
        for item, status in zip(items[:2], (404, 416), strict=True):
            assert item.error is not None
            assert (item.error.bucket, item.error.key, item.error.status) == ("data", item.key, status)
            assert item.error.request_id
            assert item.error.request_id in str(item.error)

    await run(dialogue)


async def test_files_travel_in_parts(client: Client, tmp_path: Path) -> None:
    def dialogue() -> None:
        path = tmp_path / "large"
        content = CONTENT * 300
        path.write_bytes(content)
        written = client.put_file("data", "large", path, 5 << 20, metadata={"a": "b"})
        assert written.size == len(content)
        assert bytes(client.get("data", "large")) == content
        assert written.etag.strip('"').endswith("-2")
        assert client.head("data", "large").metadata == {"a": "b"}
        assert client.put_file("data", "small", path, len(content)).size == len(content)
        assert bytes(client.get("data", "small")) == content

    await run(dialogue)


async def test_a_client_pickles_as_its_arguments(client: Client) -> None:
    def dialogue() -> None:
        client.put("data", "k", b"content")
        with pickle.loads(pickle.dumps(client)) as copy:
            assert bytes(copy.get("data", "k")) == b"content"

    await run(dialogue)


async def test_refused_credentials_are_an_error_without_the_secret(client: Client) -> None:
    settings = {**client._arguments, "secret_key": "not-the-secret"}  # noqa: SLF001 # the same server, another secret
    with Client(**settings) as stranger:
        with pytest.raises(AccessDenied) as caught:
            await run(stranger.get, "data", "k")
        assert "not-the-secret" not in f"{caught.value!r}{caught.value}{stranger!r}"
        copy = pickle.loads(pickle.dumps(caught.value))
        assert (type(copy), str(copy), copy.status) == (AccessDenied, str(caught.value), 403)


CALLS: dict[str, Callable[[Client, Any], object]] = {
    "get": lambda client, key: client.get("data", key),
    "get_range": lambda client, key: client.get_range("data", key, 0, 5),
    "get_into": lambda client, key: client.get_into("data", key, bytearray(5)),
    "head": lambda client, key: client.head("data", key),
    "open": lambda client, key: client.open("data", key),
    "put": lambda client, key: client.put("data", key, b"x"),
    "put_file": lambda client, key: client.put_file("data", key, __file__),
    "create": lambda client, key: client.create("data", key).close(),
    "delete": lambda client, key: client.delete("data", key),
    "presign": lambda client, key: client.presign("data", key),
}


@pytest.mark.parametrize("call", CALLS)
async def test_without_a_key_nothing_is_asked_of_the_bucket(call: str) -> None:
    """In S3's terms it would be: a DELETE without a key deletes the bucket, a PUT makes one."""
    async with FakeOrigin() as origin:
        with library_client(origin.endpoint, origin.secret) as client:
            with pytest.raises(InvalidRequest, match="the key of an object is not empty"):
                await run(CALLS[call], client, "")
            for key in (None, b"k", 7):
                with pytest.raises(TypeError, match="a key is a str"):
                    await run(CALLS[call], client, key)
        assert len(origin.log.requests) == 0


@pytest.mark.parametrize("bucket", ["", "s3://data", "data/key", None, b"data"])
async def test_what_is_no_bucket_is_refused_before_anything_is_sent(bucket: Any) -> None:
    """In a path `a/b` would be the bucket `a`, and nothing at all a request about all buckets."""
    calls: dict[str, Callable[[Client], object]] = {
        "get": lambda client: client.get(bucket, "k"),
        "put": lambda client: client.put(bucket, "k", b""),
        "delete": lambda client: client.delete(bucket, "k"),
        "get_many": lambda client: list(client.get_many(bucket, ["a", "b"])),
        "list": lambda client: list(client.list(bucket)),
    }
    async with FakeOrigin() as origin:
        origin.store.put("data", "k", b"")
        with library_client(origin.endpoint, origin.secret) as client:
            # From here on the server is known to have no batches: a refusal does not depend on it.
            await run(lambda: list(client.get_many("data", ["k", "k"])))
            before = len(origin.log.requests)
            for call in calls.values():
                with pytest.raises((InvalidRequest, TypeError), match="a bucket is a "):
                    await run(call, client)
        assert len(origin.log.requests) == before


async def test_what_is_no_text_or_no_number_says_so() -> None:
    async with FakeOrigin() as origin:
        with library_client(origin.endpoint, origin.secret) as client:
            with pytest.raises(TypeError, match="metadata is text; 'epoch' is of type int"):
                await run(client.put, "data", "k", b"", metadata={"epoch": 7})
            with pytest.raises(TypeError, match="metadata is a mapping, not list"):
                await run(client.put, "data", "k", b"", metadata=[("a", "b")])
            with pytest.raises(TypeError, match="metadata is text; 7 is of type int"):
                await run(client.put, "data", "k", b"", metadata={7: "epoch"})
            with pytest.raises(TypeError, match="version_id is a str, not int"):
                await run(client.get, "data", "k", version_id=7)
            for call, name in ((client.open, "read_ahead"), (client.create, "part_size")):
                for number in (1.5, "8", None):
                    with pytest.raises(TypeError, match=f"{name} is an int, not "):
                        await run(call, "data", "k", **{name: number})
            with pytest.raises(TypeError, match="part_size is an int, not float"):
                await run(client.put_file, "data", "k", __file__, 5e6)
            with pytest.raises(TypeError, match="expires is an int, not float"):
                client.presign("data", "k", expires=1.5)  # type: ignore[arg-type] # what is not typed does this
            with pytest.raises(ValueError, match="a method is one such as GET, not 'get'"):
                client.presign("data", "k", method="get")
            with pytest.raises(TypeError, match="the position of a byte is an int, not str"):
                await run(client.get_range, "data", "k", "0", None)
            with pytest.raises(TypeError, match="the position of a byte is an int, not float"):
                await run(client.get_into, "data", "k", bytearray(5), 1.5)
        assert len(origin.log.requests) == 0


async def test_a_name_of_metadata_is_there_once(client: Client) -> None:
    """Names of headers have no case: one of the two would be lost."""
    with pytest.raises(InvalidRequest, match="'epoch' is there twice"):
        await run(client.put, "data", "a", b"", metadata={"Epoch": "1", "epoch": "2"})


async def test_what_is_no_file_with_a_size_is_not_uploaded(client: Client, tmp_path: Path) -> None:
    """A pipe has the size 0, and content."""
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="no regular file"):
        await run(client.put_file, "data", "a", tmp_path / "pipe")
    with pytest.raises(IsADirectoryError):
        await run(client.put_file, "data", "a", tmp_path)


async def test_what_is_no_buffer_is_named() -> None:
    """Python's own message is about a memoryview, or a cast."""
    text: Any = "text"
    rows = memoryview(bytes(range(24))).cast("B", (4, 6))
    async with FakeOrigin() as origin:
        origin.store.put("data", "before", b"")
        with library_client(origin.endpoint, origin.secret) as client:
            for data in (text, None, 7, rows[::2]):
                with pytest.raises(TypeError, match=r"^data is bytes, or another contiguous buffer; not "):
                    await run(client.put, "data", "k", data)
                with pytest.raises(TypeError, match=r"^data is bytes, or another contiguous buffer; not "):
                    await run(client.create("data", "k").write, data)
                with pytest.raises(TypeError, match=r"^buffer is a bytearray, or another contiguous buffer; not "):
                    await run(client.get_into, "data", "k", data)
            with pytest.raises(TypeError, match="not memoryview that has gaps"):
                await run(client.put, "data", "k", rows[::2])
            with pytest.raises(TypeError, match="not str: encode it first"):
                await run(client.put, "data", "k", text)
            with pytest.raises(ValueError, match="the buffer is read-only"):
                await run(client.get_into, "data", "k", b"bytes")
            assert len(origin.log.requests) == 0
            await run(client.put, "data", "k", rows)
            await run(client.put, "data", "none", (ctypes.c_int * 3 * 0)())
            assert bytes(await run(client.get, "data", "k")) == bytes(range(24))


async def test_one_key_is_not_taken_for_many() -> None:
    async with FakeOrigin() as origin:
        with library_client(origin.endpoint, origin.secret) as client:
            with pytest.raises(TypeError, match="keys are a list"):
                client.get_many("data", "key")
            with pytest.raises(TypeError, match="keys are a list"):
                client.plan("data", "name", "key")
            with pytest.raises(TypeError, match="a key is a str or a BatchKey"):
                list(client.get_many("data", [b"key"]))  # type: ignore[list-item] # what is not typed does this
        assert len(origin.log.requests) == 0


async def test_what_was_read_is_read_only_everywhere(client: Client) -> None:
    def dialogue() -> None:
        for key in ("a", "b"):
            client.put("data", key, CONTENT)
        many = [item.content() for item in client.get_many("data", ["a", BatchKey("b", 1, 9)])]
        alone = [item.content() for item in client.get_many("data", ["a"])]
        views = [client.get("data", "a"), client.get_range("data", "a", 5, 9), *many, *alone]
        assert [view.readonly for view in views] == [True] * 5

    await run(dialogue)


async def test_a_member_of_what_is_no_archive_is_refused_everywhere(client: Client) -> None:
    def dialogue() -> None:
        client.put("data", "a", CONTENT)
        items = list(client.get_many("data", [BatchKey("a", member="x"), "a"]))
        error = items[0].error
        assert isinstance(error, InvalidRequest)
        assert (error.key, error.status, error.code) == ("a", 400, "InvalidRequest")
        assert bytes(items[1].content()) == CONTENT

    await run(dialogue)


@pytest.mark.parametrize("name", ["", "r u", "r:u", "r\nu"])
async def test_metadata_without_the_name_of_a_header_is_refused_everywhere(client: Client, name: str) -> None:
    with pytest.raises(InvalidRequest, match="metadata"):
        await run(client.put, "data", "a", b"", metadata={name: "x"})


@pytest.mark.parametrize("kind", ["é", "a\nb"])
async def test_a_type_that_no_header_holds_is_refused_everywhere(client: Client, kind: str) -> None:
    with pytest.raises(InvalidRequest, match="a content type is printable ASCII"):
        await run(client.put, "data", "a", b"", content_type=kind)
    no_text: Any = 7
    with pytest.raises(TypeError, match="a content type is text, not int"):
        await run(client.create, "data", "a", content_type=no_text)


@pytest.mark.parametrize("name", ["prefix", "delimiter", "start_after"])
async def test_no_listing_is_of_what_no_key_holds(client: Client, name: str) -> None:
    for text in ("a\0", "\ud800"):
        with pytest.raises(InvalidRequest, match=f"{name}: ") as refused:
            await run(lambda: list(client.list("data", **{name: text})))  # noqa: B023 # awaited at once
        assert refused.value.status is None


async def test_a_plan_without_a_name_is_refused_everywhere(client: Client) -> None:
    with pytest.raises(InvalidRequest, match="name"):
        await run(client.plan, "data", "", ["a"])


@pytest.mark.parametrize("order", [None, [0]])
async def test_a_plan_of_what_is_no_list_is_refused_everywhere(client: Client, order: list[int] | None) -> None:
    """What passes beside another server must not fail beside a Forebay."""
    for keys in (["a\nb"], [BatchKey("a.tar", member="m")]):
        with pytest.raises(InvalidRequest) as refused:
            await run(client.plan, "data", "epoch-0", keys, order=order)
        assert refused.value.bucket == "data" or order
    with pytest.raises(InvalidRequest, match="no key 1"):
        await run(client.plan, "data", "epoch-0", ["a"], order=[0, 1])
    with pytest.raises(InvalidRequest, match="list of keys"):
        await run(client.warm, "data", ["a", "b\tc"])


@pytest.mark.parametrize("key", ["a\x01b", "a\nb", "a\rb", "a\tb", "a\x1fb", "a\x7fb", "a\x85b", "a\ufffeb"])
async def test_keys_with_control_characters_work(client: Client, key: str) -> None:
    def dialogue() -> None:
        client.put("data", key, CONTENT)
        assert client.get("data", key) == CONTENT
        assert client.head("data", key).size == len(CONTENT)
        assert [item.content() for item in client.get_many("data", [key, key])] == [CONTENT, CONTENT]
        client.delete("data", key)
        in_lists = (lambda: client.plan("data", "p", [key]), lambda: client.warm("data", [key]))
        for call in (*in_lists, lambda: client.plan("data", "p", [key], order=[0])):
            if key[1] in "\n\r\t":
                with pytest.raises(InvalidRequest, match="line end or a tab") as refused:
                    call()
                assert refused.value.key == key
            else:
                call()

    await run(dialogue)


def test_a_message_is_one_line_whatever_the_key() -> None:
    error = ObjectNotFound("it is gone", bucket="b\n", key="ä\nb\0\ud800\x85")
    assert str(error) == "s3://b\\n/ä\\nb\\x00\\ud800\\x85: it is gone"


@pytest.mark.parametrize("key", ["a\0b", "\0", "a\ud800"])
async def test_keys_that_nobody_has_are_named(client: Client, key: str) -> None:
    many = await run(lambda: list(client.get_many("data", ["seed", key, "seed"])))
    calls: list[Callable[[], object]] = [
        lambda: client.get("data", key),
        lambda: client.get_range("data", key, 0, 1),
        lambda: client.head("data", key),
        lambda: client.open("data", key).read(),
        lambda: client.put("data", key, b""),
        lambda: client.delete("data", key),
        lambda: client.plan("data", "p", ["a", key]),
        lambda: client.plan("data", "p", ["a", key], order=[0]),
        lambda: client.warm("data", ["a", key]),
        many[1].content,
    ]

    def dialogue() -> None:
        for call in calls:
            with pytest.raises(InvalidRequest) as refused:
                call()
            assert refused.value.key == key
            assert refused.value.status is None, "nothing was sent"

    await run(dialogue)
