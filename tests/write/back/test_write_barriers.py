"""What has to come after acknowledged writes waits for them, and not for longer than its client would."""

import asyncio
from types import SimpleNamespace
from typing import cast

import pytest
from multidict import CIMultiDict

from forebay.core.errors import S3Error, Throttled
from forebay.core.names import ObjectName
from forebay.core.task_registry import TaskRegistry
from forebay.protocol.exchange import EMPTY_BODY, Request
from forebay.protocol.oss.oss_request import OssRequest
from forebay.protocol.target import Target
from forebay.storage.journal.log_writer import RecordId
from forebay.storage.journal.pending_objects import READ_SECONDS, Objects, PendingObjects, PendingVersion
from forebay.write.back.write_barriers import LOOK_SECONDS, WriteBarriers, wait_unless
from forebay.write.forward_request import WriteContext
from forebay.write.interim_responses import INTERVAL, interims_of
from harness.jumping_loop import JumpingLoop

OLDER, NAME = ObjectName("b", "older"), ObjectName("b", "key")


def _pending(*names: ObjectName) -> PendingObjects:
    async def read(_ref: object, _within: object) -> memoryview:
        raise AssertionError("nothing reads")

    pending = PendingObjects(read)
    for number, name in enumerate(names):
        pending.add(name, PendingVersion(RecordId("log", number), number, None))
    return pending


class _Client:
    """A client that waits for its answer."""

    def __init__(self, oss_request: OssRequest | None = None, agent: str | None = "Boto3") -> None:
        self.has_left = False
        self.headers = CIMultiDict({} if agent is None else {"User-Agent": agent})
        self.oss_request = oss_request
        self.interim: list[float] = []

    def request(self) -> Request:
        times = asyncio.get_running_loop()
        interim = lambda: self.interim.append(times.time())  # noqa: E731 -- a callback
        target, body = "/b/key", EMPTY_BODY
        return Request(
            *("PUT", target, "", self.headers, body, False, 0.0, ""),
            has_left=lambda: self.has_left,
            send_interim=interim,
            oss_request=self.oss_request,
        )


def _write(rule: str, client: _Client | None = None) -> WriteContext:
    request = (client or _Client()).request()
    operation = SimpleNamespace(name="PutObject")
    forward = SimpleNamespace(target=SimpleNamespace(bucket="b"), request=request, operation=operation)
    return cast("WriteContext", SimpleNamespace(forward=forward, decision=SimpleNamespace(write=rule)))


@pytest.mark.parametrize(("has_waited", "most"), [(False, 4), (True, 1)])
def test_a_request_gets_five_interim_responses_at_most(*, has_waited: bool, most: int) -> None:
    """As many as net/http of Go below 1.24 takes: those of its wait, and those of the origin's work."""
    client = _Client()

    async def scenario() -> None:
        interims = interims_of(client.request(), has_waited=has_waited)
        interims.begin()
        interims.begin()
        await asyncio.sleep(1000)
        interims.end()
        interims.end()

    with asyncio.Runner(loop_factory=JumpingLoop) as runner:
        loop = runner.get_loop()
        assert isinstance(loop, JumpingLoop)
        began = loop.time()
        with loop.jumping():
            runner.run(scenario())
    assert [round((at - began) / INTERVAL) for at in client.interim] == list(range(1, most + 1))


def test_a_client_without_a_name_gets_no_interim_response() -> None:
    """s3cmd has none, and takes the first head for the answer."""
    unnamed, named = _Client(agent=None), _Client()

    async def scenario() -> None:
        for client in (unnamed, named):
            interims = interims_of(client.request(), has_waited=False)
            interims.begin()
            await asyncio.sleep(1000)
            interims.end()

    with asyncio.Runner(loop_factory=JumpingLoop) as runner:
        loop = runner.get_loop()
        assert isinstance(loop, JumpingLoop)
        with loop.jumping():
            runner.run(scenario())
    assert (len(unnamed.interim), len(named.interim)) == (0, 4)


@pytest.mark.parametrize(("speaks_oss", "interval"), [(False, 40), (True, 15)])
def test_a_write_waits_while_its_client_is_kept_from_giving_up(*, speaks_oss: bool, interval: int) -> None:
    """By an interim response each 40 seconds, and for 200. Version 2 of the OSS SDKs waits 20 seconds for a byte."""
    client = _Client(cast("OssRequest", object()) if speaks_oss else None)

    async def wait() -> float:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, JumpingLoop)
        began = loop.time()
        with loop.jumping(), pytest.raises(Throttled):
            await WriteBarriers(_pending(OLDER)).before_write(_write("back", client), (NAME,))
        client.interim[:] = [round(each - began) for each in client.interim]
        return loop.time() - began

    with asyncio.Runner(loop_factory=JumpingLoop) as runner:
        assert 5 * interval <= runner.run(wait()) < 5 * interval + 1
    assert client.interim == [interval * number for number in range(1, 5)]


def test_a_read_waits_while_its_client_is_kept_from_giving_up() -> None:
    """For thirty seconds. Version 2 of the OSS SDKs waits 20 seconds for a byte."""
    client = _Client()

    async def wait() -> float:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, JumpingLoop)
        began, target = loop.time(), SimpleNamespace(bucket="b", key="older", param=lambda _: None)
        with loop.jumping(), pytest.raises(Throttled):
            await WriteBarriers(_pending(OLDER)).before_read(cast("Target", target), client.request())
        client.interim[:] = [round(each - began) for each in client.interim]
        return loop.time() - began

    with asyncio.Runner(loop_factory=JumpingLoop) as runner:
        assert READ_SECONDS <= runner.run(wait()) < READ_SECONDS + 1
    assert client.interim == [10, 20]


