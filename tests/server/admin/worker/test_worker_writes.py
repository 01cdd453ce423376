"""The admin port's verbs about pending writes, on a worker that serves."""

import asyncio
import json
from base64 import b64decode
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import aiohttp
import pytest

from forebay.core.errors import Throttled
from forebay.core.names import ObjectName
from forebay.origin.origins import Origins
from forebay.peers.frames import Document
from forebay.write.back.node_backlog import NodeBacklog
from forebay.write.back.pending.accepted_write import write_id
from harness.clients import path_of
from harness.fake.actions import Respond
from harness.fake.faults import Rule
from harness.fake_origin import FakeOrigin
from harness.rig import READER, Rig

RULES = '[journal]\npath = "{path}"\nsize = "64MiB"\n\n[[rules]]\npath = "ckpt/**"\nwrite = "back"\n'
CONTENT = bytes(range(256)) * 10_000
NO_ORIGINS = Origins([], lambda _: None)


class BacklogRig:
    """A worker with a stuck write of `a/stuck` and one that waits for it, `a/behind`."""

    def __init__(self, origin: FakeOrigin, rig: Rig, refusal: Rule) -> None:
        self.origin, self.rig, self.refusal = origin, rig, refusal

    async def call(self, method: str, path: str, **query: str) -> tuple[int, Any]:
        url = f"{self.rig.admin}/v1/writes{path}"
        body: Any = None if method == "GET" else {}
        async with (
            aiohttp.ClientSession() as session,
            session.request(method, url, json=body, params=query) as answer,
        ):
            return answer.status, await answer.json()

    async def writes(self, **query: str) -> list[Any]:
        status, page = await self.call("GET", "", **query)
        assert (status, page["next"]) == (200, None)
        return list(page["writes"])

    async def wait_stuck(self) -> None:
        await self.rig.wait_idle()

    async def wait_settled(self) -> None:
        assert self.rig.parts.writes.write_back is not None
        await self.rig.parts.writes.write_back.pending.wait_settled(lambda _: True)
        await self.rig.wait_idle()

    async def discard_all(self) -> None:
        write_back, backlog = self.rig.parts.writes.write_back, self.rig.parts.writes.backlog
        assert write_back is not None
        assert backlog is not None
        while entries := dict(write_back.drainer.entries):
            for record, entry in entries.items():
                if entry.is_stuck:
                    await backlog.discard(write_id(record), entry.write.name)
            await asyncio.sleep(0)

    def at_origin(self, key: str) -> bytes | None:
        found = self.origin.store.current("ckpt", key)
        return None if found is None else b"".join(found.content.views(0, found.content.size))


@pytest.fixture
async def running(tmp_path: Path) -> AsyncIterator[BacklogRig]:
    rules = RULES.format(path=tmp_path / "journal")
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path / "rig", rest=rules) as rig:
        origin.store.create_bucket("ckpt")
        client = rig.client()
        assert (await client.request("PUT", path_of("ckpt", "a/proof"), (), b"proof")).status == 200
        refusal = origin.faults.add(Respond(403, "AccessDenied"), method="PUT", key="a/stuck")
        for key in ("a/stuck", "a/behind"):
            answer = await client.request("PUT", path_of("ckpt", key), (("x-amz-meta-step", "7"),), CONTENT)
            assert answer.headers["x-forebay-durable"] == "local"
        running = BacklogRig(origin, rig, refusal)
        await running.wait_stuck()
        yield running
        await running.discard_all()  # or the end waits for them


async def test_pending_writes_are_listed_with_their_state(running: BacklogRig) -> None:
    stuck, behind = await running.writes()
    assert (stuck["key"], stuck["state"], stuck["attempts"]) == ("a/stuck", "stuck", 1)
    assert (stuck["reason"], stuck["size"]) == ("the origin answered AccessDenied", len(CONTENT))
    assert ["x-amz-meta-step", "7"] in stuck["headers"]
    assert (behind["key"], behind["state"], behind["waits_for"]) == ("a/behind", "waiting", stuck["id"])
    assert await running.writes(bucket="ckpt", prefix="a/s", state="stuck") == [stuck]
    assert await running.writes(bucket="other") == []
    status, page = await running.call("GET", "", limit="1")
    assert (status, page["writes"]) == (200, [stuck])
    assert await running.writes(after=page["next"]) == [behind]
    assert await running.call("GET", f"/{behind['id']}") == (200, behind)
    assert (await running.call("GET", "/none-1"))[0] == 404
    assert (await running.call("GET", "", state="lost"))[0] == 400


