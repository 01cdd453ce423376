"""Listings as s3torchconnector and Mountpoint send them, and forms that origins read differently, with members of packs
and without."""

from pathlib import Path
from urllib.parse import quote

import pytest

from harness.bucket_owners import EXPECTED, NO_OWNER, OTHER_OWNER, OWNER, owned
from harness.clients import RawClient
from harness.conformance import texts
from harness.fake_origin import FakeOrigin
from harness.listing_requests import LISTING, TEN_MINUTES
from harness.packed_rig import RULE, pack, rig_of

RESTORED = ("x-amz-optional-object-attributes", "RestoreStatus")
OBJECTS = {f"train/{name}": name.encode() for name in ("a", "b/1", "b/2", "b/3", "c", "d/1", "e")}


async def names_of(client: RawClient, target: str, *headers: tuple[str, str]) -> list[str]:
    """Keys and common prefixes of all pages, in order."""
    token, names = "", list[str]()
    while True:
        answer = await client.request("GET", target + token, headers)
        assert answer.status == 200, answer.body
        names += sorted(texts(answer, "Contents/Key") + texts(answer, "CommonPrefixes/Prefix"))
        if texts(answer, "IsTruncated") != ["true"]:
            return names
        if "list-type=2" in target:
            token = f"&continuation-token={quote(texts(answer, 'NextContinuationToken')[0], safe='')}"
        else:
            token = f"&marker={quote((texts(answer, 'NextMarker') or names[-1:])[0], safe='')}"


async def test_a_snapshot_answers_who_asks_for_the_restore_status(tmp_path: Path) -> None:
    """But for pages with objects that may be archived: only the origin knows."""
    async with FakeOrigin() as origin, rig_of(origin, tmp_path, TEN_MINUTES) as rig:
        for key, content in OBJECTS.items():
            origin.store.put("bucket", key, content)
        origin.store.put("bucket", "old/a", b"a", x_amz_storage_class="GLACIER")
        sources = []
        for prefix in ("train%2F", "train%2F", "old%2F", ""):
            target = f"{LISTING}&delimiter=&max-keys=1000&prefix={prefix}"
            answer = await rig.client().request("GET", target, (RESTORED,))
            sources.append(answer.headers["x-forebay-cache"])
        assert sources == ["miss", "hit-ssd", "bypass", "bypass"]


@pytest.mark.parametrize("size", [1000, 1, 2])
@pytest.mark.parametrize(
    "target",
    [
        f"{LISTING}&delimiter=&prefix=train%2F",
        f"{LISTING}&prefix=train%2F&delimiter=%2F",
        f"{LISTING}&prefix=train%2F&delimiter=%2F&start-after=train%2Fb%2F1",
        f"{LISTING}&prefix=train%2F&delimiter=%2F&start-after=train%2Fb%2F",
        f"{LISTING}&prefix=train%2Fb&start-after=train%2Fb%2F1",
        "/bucket?prefix=train%2F&delimiter=",
        "/bucket?prefix=train%2F&delimiter=%2F",
    ],
)
async def test_every_form_has_the_members(tmp_path: Path, target: str, size: int) -> None:
    """As the origin lists the same keys where they are objects."""
    async with FakeOrigin() as origin, FakeOrigin() as loose, rig_of(origin, tmp_path) as rig:
        origin.store.create_bucket("bucket")
        pack(origin, OBJECTS)
        for key, content in OBJECTS.items():
            loose.store.put("bucket", key, content)
        sized = f"{target}&max-keys={size}"
        expected = await names_of(RawClient(loose.endpoint, loose.secret), sized)
        assert expected
        for headers in ((), (RESTORED,), (("x-amz-request-payer", "requester"),)):
            assert await names_of(rig.client(), sized, *headers) == expected


async def test_a_marker_inside_a_common_prefix_does_not_skip_it(tmp_path: Path) -> None:
    target = "/bucket?prefix=train%2F&delimiter=%2F&marker=train%2Fb%2F1"
    async with FakeOrigin() as origin, rig_of(origin, tmp_path) as rig:
        pack(origin, OBJECTS)
        assert await names_of(rig.client(), target) == ["train/b/", "train/c", "train/d/", "train/e"]


async def test_members_refuse_what_only_the_origin_can_obey(tmp_path: Path) -> None:
    unknown = ("x-amz-unheard-of", "1")
    async with FakeOrigin() as origin, rig_of(origin, tmp_path) as rig:
        pack(origin, OBJECTS)
        origin.store.put("bucket", "other/a", b"a")
        for headers in ((unknown,), (("x-amz-request-payer", "requester"), unknown)):
            refused = await rig.client().request("GET", f"{LISTING}&prefix=train%2F", headers)
            assert (refused.status, texts(refused, "Code")) == (501, ["NotImplemented"])
            assert unknown[0] in texts(refused, "Message")[0]
        assert await names_of(rig.client(), f"{LISTING}&prefix=other%2F", unknown) == ["other/a"]


@pytest.mark.parametrize("rules", [RULE, RULE + 'listing = "10m"\n'], ids=["pages", "snapshot"])
async def test_the_origin_compares_the_owner_of_a_listing(tmp_path: Path, rules: str) -> None:
    async with FakeOrigin() as origin, rig_of(origin, tmp_path, rules) as rig:
        pack(origin, OBJECTS)
        owned(origin)
        target = f"{LISTING}&prefix=train%2F"
        for _ in range(2):
            assert await names_of(rig.client(), target, (EXPECTED, OWNER)) == sorted(OBJECTS)
            for owner, status in ((OTHER_OWNER, 403), (NO_OWNER, 400)):
                assert (await rig.client().request("GET", target, ((EXPECTED, owner),))).status == status


async def test_members_are_listed_beside_objects_that_may_be_archived(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, rig_of(origin, tmp_path) as rig:
        pack(origin, OBJECTS)
        origin.store.put("bucket", "train/f", b"f", x_amz_storage_class="GLACIER")
        assert await names_of(rig.client(), f"{LISTING}&prefix=train%2F", RESTORED) == [*sorted(OBJECTS), "train/f"]