@pytest.mark.parametrize("settles", [False, True])
def test_the_write_of_a_client_that_has_left_is_not_sent(*, settles: bool) -> None:
    """It would come after what the client has sent since."""

    async def wait() -> float:
        loop, pending, client = asyncio.get_running_loop(), _pending(OLDER), _Client()
        assert isinstance(loop, JumpingLoop)
        began = loop.time()
        write = WriteBarriers(pending).before_write(_write("back", client), (NAME,))
        waiting = TaskRegistry().spawn(write, "write")
        await asyncio.sleep(0)
        client.has_left = True
        if settles:
            pending.remove(OLDER, RecordId("log", 0))
        with loop.jumping(), pytest.raises(ConnectionError):
            await waiting
        return loop.time() - began

    with asyncio.Runner(loop_factory=JumpingLoop) as runner:
        assert runner.run(wait()) < (1 if settles else 41)


def test_a_write_goes_on_once_what_it_waits_for_is_settled() -> None:
    async def wait() -> None:
        loop, pending = asyncio.get_running_loop(), _pending(OLDER, NAME)
        assert isinstance(loop, JumpingLoop)
        write = WriteBarriers(pending).before_write(_write("back"), (NAME,))
        waiting = TaskRegistry().spawn(write, "write")
        await asyncio.sleep(0)
        pending.add(ObjectName("b", "later"), PendingVersion(RecordId("log", 9), 9, None))
        with loop.jumping():
            await asyncio.sleep(199)
        for number, name in enumerate((OLDER, NAME)):
            assert not waiting.done()
            pending.remove(name, RecordId("log", number))
        await waiting

    with asyncio.Runner(loop_factory=JumpingLoop) as runner:
        runner.run(wait())


async def test_outside_of_a_back_rule_a_write_waits_for_its_object_alone() -> None:
    await WriteBarriers(_pending(OLDER)).before_write(_write("through"), (NAME,))


async def test_nobody_waits_in_vain() -> None:
    """While the journal can't note what the origin has, the wait would not end."""
    barriers = WriteBarriers(_pending(OLDER), lambda bucket: {"b": "The journal can't be written."}[bucket])
    with pytest.raises(S3Error, match="journal"):
        await barriers.before_write(_write("back"), (NAME,))
    await barriers.before_write(_write("through"), (NAME,))
    target = SimpleNamespace(bucket="b", key="older", param=lambda _: None)
    with pytest.raises(S3Error, match="journal"):
        await barriers.before_read(cast("Target", target), _Client().request())
    target.key = "key"
    await barriers.before_read(cast("Target", target), _Client().request())


async def test_nobody_waits_for_what_a_person_has_to_decide() -> None:
    """What is waited for is what is asked about."""
    asked: list[Objects] = []

    def is_held_up(objects: Objects) -> bool:
        asked.append(objects)
        return True

    barriers = WriteBarriers(_pending(OLDER, NAME), is_held_up=is_held_up)
    with pytest.raises(S3Error, match=r"is stuck, until an operator decides .* Please try again\."):
        await barriers.before_write(_write("back"), (NAME,))
    with pytest.raises(S3Error, match="is stuck"):
        await barriers.before_write(_write("through"), (NAME,))
    target = SimpleNamespace(bucket="b", key="older", param=lambda _: None)
    with pytest.raises(S3Error, match="is stuck"):
        await barriers.before_read(cast("Target", target), _Client().request())
    [bucket, written, read] = asked
    assert callable(bucket)
    assert [bucket(OLDER), bucket(ObjectName("other", "k")), written, read] == [True, False, {NAME}, (OLDER,)]


@pytest.mark.parametrize("kind", ["write", "read"])
def test_who_waits_already_is_refused_once_that_is_in_vain(kind: str) -> None:
    """A journal that fails, or an end of the process, may come at any time of a wait."""

    async def wait() -> float:
        loop, obstacle = asyncio.get_running_loop(), ""
        assert isinstance(loop, JumpingLoop)
        barriers = WriteBarriers(_pending(OLDER), lambda _bucket: obstacle)
        target = cast("Target", SimpleNamespace(bucket="b", key="older", param=lambda _: None))
        write, read = barriers.before_write(_write("back"), (NAME,)), barriers.before_read(target, _Client().request())
        waiting, other = (write, read) if kind == "write" else (read, write)
        other.close()
        waiting_task = TaskRegistry().spawn(waiting, "wait")
        with loop.jumping():
            await asyncio.sleep(20)
            assert not waiting_task.done()
            obstacle, began = "Forebay is ending.", loop.time()
            with pytest.raises(S3Error, match=r"Forebay is ending\. Please try again\."):
                await waiting_task
        return loop.time() - began

    with asyncio.Runner(loop_factory=JumpingLoop) as runner:
        assert runner.run(wait()) < 2 * LOOK_SECONDS


async def test_a_wait_of_no_time_that_is_in_vain_just_times_out() -> None:
    """As a flush that only asks what is pending, behind a stuck write."""
    failures: list[dict[str, object]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: failures.append(context))
    with pytest.raises(TimeoutError):
        await wait_unless(_pending(NAME).wait_settled(lambda _: True), lambda: True, 0.0)
    await asyncio.sleep(0)
    assert failures == []