async def test_one_that_is_tried_again_arrives_in_order(running: BacklogRig) -> None:
    stuck, behind = await running.writes()
    status, refused = await running.call("POST", f"/{behind['id']}/retry")
    assert (status, refused["error"]) == (409, "not_stuck")
    running.origin.faults.remove(running.refusal)
    status, answer = await running.call("POST", f"/{stuck['id']}/retry")
    assert (status, answer["write"]["state"]) == (200, "stuck")
    await running.wait_settled()
    assert running.at_origin("a/stuck") == running.at_origin("a/behind") == CONTENT
    assert await running.writes() == []


async def test_a_discarded_one_holds_up_nothing(running: BacklogRig) -> None:
    stuck, behind = await running.writes()
    status, refused = await running.call("DELETE", f"/{stuck['id']}", bucket="ckpt", key="a/other")
    assert (status, refused["error"]) == (404, "no_such_write")
    status, refused = await running.call("DELETE", f"/{behind['id']}", bucket="ckpt", key="a/behind")
    assert (status, refused["error"]) == (409, "not_stuck")
    assert (await running.call("DELETE", f"/{stuck['id']}", bucket="ckpt", key="a/stuck"))[0] == 200
    await running.wait_settled()
    assert (running.at_origin("a/stuck"), running.at_origin("a/behind")) == (None, CONTENT)
    assert (await running.rig.client().request("GET", path_of("ckpt", "a/stuck"))).status == 404
    running.origin.faults.remove(running.refusal)
    await running.rig.restart()
    assert await running.writes() == [], "it is given up for good"
    assert running.at_origin("a/stuck") is None


async def test_the_bytes_of_one_are_read_in_parts(running: BacklogRig) -> None:
    [stuck] = await running.writes(state="stuck")
    content, parts = b"", 0
    offset: int | None = 0
    while offset is not None:
        status, part = await running.call("GET", f"/{stuck['id']}/content", offset=str(offset))
        assert status == 200
        content, offset, parts = content + b64decode(part["content"]), part["next"], parts + 1
    assert (content, parts) == (CONTENT, 3)


async def test_damaged_bytes_are_refused_with_a_reason(running: BacklogRig, tmp_path: Path) -> None:
    for body in (tmp_path / "journal" / "bodies").iterdir():
        body.write_bytes(bytes(body.stat().st_size))
    [stuck] = await running.writes(state="stuck")
    status, refused = await running.call("GET", f"/{stuck['id']}/content")
    assert (status, refused["error"]) == (409, "damaged")
    assert "are damaged" in refused["message"]


async def test_writes_are_objects_for_those_who_may_read(running: BacklogRig) -> None:
    client = running.rig.client()
    listing = await client.request("GET", "/ckpt?list-type=2&prefix=.forebay%2Fwrites%2Fa%2Fb")
    assert listing.body.count(b"<Key>") == 1
    assert b"<Key>.forebay/writes/a/behind</Key>" in listing.body
    shown = await client.request("GET", path_of("ckpt", ".forebay/writes/a/stuck"))
    [write] = json.loads(shown.body)["writes"]
    assert (write["key"], write["state"]) == ("a/stuck", "stuck")
    assert (await client.request("GET", path_of("ckpt", ".forebay/writes/a/none"))).status == 404
    for method in ("PUT", "DELETE"):
        assert (await client.request(method, path_of("ckpt", ".forebay/writes/a/stuck"), (), b"")).status == 405
    other = running.rig.client(READER)
    assert (await other.request("GET", path_of("ckpt", ".forebay/writes/a/stuck"))).status in {403, 404}


