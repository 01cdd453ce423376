"""Principals with an origin credential of their own: the origin is asked with it, and hits need the origin's
permission."""

import asyncio
from pathlib import Path

import pytest

from harness.clients import path_of
from harness.fake import actions
from harness.fake.gate import Gate
from harness.fake_origin import FakeOrigin
from harness.inspection import run_loop_until
from harness.origin_credentials import ALICE, ALICE_THERE, BOB, BOB_THERE, KEYS, OURS, fake, refusing
from harness.raw_connection import RawAnswer
from harness.reference_sigv4 import Secret
from harness.rig import TRAINER, Rig

TARGET = path_of("bucket", "key")
BODY = b"content" * 40_000


def rig_of(origin: FakeOrigin, directory: Path, ttl: str = "60s") -> Rig:
    return Rig(origin.endpoint, OURS, directory, rest=KEYS.format(ttl=ttl))


def keys_used(origin: FakeOrigin, key: str = "key") -> list[str]:
    """Who signed the origin's requests for an object, in order."""
    return [
        seen.headers["Authorization"].split("Credential=")[1].split("/")[0] for seen in origin.log.matching(key=key)
    ]


def cache_of(answer: RawAnswer) -> str:
    return answer.headers["x-forebay-cache"]


async def test_miss_is_fetched_with_the_principals_credential(tmp_path: Path) -> None:
    async with fake() as origin, rig_of(origin, tmp_path) as rig:
        origin.store.put("bucket", "key", BODY)
        answer = await rig.client(ALICE).request("GET", TARGET)
        assert (answer.status, answer.body, cache_of(answer)) == (200, BODY, "miss")
        assert set(keys_used(origin)) == {ALICE_THERE.access}


async def test_hit_needs_a_recent_permission_of_the_principal(tmp_path: Path) -> None:
    async with fake() as origin, rig_of(origin, tmp_path) as rig:
        origin.store.put("bucket", "key", BODY)
        await rig.client(ALICE).request("GET", TARGET)
        origin.log.reset()
        answer = await rig.client(BOB).request("GET", TARGET)
        assert (answer.body, cache_of(answer)) == (BODY, "revalidated")
        assert keys_used(origin) == [BOB_THERE.access]  # one conditional request, and not a byte of the object
        assert origin.log.bytes_sent == 0
        for secret in (ALICE, BOB):
            assert cache_of(await rig.client(secret).request("GET", TARGET)) == "hit-memory"
        assert len(keys_used(origin)) == 1
        rig.advance_clock(61)
        assert cache_of(await rig.client(BOB).request("GET", TARGET)) == "revalidated"
        assert keys_used(origin) == [BOB_THERE.access] * 2


@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize("headers", [(), [("Range", "bytes=0-9")], [("If-None-Match", "*")]], ids=["", "range", "304"])
async def test_principal_refused_by_the_origin_gets_no_hit(
    tmp_path: Path, method: str, headers: list[tuple[str, str]]
) -> None:
    async with fake() as origin, rig_of(origin, tmp_path) as rig:
        origin.store.put("bucket", "key", BODY)
        await rig.client(ALICE).request("GET", TARGET)
        refusing(origin, BOB_THERE)
        for _ in range(2):
            answer = await rig.client(BOB).request(method, TARGET, headers)
            assert answer.status == 403
            assert not {"etag", "content-range", "last-modified"} & {name.lower() for name, _ in answer.pairs}
            assert BODY[:10] not in answer.body
        assert cache_of(await rig.client(ALICE).request("GET", TARGET)) == "hit-memory"


async def test_revoked_permission_ends_with_its_lifetime(tmp_path: Path) -> None:
    async with fake() as origin, rig_of(origin, tmp_path) as rig:
        origin.store.put("bucket", "key", BODY)
        await rig.client(BOB).request("GET", TARGET)
        refusing(origin, BOB_THERE)
        assert (await rig.client(BOB).request("GET", TARGET)).status == 200
        rig.advance_clock(61)
        assert (await rig.client(BOB).request("GET", TARGET)).status == 403


async def test_permission_is_of_the_object_as_it_was_before_a_write(tmp_path: Path) -> None:
    async with fake() as origin, rig_of(origin, tmp_path) as rig:
        origin.store.put("bucket", "key", BODY)
        assert (await rig.client(BOB).request("GET", TARGET)).status == 200
        refusing(origin, BOB_THERE)  # as what is written now is for Alice alone
        assert (await rig.client(ALICE).request("PUT", TARGET, [("x-amz-acl", "private")], b"secret")).status == 200
        await rig.wait_idle()
        assert (await rig.client(ALICE).request("GET", TARGET)).body == b"secret"
        assert (await rig.client(BOB).request("GET", TARGET)).status == 403


async def test_permission_belongs_to_one_credential(tmp_path: Path) -> None:
    async with fake() as origin, rig_of(origin, tmp_path) as rig:
        origin.store.put("bucket", "key", BODY)
        assert (await rig.client(ALICE).request("GET", TARGET)).status == 200
        file = tmp_path / "forebay.toml"
        file.write_text(file.read_text().replace("alicethere", "nobodythere"))
        await rig.worker.reload()
        assert (await rig.client(ALICE).request("GET", TARGET)).status == 503


