"""Fuzz: a whole Forebay. Whatever is asked, signed or not, is answered or refused; nothing is a fault of our own.

Signed by who may do everything, so that what lies behind the gate is met as well; and as bytes on a socket, where every
connection is answered or ended and the next client finds a server.
"""

import asyncio
import random
from pathlib import Path
from typing import Final

from hypothesis import example, given
from hypothesis import strategies as st
from multidict import CIMultiDict, CIMultiDictProxy

from harness.clients import RawRequest
from harness.fake_origin import FakeOrigin
from harness.manual_timers import ManualTimers
from harness.rig import TRAINER, Rig
from security.gateway_requests import handle_raw_request
from security.mutants import damaged
from security.oss_signers import ALL_SIGNERS
from security.required_grants import COMPLETE_BODY, DELETE_BODY, SAMPLES
from security.scale import SCALE, fuzzed
from security.signers import SIGNERS
from security.strategies import HEADERS, OSS_HEADERS, TARGETS

_bodies: Final = st.sampled_from(
    (b"", b"content", DELETE_BODY, COMPLETE_BODY, b"5\r\nhello\r\n0\r\n\r\n", b"--b\r\n", b"\xff" * 100)
)
_methods: Final = st.sampled_from(("GET", "HEAD", "PUT", "POST", "DELETE", "PATCH"))
LIMITS: Final = '[limits]\nheader_timeout = "1s"\nidle_timeout = "1s"\nbody_timeout = "1s"\n'


def test_no_request_causes_an_internal_error(tmp_path: Path) -> None:
    with asyncio.Runner() as runner:
        origin = FakeOrigin()
        runner.run(origin.__aenter__())
        rig = Rig(origin.endpoint, origin.secret, tmp_path)
        runner.run(rig.start())
        origin.store.put("bucket", "key", b"content")

        async def ask(request: RawRequest) -> None:
            reply, record = await handle_raw_request(rig.parts.requests.gateway, request, rig.now())
            assert record.error != "InternalError", request
            assert reply.status or reply.aborted

        @given(_methods, TARGETS, st.one_of(HEADERS, OSS_HEADERS), _bodies, st.sampled_from(sorted(ALL_SIGNERS)))
        @example("GET", "/?=\udc80", CIMultiDictProxy(CIMultiDict(Host="h")), b"", min(ALL_SIGNERS))
        @fuzzed(600)
        def ask_both(
            method: str, target: str, headers: CIMultiDictProxy[str], body: bytes, form: tuple[str, str]
        ) -> None:
            own = {"host", "authorization", "date", "x-amz-date", "x-amz-content-sha256", "x-oss-content-sha256"}
            own |= {"x-oss-date", "x-oss-security-token", "security-token"}
            pairs = [(name, value) for name, value in headers.items() if name.lower() not in own]
            if form not in SIGNERS:  # whatever an OSS client would say: each once, and nothing of S3
                once = {name.lower(): (name, value) for name, value in pairs}
                pairs = [pair for name, pair in once.items() if not name.startswith("x-amz-")]
            if all(value.isascii() and value.isprintable() for _, value in pairs) and target.isascii():
                runner.run(ask(ALL_SIGNERS[form](TRAINER, method, target, pairs, body, rig.now(), None)))
            runner.run(ask(RawRequest(method, target, tuple(headers.items()), body)))

        try:
            ask_both()
        finally:
            runner.run(rig.stop())
            runner.run(origin.__aexit__(None, None, None))


async def test_no_bytes_on_a_socket_are_a_fault_of_ours(tmp_path: Path) -> None:
    rng, timers, ended = random.Random(13), ManualTimers(), 0
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, timers, rest=LIMITS) as rig:
        origin.store.put("bucket", "key", b"content")
        client, free = rig.client(), asyncio.Semaphore(100)
        wires = [client.sign(*sample[1:3], sample.pairs, sample.body).wire for sample in SAMPLES]

        async def send(wire: bytes) -> None:
            nonlocal ended
            async with free:
                reader, writer = await asyncio.open_connection("127.0.0.1", rig.worker.address[1])
                try:
                    writer.write(wire)
                    async with asyncio.timeout(60):
                        answer = await reader.read()
                    assert b" 500 " not in answer[:20], wire
                except ConnectionError:
                    pass
                finally:
                    ended += 1
                    writer.close()

        with timers.flowing(1.0, lambda: ended):
            async with asyncio.TaskGroup() as group:
                for _ in range(300 * min(SCALE, 50)):
                    wire = damaged(rng.choice(wires), rng)
                    group.create_task(send(wire[: rng.randrange(len(wire))] if rng.random() < 0.2 else wire))
        assert (await client.request("GET", "/bucket/key")).status in {200, 404}
        await rig.wait_idle()
