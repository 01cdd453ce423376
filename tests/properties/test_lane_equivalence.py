"""Both lanes say the same, whatever is asked, and however a request that was proved is changed.

The fast lane reads a request in full, or by the shape of one that was proved before; the full lane has it from aiohttp,
or from the fast lane, which had understood it. Made-up requests go all these ways, in every form of signature. Of a
change to a proved request the first two must think alike.
"""

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from forebay.server.fastpath.client_state import ClientState
from forebay.server.fastpath.fast_lane import FastLane
from forebay.server.fastpath.lane_answer import AdmittedRead
from harness.clients import RawRequest, path_of
from harness.fake.store import md5_etag
from harness.fake_origin import FakeOrigin
from harness.lane_responses import fresh_lane, has_template, lane_response, socket_response
from harness.reference_sigv4 import Secret
from harness.rig import READER, TRAINER, Rig
from security.oss_signers import ALL_SIGNERS
from security.scale import SCALE
from security.signers import SIGNERS, Form, Pairs, form_name

KIB: Final = 1 << 10
REQUESTS: Final = 250 * SCALE
CHANGES: Final = 600 * SCALE
"""Of each form's requests."""
LARGE: Final = bytes(range(251)) * (3 * 1024 * KIB // 251)
OBJECTS: Final = {"open/small": b"0123456789" * 400, "open/empty": b"", "open/ä b+c~%": b"odd" * 9, "open/large": LARGE}
RULES: Final = '[[rules]]\npath = "*/open/l*"\nblock = "1MiB"\nfreshness = "immutable"\n'


def made(rng: random.Random, form: Form, secret: Secret, now: float) -> RawRequest:
    """A signed request for one of the objects, plain or not so plain."""
    s3 = form in SIGNERS
    key = rng.choice([*OBJECTS, "open/none", "closed/small"])
    queries = ["?x-id=GetObject"] if s3 else ["?objectMeta", "?x-oss-process=a"]
    query = rng.choice(["", "", "", *queries, "?versionId=null", "?response-content-type=a%2Fb"])
    pairs = [("Connection", "keep-alive")] if rng.random() < 0.2 else []
    if rng.random() < 0.5:
        first, last = rng.randint(0, 5000), rng.randint(0, 5000)
        given = (f"{first}-{first + last}", f"{first}-", f"-{last}", "-0", f"{first}-{first - 1}", "0-1,3-4", "x")
        pairs.append((rng.choice(["Range", "range"]), f"bytes={rng.choice(given)}"))
    etag = md5_etag(OBJECTS["open/small"])
    dates = ("Wed, 18 Nov 1998 10:00:00 GMT", "Wed, 18 Nov 2037 10:00:00 GMT", "whenever")
    for pair, often in (
        (("x-amz-checksum-mode", "ENABLED"), 0.2 * s3),
        (("x-oss-range-behavior", rng.choice(["standard", "other"])), 0.3 * (not s3)),
        (("If-Match", rng.choice(["*", etag, etag.strip('"').upper(), f'"a", {etag}', f"W/{etag}", '"other"'])), 0.3),
        (("If-None-Match", rng.choice(["*", etag, f"W/{etag}", '"other"'])), 0.2),
        (("If-Modified-Since", rng.choice(dates)), 0.1),
        (("If-Unmodified-Since", rng.choice(dates)), 0.1),
        (("Cache-Control", rng.choice(["no-cache", "max-age=9"])), 0.05),
        (("amz-sdk-invocation-id", f"{rng.getrandbits(128):032x}"), 0.4),
        (("amz-sdk-request", f"attempt={rng.randint(1, 9)}; max=3"), 0.4),
        (("User-Agent", "a  client/1"), 0.4),
    ):
        if rng.random() < often:
            pairs.append(pair)
    rng.shuffle(pairs)
    method = rng.choice(["GET", "GET", "HEAD"])
    return ALL_SIGNERS[form](secret, method, path_of("b", key) + query, pairs, b"", now - rng.randint(0, 99), None)


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
    rng, shaped, fast, read = random.Random(11), set[Form](), 0, 0
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, rest=RULES) as rig:
        await _warm(rig, origin)
        lane = _lane(rig)
        rig.worker.listener.reads.fast_lane = None
        for _ in range(REQUESTS):
            form, secret, now = rng.choice([*ALL_SIGNERS]), rng.choice([TRAINER, READER]), rig.now()
            request, again = (made(state, form, secret, now) for state in _twice(rng))
            caller = ClientState("127.0.0.1")
            answers = [lane.answer(each.wire, caller) for each in (request, again)]
            if type(answers[0]) is tuple and has_template(rig, caller, again.wire):
                shaped.add(form)
            fast += type(answers[0]) is tuple
            whole = socket_response(await rig.client().send(request), request.method)
            in_full = fresh_lane(rig).answer(request.wire, ClientState("127.0.0.1"))
            for answer in (*answers, in_full):
                assert type(answer) is type(answers[0]), request
                if isinstance(answer, AdmittedRead):  # understood, and no hit: answered without aiohttp
                    rig.worker.listener.reads.fast_lane, read = lane, read + 1
                    direct = await rig.client().send(request)
                    assert lane_response(answer) == lane_response(answers[0]), request
                    rig.worker.listener.reads.fast_lane = None
                    assert socket_response(direct, request.method) == whole, request
                elif answer is not None:
                    assert lane_response(answer) == whole, request
    assert shaped == ALL_SIGNERS.keys() - {("SignedOssV2", "query")}
    assert fast > REQUESTS // 4
    assert read > REQUESTS // 16


