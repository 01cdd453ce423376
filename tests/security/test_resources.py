"""Forebay's own resources: who sees, changes and learns what of them, by kind and by principal."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from harness.clients import path_of
from harness.fake_origin import FakeOrigin
from harness.raw_connection import RawAnswer
from harness.recording_content import keys_in, recording_of
from harness.reference_sigv4 import Secret
from harness.rig import READER, TRAINER, Rig

OPEN = [f"open/{number:02}" for number in range(20)]
SECRET = [f"secret/{number:02}" for number in range(20)]
BODIES = {"recordings": recording_of(OPEN + SECRET), "plans": "\n".join(OPEN + SECRET).encode()}
RULE = '[[rules]]\npath = "**"\nfreshness = "immutable"\nfollow = true\n'


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    """With a resource of each kind that belongs to the trainer, who may read everything. The reader may read and list
    what is under open/."""
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, rest=RULE) as rig:
        for key in OPEN + SECRET:
            origin.store.put("bucket", key, b"content")
        for kind, body in BODIES.items():
            assert (await ask(rig, "PUT", kind, body=body)).status == 200
        yield rig
        assert not any(".forebay" in (each.key or "") for each in origin.log.matching()), "nothing reaches the origin"


async def ask(
    rig: Rig, method: str, kind: str, secret: Secret = TRAINER, name: str = "own", body: bytes = b""
) -> RawAnswer:
    return await rig.client(secret).request(method, path_of("bucket", f".forebay/{kind}/{name}"), (), body)


async def names(rig: Rig, secret: Secret, kind: str) -> bool:
    listed = await rig.client(secret).request("GET", f"/bucket?list-type=2&prefix=.forebay%2F{kind}%2F")
    assert listed.status == 200
    return b"<Key>" in listed.body


@pytest.mark.parametrize("kind", BODIES)
async def test_another_principal_sees_nothing_of_a_resource(rig: Rig, kind: str) -> None:
    assert await names(rig, TRAINER, kind)
    assert not await names(rig, READER, kind)
    for method in ("GET", "HEAD"):
        assert (await ask(rig, method, kind, READER)).status == 404
        assert (await ask(rig, method, kind, READER, name="none")).status == 404, "as if there were none"


@pytest.mark.parametrize("kind", BODIES)
async def test_another_principal_changes_nothing_of_a_resource(rig: Rig, kind: str) -> None:
    before = (await ask(rig, "GET", kind)).body
    assert (await ask(rig, "DELETE", kind, READER)).status == 204
    assert (await ask(rig, "PUT", kind, READER, body=BODIES[kind])).status == 200, "one of its own, of the same name"
    after = await ask(rig, "GET", kind)
    assert after.status == 200
    if kind == "recordings":
        assert after.body == before
        assert keys_in((await ask(rig, "GET", kind, READER)).body) == OPEN


@pytest.mark.parametrize("kind", BODIES)
@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "DELETE"])
async def test_an_unknown_key_does_nothing(rig: Rig, kind: str, method: str) -> None:
    unknown = Secret("unknown", "secret")
    answer = await ask(rig, method, kind, unknown, body=BODIES[kind] if method == "PUT" else b"")
    assert answer.status == 403
    assert (await ask(rig, "GET", kind)).status == 200


@pytest.mark.parametrize("kind", BODIES)
async def test_what_is_refused_is_counted_and_not_named(rig: Rig, kind: str) -> None:
    answer = await ask(rig, "PUT", kind, READER, body=BODIES[kind])
    dropped = {each.lower(): value for each, value in answer.headers.items()}
    assert dropped[{"recordings": "x-forebay-dropped", "plans": "x-forebay-plan-dropped"}[kind]] == "20"
    assert b"secret" not in answer.body + (await ask(rig, "GET", kind, READER)).body
