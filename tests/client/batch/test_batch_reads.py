"""`get_many` over batches: one request for hundreds of keys, and GETs wherever a batch is not to be had."""

import asyncio
import io
import tarfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from forebay_client import (
    AccessDenied,
    BatchItem,
    BatchKey,
    Client,
    InvalidRequest,
    ObjectNotFound,
    RangeNotSatisfiable,
    ServiceUnavailable,
)
from forebay_client.batch.key_groups import GROUP
from harness.fake.actions import CloseAfter, Drop, HoldRequest, Respond
from harness.fake.gate import Gate
from harness.fake_origin import FakeOrigin
from harness.forked import in_a_fork
from harness.reference_sigv4 import Secret
from harness.rig import READER, TRAINER, Rig

RULE = '[[rules]]\npath = "**"\nfreshness = "immutable"\nblock = "64KiB"\n'
KEYS = [f"set/{number:04}" for number in range(20)]
LISTED = [KEYS[number % 19] for number in range(2 * GROUP + 76)]


class Stage(NamedTuple):
    """A Forebay and its origin, with KEYS in the bucket `data`."""

    origin: FakeOrigin
    rig: Rig
    client: Client


def client_of(endpoint: str, secret: Secret, retries: int = 0) -> Client:
    return Client(endpoint, access_key=secret.access, secret_key=secret.secret, region=secret.region, retries=retries)


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, rest=RULE) as rig:
        for key in KEYS:
            origin.store.put("data", key, key.encode() * 20)
        with client_of(rig.endpoint, TRAINER) as client:
            yield Stage(origin, rig, client)


async def many(client: Client, keys: list[str | BatchKey], *, ordered: bool = True) -> list[BatchItem]:
    return await asyncio.to_thread(lambda: list(client.get_many("data", keys, ordered=ordered)))


@pytest.mark.parametrize("ordered", [True, False])
async def test_hundreds_of_keys_take_few_requests(stage: Stage, ordered: bool) -> None:
    items = await many(stage.client, [*LISTED], ordered=ordered)
    assert {item.index: (item.key, bytes(item.content())) for item in items} == {
        index: (key, key.encode() * 20) for index, key in enumerate(LISTED)
    }
    assert ([item.index for item in items] == list(range(len(LISTED)))) or not ordered
    assert stage.client.stats.requests == {"http": 3}
    assert stage.client.stats.fallbacks == {}


async def test_ranges_empty_ranges_and_errors_keep_their_order(stage: Stage) -> None:
    body = KEYS[0].encode() * 20
    keys: list[str | BatchKey] = [
        BatchKey(KEYS[0], 5, 5),
        BatchKey(KEYS[0], 3, 9),
        "gone",
        BatchKey(KEYS[0], 10_000),
        BatchKey(KEYS[0], 2, 1 << 40),
        BatchKey("gone", 7, 7),
    ]
    for _ in range(2):
        items = await many(stage.client, keys)
        assert [item.index for item in items] == list(range(6))
        assert [None if item.data is None else bytes(item.data) for item in items] == [
            *(b"", body[3:9], None, None, body[2:], b"")
        ]
        assert isinstance(items[2].error, ObjectNotFound)
        assert (items[2].error.bucket, items[2].error.key, items[2].error.code) == ("data", "gone", "NoSuchKey")
        assert isinstance(items[3].error, RangeNotSatisfiable)
    assert stage.client.stats.requests == {"http": 2}
    with pytest.raises(ValueError, match="no range"):
        await many(stage.client, [BatchKey("a", 5, 4), "b"])


async def test_odd_keys_are_recognised(stage: Stage) -> None:
    keys = ["a/", "//", "é/ü", "new\nline", "x" * 1024, "%41", "../up"]
    for key in keys:
        stage.origin.store.put("data", key, key.encode())
    assert [bytes(item.content()) for item in await many(stage.client, [*keys])] == [key.encode() for key in keys]
    assert stage.client.stats.requests == {"http": 1}