async def test_without_a_time_each_hit_asks(tmp_path: Path) -> None:
    async with fake() as origin, rig_of(origin, tmp_path, ttl="0s") as rig:
        origin.store.put("bucket", "key", BODY)
        await rig.client(ALICE).request("GET", TARGET)
        origin.log.reset()
        for _ in range(3):
            assert cache_of(await rig.client(ALICE).request("GET", TARGET)) == "revalidated"
        assert keys_used(origin) == [ALICE_THERE.access] * 3


async def test_lookups_of_different_principals_are_not_shared(tmp_path: Path) -> None:
    async with fake() as origin, rig_of(origin, tmp_path) as rig:
        origin.store.put("bucket", "key", BODY)
        refusing(origin, BOB_THERE)
        alice, bob = rig.client(ALICE), rig.client(BOB)
        assert (await alice.request("GET", TARGET)).status == 200
        assert (await bob.request("GET", TARGET)).status == 403
        assert (await alice.request("GET", TARGET)).body == BODY


async def test_refusal_of_one_principal_is_not_shared_with_another(tmp_path: Path) -> None:
    async with fake() as origin, rig_of(origin, tmp_path) as rig:
        origin.store.put("bucket", "key", BODY)
        alice, bob, gate = rig.client(ALICE), rig.client(BOB), Gate()
        await alice.request("GET", TARGET, [("Range", "bytes=0-9")])
        await bob.request("HEAD", TARGET)
        beyond = [("Range", "bytes=70000-70009")]
        refusing(origin, BOB_THERE, actions.HoldHead(gate))
        async with asyncio.TaskGroup() as readers:
            refused = readers.create_task(bob.request("GET", TARGET, beyond))
            await gate.reached()
            joined = readers.create_task(alice.request("GET", TARGET, beyond))
            await run_loop_until(lambda: rig.parts.fetch.flights.followers == 2)
            gate.open()
        assert refused.result().status == 403
        assert (joined.result().status, joined.result().body) == (206, BODY[70000:70010])
        assert keys_used(origin)[-1] == ALICE_THERE.access


@pytest.mark.parametrize("denied", [None, ALICE_THERE, BOB_THERE], ids=["both", "the first", "the second"])
async def test_concurrent_readers_share_bytes_but_no_permission(denied: Secret | None, tmp_path: Path) -> None:
    async with fake() as origin, rig_of(origin, tmp_path) as rig:
        origin.store.put("bucket", "key", BODY)
        gate = Gate()
        if denied is not None:
            refusing(origin, denied, *([actions.HoldHead(gate)] if denied is ALICE_THERE else []))
        if denied is not ALICE_THERE:
            origin.faults.add(actions.HoldHead(gate), method="GET", key="key", times=1)
        async with asyncio.TaskGroup() as readers:
            first = readers.create_task(rig.client(ALICE).request("GET", TARGET))
            await gate.reached()
            second = readers.create_task(rig.client(BOB).request("GET", TARGET))
            await run_loop_until(lambda: len(keys_used(origin)) == (3 if denied is BOB_THERE else 2))
            gate.open()
        for reader, there in ((first.result(), ALICE_THERE), (second.result(), BOB_THERE)):
            assert (reader.status, reader.body == BODY) == ((403, False) if there is denied else (200, True))
            assert (b"<Code>AccessDenied</Code>" in reader.body) == (there is denied)
        assert origin.log.bytes_sent - 1000 < len(BODY), "they came once, beside what the origin says to who is denied"
        assert {ALICE_THERE.access, BOB_THERE.access} == set(keys_used(origin))


async def test_forwarded_requests_use_the_principals_credential(tmp_path: Path) -> None:
    async with fake() as origin, rig_of(origin, tmp_path) as rig:
        origin.store.create_bucket("bucket")
        client = rig.client(ALICE)
        assert (await client.request("PUT", TARGET, (), BODY)).status == 200
        await rig.wait_idle()
        assert (await client.request("GET", f"{TARGET}?tagging")).status == 200
        assert (await client.request("DELETE", TARGET)).status == 204
        assert set(keys_used(origin)) == {ALICE_THERE.access}
        assert (await client.request("GET", path_of("bucket") + "?list-type=2")).status == 200
        listing = origin.log.matching("GET", "ListObjectsV2")[-1]
        assert f"Credential={ALICE_THERE.access}/" in listing.headers["Authorization"]


async def test_keys_without_one_are_served_in_forebays_name(tmp_path: Path) -> None:
    async with fake() as origin, rig_of(origin, tmp_path) as rig:
        origin.store.put("bucket", "key", BODY)
        refusing(origin, ALICE_THERE)
        assert (await rig.client(ALICE).request("GET", TARGET)).status == 403
        assert (await rig.client(TRAINER).request("GET", TARGET)).status == 200
        assert keys_used(origin)[-1] == OURS.access
