"""Listings answered from a snapshot: how fresh they are, what they never hide, and when the origin answers."""

import asyncio
import time
from pathlib import Path
from urllib.parse import quote

import aiohttp
import pytest

from harness.clients import RawClient, path_of
from harness.conformance import texts
from harness.fake.actions import LoseAnswer, Respond
from harness.fake_origin import FakeOrigin
from harness.form_uploads import ANY, form, post, signed_v2
from harness.listed_keys import damage_snapshots
from harness.listing_requests import IMMUTABLE, LISTING, TEN_MINUTES, listed, listings
from harness.object_writes import Write, complete, delete_many, simple
from harness.rig import READER, TRAINER, Rig


def rig_of(origin: FakeOrigin, directory: Path, rest: str = TEN_MINUTES) -> Rig:
    return Rig(origin.endpoint, origin.secret, directory, rest=rest)


def filled(origin: FakeOrigin, *keys: str) -> None:
    for key in keys:
        origin.store.put("bucket", key, key.encode())


async def test_a_namespace_is_listed_once(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, rig_of(origin, tmp_path) as rig:
        filled(origin, "a", "b/1", "b/2")
        assert await listed(rig.client()) == ("miss", ["a", "b/1", "b/2"])
        for target in (LISTING, "/bucket", f"{LISTING}&prefix=b", f"{LISTING}&delimiter=%2F&max-keys=1"):
            assert (await listed(rig.client(), target))[0] == "hit-ssd"
        assert listings(origin) == 1


async def test_a_write_around_forebay_is_seen_within_the_duration(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, rig_of(origin, tmp_path) as rig:
        filled(origin, "a")
        await listed(rig.client())
        filled(origin, "b")
        rig.advance_clock(299)
        assert await listed(rig.client()) == ("hit-ssd", ["a"])
        rig.advance_clock(302)
        assert await listed(rig.client()) == ("miss", ["a", "b"])


async def test_an_old_snapshot_is_replaced_in_the_background(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, rig_of(origin, tmp_path) as rig:
        filled(origin, "a")
        await listed(rig.client())
        filled(origin, "b")
        rig.advance_clock(301)
        assert await listed(rig.client()) == ("hit-ssd", ["a"])
        await rig.wait_idle()
        assert await listed(rig.client()) == ("hit-ssd", ["a", "b"])
        rig.advance_clock(302)
        assert await listed(rig.client()) == ("hit-ssd", ["a", "b"])


WRITES: dict[str, tuple[Write, list[str]]] = {
    "put": (simple("PUT", "/bucket/new", body=b"x"), ["a", "c/1", "c/2", "new"]),
    "overwrite": (simple("PUT", "/bucket/a", body=b"longer"), ["a", "c/1", "c/2"]),
    "delete": (simple("DELETE", "/bucket/c/1"), ["a", "c/2"]),
    "delete many": (delete_many("c/1", "c/2", "absent"), ["a"]),
    "copy": (simple("PUT", "/bucket/b", ("x-amz-copy-source", "/bucket/a")), ["a", "b", "c/1", "c/2"]),
    "complete": (complete("/bucket/dir/key"), ["a", "c/1", "c/2", "dir/key"]),
    "form": (
        lambda client: post(client, form(signed_v2(TRAINER, ANY, {"key": "form"}), b"x")),
        ["a", "c/1", "c/2", "form"],
    ),
}


@pytest.mark.parametrize("kind", WRITES)
async def test_a_write_through_forebay_is_seen_at_once(tmp_path: Path, kind: str) -> None:
    write, keys = WRITES[kind]
    async with FakeOrigin() as origin, rig_of(origin, tmp_path, IMMUTABLE) as rig:
        filled(origin, "a", "c/1", "c/2")
        await listed(rig.client())
        assert (await write(rig.client())).status in {200, 204}
        assert await listed(rig.client()) == ("partial", keys)
        origins = RawClient(origin.endpoint, origin.secret)
        answers = [await each.request("GET", LISTING) for each in (rig.client(), origins)]
        for field in ("Size", "ETag", "LastModified"):
            shown, direct = (texts(answer, f"Contents/{field}") for answer in answers)
            assert shown == direct
        assert await listed(rig.client()) == ("hit-ssd", keys)


async def test_a_write_in_doubt_is_looked_up_each_time(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, rig_of(origin, tmp_path, IMMUTABLE) as rig:
        filled(origin, "a")
        await listed(rig.client())
        origin.faults.add(LoseAnswer(), method="PUT", times=1)
        assert (await rig.client().request("PUT", "/bucket/b", (), b"x")).status == 503
        origin.store.delete("bucket", "b")  # the origin is still at it
        assert await listed(rig.client()) == ("partial", ["a"])
        filled(origin, "b")
        assert await listed(rig.client()) == ("partial", ["a", "b"])
        rig.advance_clock(901)
        assert await listed(rig.client()) == ("partial", ["a", "b"])
        assert await listed(rig.client()) == ("hit-ssd", ["a", "b"])


async def test_a_write_to_the_bucket_drops_its_snapshot(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, rig_of(origin, tmp_path, IMMUTABLE) as rig:
        filled(origin, "a")
        await listed(rig.client())
        filled(origin, "b")
        body = b"<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>"
        assert (await rig.client().request("PUT", "/bucket?versioning", (), body)).status == 200
        assert await listed(rig.client()) == ("miss", ["a", "b"])


@pytest.mark.parametrize(
    "target",
    [
        "/bucket?versions",
        "/bucket?uploads",
        "/bucket?list-type=2&max-keys=x",
        "/bucket?list-type=2&continuation-token=b3JpZ2lu",
        "/elsewhere?list-type=2",
    ],
)
async def test_other_listings_are_passed_on(tmp_path: Path, target: str) -> None:
    rule = TEN_MINUTES.replace("**", "bucket/**")
    async with FakeOrigin() as origin, rig_of(origin, tmp_path, rule) as rig:
        filled(origin, "a")
        origin.store.create_bucket("elsewhere")
        answer = await rig.client().request("GET", target)
        assert answer.headers["x-forebay-cache"] == "bypass"
        assert len(origin.log.matching()) == 1


async def test_a_client_that_demands_a_revalidation_gets_the_origins(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, rig_of(origin, tmp_path) as rig:
        filled(origin, "a")
        await listed(rig.client())
        filled(origin, "b")
        answer = await rig.client().request("GET", LISTING, [("Cache-Control", "no-cache")])
        assert (answer.headers["x-forebay-cache"], texts(answer, "Contents/Key")) == ("bypass", ["a", "b"])


async def test_grants_by_prefix_apply_to_snapshots(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, rig_of(origin, tmp_path) as rig:
        filled(origin, "open/a", "secret/b")
        await listed(rig.client())
        reader = rig.client(READER)
        assert await listed(reader, f"{LISTING}&prefix=open%2F") == ("hit-ssd", ["open/a"])
        for target in (LISTING, "/bucket", f"{LISTING}&prefix=secret%2F", f"{LISTING}&prefix=open"):
            assert (await reader.request("GET", target)).status == 403
        token = texts(await rig.client().request("GET", f"{LISTING}&max-keys=1"), "NextContinuationToken")[0]
        answer = await reader.request("GET", f"/bucket?continuation-token={quote(token)}&list-type=2&prefix=open%2F")
        assert (answer.status, texts(answer, "Contents/Key")) == (200, [])  # the token names open/a


async def test_a_refused_listing_is_the_origins_refusal(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, rig_of(origin, tmp_path) as rig:
        filled(origin, "a")
        answer = await rig.client().request("GET", "/absent?list-type=2")
        assert (answer.status, answer.headers["x-forebay-cache"]) == (404, "bypass")
        assert (await rig.client().request("GET", "/absent?list-type=2")).status == 404
        assert listings(origin) == 3  # the walk is not tried again for a while


async def test_pages_are_answered_while_the_namespace_is_listed(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, rig_of(origin, tmp_path) as rig:
        keys = [f"{number:05d}" for number in range(3500)]
        for key in keys:
            origin.store.put_synthetic("bucket", key, 1)
        client = rig.boto3()
        try:

            def paginate() -> list[str]:
                pages = client.get_paginator("list_objects_v2").paginate(Bucket="bucket")
                return [each["Key"] for page in pages for each in page.get("Contents", ())]

            assert await asyncio.to_thread(paginate) == keys
            asked = listings(origin)
            assert await asyncio.to_thread(paginate) == keys
            assert listings(origin) == asked
        finally:
            client.close()


async def test_a_damaged_snapshot_is_dropped(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, rig_of(origin, tmp_path) as rig:
        for number in range(12_000):  # more blocks than are kept decoded
            origin.store.put_synthetic("bucket", f"{number:05d}", 1)
        await listed(rig.client())
        await rig.wait_idle()
        for position in range(20, 3_000_000, 50_000):
            assert damage_snapshots(tmp_path, position) == 1
        behind = f"{LISTING}&start-after=07999"
        assert await listed(rig.client(), behind) == ("bypass", [f"{number:05d}" for number in range(8000, 9000)])
        assert (await listed(rig.client()))[0] == "miss"


async def test_a_purge_drops_the_snapshot(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, rig_of(origin, tmp_path, IMMUTABLE) as rig, aiohttp.ClientSession() as session:
        filled(origin, "a")
        await listed(rig.client())
        filled(origin, "b")
        async with session.delete(f"{rig.admin}/v1/cache?bucket=bucket", json={}) as purged:
            assert purged.status == 200
        assert await listed(rig.client()) == ("miss", ["a", "b"])


async def test_a_reload_switches_listings_off_and_on(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, rig_of(origin, tmp_path, IMMUTABLE) as rig:
        filled(origin, "a", "b", "c")
        first = await rig.client().request("GET", f"{LISTING}&max-keys=2")
        token = texts(first, "NextContinuationToken")[0]
        file = tmp_path / "forebay.toml"
        for listing, source in (("off", "bypass"), ("immutable", "miss")):
            file.write_text(rig.configuration.replace('"immutable"', f'"{listing}"'))  # a small file
            await rig.worker.reload()
            # A token of ours goes on at its key also where the origin answers.
            assert await listed(rig.client(), f"/bucket?continuation-token={quote(token)}&list-type=2") == (
                source,
                ["c"],
            )


async def test_a_snapshot_is_served_while_the_origin_is_away(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, rig_of(origin, tmp_path) as rig:
        filled(origin, "a")
        await listed(rig.client())
        await origin.refuse()
        origin.disconnect()
        assert await listed(rig.client()) == ("hit-ssd", ["a"])
        rig.advance_clock(601)
        assert (await rig.client().request("GET", LISTING)).status == 503


async def test_a_restart_lists_anew(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, rig_of(origin, tmp_path, IMMUTABLE) as rig:
        filled(origin, "a")
        await listed(rig.client())
        await rig.restart()
        filled(origin, "b")
        assert await listed(rig.client()) == ("miss", ["a", "b"])


async def test_a_page_renews_a_thousand_heads(tmp_path: Path) -> None:
    hour_ago = time.time() - 600
    async with FakeOrigin(clock=lambda: hour_ago) as origin, rig_of(origin, tmp_path) as rig:
        origin.verify = False  # its clock is for the objects
        keys = [f"key/{number:04d}" for number in range(1000)]
        filled(origin, *keys)
        client = rig.client()
        async with await client.open() as connection:
            for key in keys:
                await client.request("GET", path_of("bucket", key), connection=connection)
            rig.advance_clock(61)
            await listed(client)
            origin.log.reset()
            for key in keys:
                answer = await client.request("GET", path_of("bucket", key), connection=connection)
                assert (answer.headers["x-forebay-cache"], answer.body) == ("hit-memory", key.encode())
        assert len(origin.log.requests) == 0


@pytest.mark.parametrize("change", ["replaced", "same bytes", "deleted", "written here"])
async def test_a_page_renews_no_head_of_another_version(tmp_path: Path, change: str) -> None:
    seconds = [time.time() - 600]
    async with FakeOrigin(clock=lambda: seconds[0]) as origin, rig_of(origin, tmp_path) as rig:
        origin.verify = False
        filled(origin, "a")
        await rig.client().request("GET", "/bucket/a")
        seconds[0] += 1
        if change == "replaced":
            origin.store.put("bucket", "a", b"b")
        elif change == "same bytes":
            origin.store.put("bucket", "a", b"a", content_type="text/new")
        elif change == "deleted":
            origin.store.delete("bucket", "a")
        rig.advance_clock(61)
        await listed(rig.client())
        if change == "written here":
            await rig.client().request("PUT", "/bucket/a", (), b"mine")
            origin.store.put("bucket", "a", b"theirs")
        origin.log.reset()
        answer = await rig.client().request("GET", "/bucket/a")
        assert len(origin.log.requests) > 0
        assert answer.status == (404 if change == "deleted" else 200)
        if change == "same bytes":
            assert answer.headers["Content-Type"] == "text/new"


async def test_a_young_object_is_not_vouched_for(tmp_path: Path) -> None:
    """Its time has whole seconds: it may have been written again in the second of its validation."""
    async with FakeOrigin() as origin, rig_of(origin, tmp_path) as rig:
        filled(origin, "a")
        await rig.client().request("GET", "/bucket/a")
        rig.advance_clock(61)
        await listed(rig.client())
        answer = await rig.client().request("GET", "/bucket/a")
        assert answer.headers["x-forebay-cache"] == "revalidated"


async def test_a_new_snapshot_drops_heads_of_replaced_objects(tmp_path: Path) -> None:
    rule = TEN_MINUTES.replace("60s", "immutable")
    async with FakeOrigin() as origin, rig_of(origin, tmp_path, rule) as rig:
        filled(origin, "gone", "kept", "new")
        for key in ("gone", "kept", "new"):
            await rig.client().request("GET", path_of("bucket", key))
        await listed(rig.client())
        origin.store.put("bucket", "new", b"newer")
        origin.store.delete("bucket", "gone")
        rig.advance_clock(301)
        await listed(rig.client())
        await rig.wait_idle()
        origin.log.reset()
        answers = {key: await rig.client().request("GET", path_of("bucket", key)) for key in ("gone", "kept", "new")}
        assert [answers[key].status for key in answers] == [404, 200, 200]
        assert answers["new"].body == b"newer"
        assert answers["kept"].headers["x-forebay-cache"] == "hit-memory"


@pytest.mark.parametrize("change", ["replaced", "deleted"])
async def test_a_new_snapshot_drops_heads_of_written_objects(tmp_path: Path, change: str) -> None:
    """Of what was written here since the last one began: that one has no entry of it."""
    rule = TEN_MINUTES.replace("60s", "immutable")
    async with FakeOrigin() as origin, rig_of(origin, tmp_path, rule) as rig:
        filled(origin, "a", "z")
        await listed(rig.client())
        for key in ("mine", "zz"):
            await rig.client().request("PUT", path_of("bucket", key), (), b"mine")
            assert (await rig.client().request("GET", path_of("bucket", key))).body == b"mine"
            if change == "replaced":
                origin.store.put("bucket", key, b"theirs")
            else:
                origin.store.delete("bucket", key)
        rig.advance_clock(301)
        await listed(rig.client())
        await rig.wait_idle()
        answers = [await rig.client().request("GET", path_of("bucket", key)) for key in ("mine", "zz")]
        assert {answer.status for answer in answers} == {200 if change == "replaced" else 404}
        assert all(answer.body != b"mine" for answer in answers)


async def test_a_failed_background_walk_leaves_the_old_snapshot(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, rig_of(origin, tmp_path) as rig:
        filled(origin, "a")
        await listed(rig.client())
        origin.faults.add(Respond(403, "AccessDenied"), operation="ListObjectsV2")
        rig.advance_clock(301)
        for _ in range(3):
            assert await listed(rig.client()) == ("hit-ssd", ["a"])
            await rig.wait_idle()
        rig.advance_clock(300)
        assert (await rig.client().request("GET", LISTING)).status == 403