async def test_denied_keys_are_errors_of_their_own(stage: Stage) -> None:
    stage.origin.store.put("data", "open/a", b"open")
    with client_of(stage.rig.endpoint, READER) as client:
        items = await many(client, ["open/a", KEYS[0]])
    assert bytes(items[0].content()) == b"open"
    assert isinstance(items[1].error, AccessDenied)


@pytest.mark.parametrize("ordered", [True, False])
async def test_plain_s3_is_read_by_gets_and_remembered(ordered: bool) -> None:
    async with FakeOrigin() as origin:
        for key in KEYS[:20]:
            origin.store.put("data", key, key.encode())
        with client_of(origin.endpoint, origin.secret) as client:
            for _ in range(2):
                items = await many(client, [*KEYS[:20], "gone", BatchKey(KEYS[0], 4, 4)], ordered=ordered)
                found = {item.index: item for item in items}
                assert [bytes(found[at].content()) for at in range(20)] == [key.encode() for key in KEYS[:20]]
                assert isinstance(found[20].error, ObjectNotFound)
                assert bytes(found[21].content()) == b""
            assert origin.log.count("POST") == 1
            assert client.stats.fallbacks == {"batch: the server knows none": 1}


async def test_an_entry_that_fails_for_now_is_read_again(stage: Stage) -> None:
    stage.origin.faults.add(Respond(503, "SlowDown"), key=KEYS[3], times=2)
    with client_of(stage.rig.endpoint, TRAINER, retries=2) as client:
        items = await many(client, [*KEYS[:6]])
        assert [bytes(item.content()) for item in items] == [key.encode() * 20 for key in KEYS[:6]]


async def test_a_batch_that_breaks_off_goes_on_by_gets(stage: Stage) -> None:
    large = bytes(range(256)) * 10_000
    stage.origin.store.put("data", "large", large)
    stage.origin.faults.add(CloseAfter(700_000), key="large", times=4)
    with client_of(stage.rig.endpoint, TRAINER, retries=3) as client:
        items = await many(client, [KEYS[0], "large", KEYS[1]])
    assert [bytes(item.content()) for item in items] == [KEYS[0].encode() * 20, large, KEYS[1].encode() * 20]


async def test_a_server_that_never_answers_costs_no_time_for_each_key() -> None:
    keys = [f"k/{number}" for number in range(400)]
    async with FakeOrigin() as origin:
        origin.faults.add(Drop())
        with client_of(origin.endpoint, origin.secret) as client:
            items = await many(client, [*keys])
        assert origin.log.count("POST") == 1
        assert 1 <= origin.log.count("GET") <= 64  # those under way at once, of 400
    for item, key in zip(items, keys, strict=True):
        assert isinstance(item.error, ServiceUnavailable)
        assert str(item.error).startswith(f"s3://data/{key}: no response")


@pytest.mark.parametrize("bucket", ["nowhere", "No-Bucket"])
async def test_a_wrong_bucket_says_nothing_of_the_server(stage: Stage, bucket: str) -> None:
    def dialogue() -> None:
        items = list(stage.client.get_many(bucket, KEYS))
        assert {type(item.error) for item in items} <= {ObjectNotFound, InvalidRequest}
        before = stage.client.stats.requests["http"]
        assert [item.error for item in stage.client.get_many("data", KEYS)] == [None] * len(KEYS)
        assert stage.client.stats.requests["http"] == before + 1

    await asyncio.to_thread(dialogue)


async def test_integers_of_other_libraries_are_positions(stage: Stage) -> None:
    class Int64:  # as numpy has it
        def __init__(self, value: int) -> None:
            self._value = value

        def __index__(self) -> int:
            return self._value

    body = KEYS[0].encode() * 20
    keys: list[Any] = [BatchKey(KEYS[0], Int64(3), Int64(9)), BatchKey(KEYS[0], Int64(5)), KEYS[1]]  # type: ignore[arg-type] # the interface says int
    items = await many(stage.client, keys)
    assert [bytes(item.content()) for item in items[:2]] == [body[3:9], body[5:]]
    assert stage.client.stats.requests == {"http": 1}
    for wrong in ("3", 1.5):
        with pytest.raises(TypeError, match="the position of a byte is an int, not"):
            await many(stage.client, [BatchKey(KEYS[0], wrong), KEYS[1]])  # type: ignore[arg-type] # on purpose


