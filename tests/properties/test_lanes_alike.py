"""Both lanes say the same, whatever is asked, and however a request that was proved is changed.

The fast lane reads a request in full, or by the shape of the one before it on its connection; the full lane has it from
aiohttp, or from the fast lane, which had understood it. Made-up requests go all these ways. Of a change to a proved
request the first two must think alike.
"""

import os
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from forebay.shell.listener.fastlane import Caller, FastAnswer, FastLane, Read
from harness.clients import RawClient, RawRequest, path_of
from harness.fake_origin import FakeOrigin
from harness.raw_connection import RawAnswer
from harness.rig import READER, TRAINER, Rig
from security.scale import SCALE

KIB: Final = 1 << 10
REQUESTS: Final = 250 * SCALE
CHANGES: Final = 6_000 * SCALE
LARGE: Final = bytes(range(251)) * (3 * 1024 * KIB // 251)
OBJECTS: Final = {"open/small": b"0123456789" * 400, "open/empty": b"", "open/ä b+c~%": b"odd" * 9, "open/large": LARGE}
RULES: Final = '[[rules]]\npath = "*/open/l*"\nblock = "1MiB"\nfreshness = "immutable"\n'


def made(rng: random.Random, client: RawClient) -> RawRequest:
    """A signed request for one of the objects, plain or not so plain."""
    key = rng.choice([*OBJECTS, "open/none", "closed/small"])
    query = rng.choice(["", "", "", "?x-id=GetObject", "?versionId=null", "?response-content-type=a%2Fb"])
    pairs = [("Connection", "keep-alive")] if rng.random() < 0.2 else []
    if rng.random() < 0.5:
        first, last = rng.randint(0, 5000), rng.randint(0, 5000)
        given = (f"{first}-{first + last}", f"{first}-", f"-{last}", "-0", f"{first}-{first - 1}", "0-1,3-4", "x")
        pairs.append((rng.choice(["Range", "range"]), f"bytes={rng.choice(given)}"))
    for pair, often in (
        (("x-amz-checksum-mode", "ENABLED"), 0.2),
        (("If-Match", "*"), 0.1),
        (("If-None-Match", '"other"'), 0.05),
        (("Cache-Control", rng.choice(["no-cache", "max-age=9"])), 0.05),
        (("amz-sdk-invocation-id", f"{rng.getrandbits(128):032x}"), 0.4),
        (("amz-sdk-request", f"attempt={rng.randint(1, 9)}; max=3"), 0.4),
        (("User-Agent", "a  client/1"), 0.4),
    ):
        if rng.random() < often:
            pairs.append(pair)
    rng.shuffle(pairs)
    return client.sign(rng.choice(["GET", "GET", "HEAD"]), path_of("b", key) + query, pairs)


def changed(rng: random.Random, wire: bytes) -> Iterator[bytes]:
    """The bytes of a request, with one change each."""
    while True:
        at, piece = rng.randrange(len(wire)), bytes([rng.choice(b'0aZ /:%?;=,\r\n\t"~\x00\xc3')])
        yield wire[:at] + piece + wire[at + rng.randint(0, 1) :]
        yield wire[:at] + wire[at + rng.randint(1, 8) :]
        lines = wire.split(b"\r\n")
        one, other = rng.randrange(len(lines) - 2), rng.randrange(len(lines) - 2)
        lines[one], lines[other] = lines[other], lines[one]
        yield b"\r\n".join(lines)
        lines.insert(other, rng.choice([lines[one], b"Content-Length: 0", b"Range: bytes=0-1", b"x-amz-acl: a"]))
        yield b"\r\n".join(lines)
        yield wire + rng.choice([b"\r\n", wire, b"x", b""])


async def test_made_up_requests_are_answered_alike_three_ways(tmp_path: Path) -> None:
    rng, shaped, fast, read = random.Random(11), 0, 0, 0
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, rest=RULES) as rig:
        await _warm(rig, origin)
        lane = _lane(rig)
        rig.worker.listener.server.lane = None
        for _ in range(REQUESTS):
            client = rig.client(rng.choice([TRAINER, READER]))
            request, again = (made(state, client) for state in _twice(rng))
            caller = Caller("127.0.0.1")
            answers = [lane.answer(each.wire, caller) for each in (request, again)]
            shaped += caller.shape is not None
            fast += isinstance(answers[0], tuple)
            whole = await client.send(request)
            for answer in answers:
                assert type(answer) is type(answers[0]), request
                if isinstance(answer, Read):  # understood, and no hit: answered without aiohttp
                    rig.worker.listener.server.lane, read = lane, read + 1
                    direct = await client.send(request)
                    assert _told(answer) == _told(answers[0]), request
                    rig.worker.listener.server.lane = None
                    assert _lasting(direct, request.method) == _lasting(whole, request.method), request
                elif answer is not None:
                    assert _told(answer) == _lasting(whole, request.method), request
    assert shaped > REQUESTS // 8
    assert fast > shaped
    assert read > REQUESTS // 16