async def test_a_stuck_write_degrades_and_stays_ready(running: BacklogRig) -> None:
    async with aiohttp.ClientSession() as session, session.get(f"{running.rig.admin}/readyz") as answer:
        document = await answer.json()
    assert document["degraded"]["journal"].startswith("Acknowledged writes that are stuck: 1;")
    async with aiohttp.ClientSession() as session, session.get(f"{running.rig.admin}/v1/stats") as answer:
        journal = (await answer.json())["journal"]
    assert (journal["stuck"], journal["writes"], journal["size"]) == (1, 2, 2 * len(CONTENT))


async def test_any_worker_reaches_the_one_that_drains(running: BacklogRig) -> None:
    backlog = running.rig.parts.writes.backlog
    assert backlog is not None

    class Others:
        def __init__(self, drains: NodeBacklog) -> None:
            self.drains = drains

        async def call_all(self, request: Document) -> dict[int, Document]:
            return {1: {"is_drainer": False}, 2: json.loads(json.dumps(await self.drains.answer(request)))}

    class Nobody:
        async def call_all(self, request: Document) -> dict[int, Document]:
            return {1: {"is_drainer": False}}

    idle = SimpleNamespace(is_draining=False)
    elsewhere = NodeBacklog(idle, Others(backlog), NO_ORIGINS)  # type: ignore[arg-type] # what it uses of them
    page = await elsewhere.page("ckpt", "", "", "")
    assert page == await backlog.page("ckpt", "", "", "")
    stuck = page.writes[0]
    assert await elsewhere.find(stuck.id) == stuck
    assert await elsewhere.content(stuck.id, 2 << 20) == CONTENT[2 << 20 :]
    assert await elsewhere.discard(stuck.id, ObjectName("ckpt", "a/stuck")) == stuck
    assert await elsewhere.retry(stuck.id) is None
    assert await elsewhere.content(stuck.id, 0) is None
    nobody = NodeBacklog(idle, Nobody(), NO_ORIGINS)  # type: ignore[arg-type] # likewise
    with pytest.raises(Throttled):
        await nobody.find(stuck.id)
    assert await NodeBacklog(idle, Nobody(), NO_ORIGINS).answer({}) == {"is_drainer": False}  # type: ignore[arg-type] # likewise


async def test_a_flush_waits_for_what_was_pending_before_it(running: BacklogRig) -> None:
    async def flush(**fields: object) -> tuple[int, Any]:
        async with (
            aiohttp.ClientSession() as session,
            session.post(f"{running.rig.admin}/v1/flush", json={"bucket": "ckpt", **fields}) as answer,
        ):
            return answer.status, await answer.json()

    status, first = await flush(prefix="a/s")
    assert (status, first["left"]) == (200, 1)
    running.origin.faults.remove(running.refusal)
    [stuck] = await running.writes(state="stuck")
    named = {each: stuck[each] for each in ("id", "bucket", "key", "reason")}
    assert (await flush(prefix="a/", wait=30))[1] | {"before": ""} == {
        "left": 2,
        "before": "",
        "held_up": 2,
        "stuck": [named],
        "found": 2,
        "problem": "",
    }
    later = running.origin.faults.add(Respond(503, "SlowDown"), method="PUT", key="a/later")
    assert (await running.rig.client().request("PUT", path_of("ckpt", "a/later"), (), b"later")).status == 200
    assert (await running.call("POST", f"/{stuck['id']}/retry"))[0] == 200
    status, second = await flush(prefix="a/", wait=30, before=first["before"])
    assert (status, second["left"], second["before"], second["stuck"]) == (200, 0, first["before"], [])
    assert running.at_origin("a/stuck") == running.at_origin("a/behind") == CONTENT
    assert (await flush(prefix="a/"))[1]["left"] == 1
    assert (await flush(wait=31))[0] == 400
    status, refused = await flush(bucket="mistyped")
    assert (status, refused["error"]) == (404, "no_such_bucket")
    running.origin.faults.remove(later)