EXTRAS: Final[dict[str, Pairs]] = {
    "plain": (),
    "range": (("Range", "bytes=5-99"), ("amz-sdk-invocation-id", "one-of-many")),
    "conditions": (("If-Match", md5_etag(OBJECTS["open/small"])), ("If-None-Match", '"other"')),
}


@pytest.mark.parametrize("form", ALL_SIGNERS, ids=form_name)
async def test_a_change_to_a_proved_request_is_seen_however_it_is_read(tmp_path: Path, form: Form) -> None:
    rng, let_in = random.Random(12), 0
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, rest=RULES) as rig:
        await _warm(rig, origin)
        lane = _lane(rig)
        for extra in EXTRAS.values():
            wire = ALL_SIGNERS[form](TRAINER, "GET", path_of("b", "open/small"), extra, b"", rig.now(), None).wire
            for change, _ in zip(changed(rng, wire), range(CHANGES // len(EXTRAS)), strict=False):
                known = ClientState("127.0.0.1")
                assert type(lane.answer(wire, known)) is tuple
                assert has_template(rig, known, wire) == (form != ("SignedOssV2", "query"))
                by_shape, in_full = lane.answer(change, known), fresh_lane(rig).answer(change, ClientState("127.0.0.1"))
                assert lane_response(by_shape) == lane_response(in_full), change
                let_in += type(by_shape) is tuple
    assert 0 < let_in < CHANGES // 2  # what changes nothing that was said or signed


async def test_objects_do_not_influence_each_other(tmp_path: Path) -> None:
    """Conditions, judged against one object, in requests of the same shape for the other ones."""
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, rest=RULES) as rig:
        await _warm(rig, origin)
        lane, client = _lane(rig), rig.client()
        target, other = path_of("b", "open/small"), path_of("b", "open/ä b+c~%")
        assert lane.answer(client.sign("GET", other).wire, ClientState("127.0.0.1")) is not None
        etag, others = [(await client.request("HEAD", each)).headers["ETag"] for each in (target, other)]
        for condition in (("If-None-Match", others), ("If-Match", etag)):
            known = ClientState("127.0.0.1")
            lane.answer(client.sign("GET", target, [condition]).wire, known)
            wire = client.sign("GET", other, [condition]).wire
            by_shape, in_full = lane.answer(wire, known), fresh_lane(rig).answer(wire, ClientState("127.0.0.1"))
            assert lane_response(by_shape) == lane_response(in_full), condition
        # A proved request whose query claims another signature is nobody's, by its shape too.
        known = ClientState("127.0.0.1")
        lane.answer(client.sign("GET", target).wire, known)
        wire = client.sign("GET", f"{other}?X-Amz-Signature={'0' * 64}").wire
        by_shape, in_full = lane.answer(wire, known), fresh_lane(rig).answer(wire, ClientState("127.0.0.1"))
        assert lane_response(by_shape) == lane_response(in_full)
        assert in_full is None


def _twice(rng: random.Random) -> Iterator[random.Random]:
    """The same choices, made twice."""
    seed = rng.random()
    yield random.Random(seed)
    yield random.Random(seed)


def _lane(rig: Rig) -> FastLane:
    lane = rig.worker.listener.reads.fast_lane
    assert lane is not None
    return lane


async def _warm(rig: Rig, origin: FakeOrigin) -> None:
    for key, content in {**OBJECTS, "closed/small": b"closed"}.items():
        origin.store.put("b", key, content, content_type="text/plain", x_amz_meta_colour="red")
        assert (await rig.client().request("GET", path_of("b", key))).body == content