async def test_a_position_that_no_object_has_is_an_error_of_its_own(stage: Stage) -> None:
    items = await many(stage.client, [BatchKey(KEYS[0], 1 << 70), KEYS[1], BatchKey(KEYS[0], 4, 1 << 70)])
    body = KEYS[0].encode() * 20
    assert isinstance(items[0].error, RangeNotSatisfiable)
    assert [bytes(item.content()) for item in items[1:]] == [KEYS[1].encode() * 20, body[4:]]
    assert stage.client.stats.fallbacks == {}


async def test_a_child_after_a_fork_takes_nothing_from_the_parent(tmp_path: Path) -> None:
    """Both go on with the same iterator, in the middle of a response, with the next request under way."""
    keys = [f"k/{number:03}" for number in range(GROUP + 40)]
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, rest=RULE) as rig:
        for number, key in enumerate(keys):
            origin.store.put_synthetic("data", key, 9000 + number)
        with client_of(rig.endpoint, TRAINER) as client:

            def dialogue() -> None:
                lengths = [9000 + number for number in range(len(keys))]
                contents = [bytes(item.content()) for item in client.get_many("data", keys)]
                assert [len(content) for content in contents] == lengths
                items = client.get_many("data", keys)
                first = [bytes(next(items).content()) for _ in range(3)]
                assert in_a_fork(lambda: [bytes(item.content()) for item in items]) == contents[3:]
                assert first + [bytes(item.content()) for item in items] == contents
                assert client.stats.fallbacks == {}

            await asyncio.to_thread(dialogue)


async def test_parallel_gets_go_on_in_a_child_after_a_fork() -> None:
    async with FakeOrigin() as origin:
        for key in KEYS:
            origin.store.put("data", key, key.encode())
        gates = [Gate(), Gate()]
        with client_of(origin.endpoint, origin.secret) as client:
            for ordered, gate in zip((True, False), gates, strict=True):
                origin.faults.add(HoldRequest(gate), key=KEYS[5], times=1)

                def dialogue(ordered: bool = ordered) -> list[bytes]:
                    items = client.get_many("data", KEYS, ordered=ordered)
                    first = [bytes(next(items).content()) for _ in range(3)]
                    rest = in_a_fork(lambda: [bytes(item.content()) for item in items])
                    return [*first, *rest]

                found = await asyncio.to_thread(dialogue)
                assert set(found) == {key.encode() for key in KEYS}
            for gate in gates:
                gate.open()


async def test_an_iterator_that_is_dropped_leaves_nothing_open(stage: Stage) -> None:
    def drop() -> None:
        for _ in range(3):
            items = stage.client.get_many("data", LISTED)
            assert next(items).key == KEYS[0]
            items.close()  # type: ignore[attr-defined]  # a generator, whose type the interface does not show
        assert bytes(stage.client.get("data", KEYS[1])) == KEYS[1].encode() * 20

    await asyncio.to_thread(drop)


async def test_members_of_archives_are_read(stage: Stage) -> None:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        for name in ("one", "two"):
            info = tarfile.TarInfo(name)
            info.size = 10
            archive.addfile(info, io.BytesIO(name.encode() * 4))
    stage.origin.store.put("data", "shard.tar", file.getvalue())
    keys = [BatchKey("shard.tar", member="two"), BatchKey("shard.tar", 1, 5, "one"), BatchKey("shard.tar", member="no")]
    for endpoint, secret in ((stage.rig.endpoint, TRAINER), (stage.origin.endpoint, stage.origin.secret)):
        with client_of(endpoint, secret) as client:
            items = await many(client, [*keys])
        assert bytes(items[0].content()) == b"twotwotwot"
        assert bytes(items[1].content()) == b"neon"
        assert isinstance(items[2].error, ObjectNotFound)