async def test_a_change_to_a_proved_request_is_seen_however_it_is_read(tmp_path: Path) -> None:
    rng, let_in = random.Random(12), 0
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, rest=RULES) as rig:
        await _warm(rig, origin)
        lane = _lane(rig)
        for extra in ((), (("Range", "bytes=5-99"), ("amz-sdk-invocation-id", "one-of-many"))):
            wire = rig.client().sign("GET", path_of("b", "open/small"), extra).wire
            for change, _ in zip(changed(rng, wire), range(CHANGES // 2), strict=False):
                known = Caller("127.0.0.1")
                assert lane.answer(wire, known) is not None
                assert known.shape is not None
                by_shape, in_full = lane.answer(change, known), lane.answer(change, Caller("127.0.0.1"))
                assert _told(by_shape) == _told(in_full), change
                let_in += by_shape is not None
    assert 0 < let_in < CHANGES // 3  # what changes nothing that was said or signed


async def test_what_one_object_was_asked_for_decides_nothing_of_another(tmp_path: Path) -> None:
    """Conditions, judged against one object, in requests of the same shape for the other ones."""
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, rest=RULES) as rig:
        await _warm(rig, origin)
        lane, client = _lane(rig), rig.client()
        target, other = path_of("b", "open/small"), path_of("b", "open/ä b+c~%")
        assert lane.answer(client.sign("GET", other).wire, Caller("127.0.0.1")) is not None
        etag, others = [(await client.request("HEAD", each)).headers["ETag"] for each in (target, other)]
        for condition in (("If-None-Match", others), ("If-Match", etag)):
            known = Caller("127.0.0.1")
            lane.answer(client.sign("GET", target, [condition]).wire, known)
            wire = client.sign("GET", other, [condition]).wire
            by_shape, in_full = lane.answer(wire, known), lane.answer(wire, Caller("127.0.0.1"))
            assert _told(by_shape) == _told(in_full), condition


def _twice(rng: random.Random) -> Iterator[random.Random]:
    """The same choices, made twice."""
    seed = rng.random()
    yield random.Random(seed)
    yield random.Random(seed)


def _told(answer: FastAnswer | Read | None) -> object:
    """What an answer says, or how far a read that is none of the fast lane's has come."""
    if answer is None or isinstance(answer, Read):
        return answer and (answer.method, answer.raw_target, answer.admitted._replace(signed=None))
    head, _, body = answer[0].partition(b"\r\n\r\n")
    line, *fields = head.decode("latin-1").split("\r\n")
    return (
        int(line.split()[1]),
        [field for field in fields if not _passing(field)],
        body
        + b"".join(
            [
                *answer[1],
                *(os.pread(stretch.file.fd, stretch.stop - stretch.start, stretch.start) for stretch in answer[2]),
            ]
        ),
    )


def _lasting(answer: RawAnswer, method: str) -> tuple[int, list[str], bytes]:
    fields = [f"{name}: {value}" for name, value in answer.pairs]
    body = re.sub(rb"<RequestId>\w*", b"", b"" if method == "HEAD" else answer.body)
    return answer.status, [field for field in fields if not _passing(field)], body


def _passing(field: str) -> bool:
    return re.match(r"date:|x-amz-request-id:", field, re.IGNORECASE) is not None


def _lane(rig: Rig) -> FastLane:
    lane = rig.worker.listener.server.lane
    assert lane is not None
    return lane


async def _warm(rig: Rig, origin: FakeOrigin) -> None:
    for key, content in {**OBJECTS, "closed/small": b"closed"}.items():
        origin.store.put("b", key, content, content_type="text/plain", x_amz_meta_colour="red")
        assert (await rig.client().request("GET", path_of("b", key))).body == content
