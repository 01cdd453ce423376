"""A listing for a principal with its own origin credential: the origin must have allowed it, lately, and this one."""

from pathlib import Path

import pytest

from forebay.core.request_record import RequestRecord
from forebay.namespace.origin_pages import OriginPages
from forebay.namespace.packs.packed_pages import PackedPages
from forebay.namespace.pending_entries import PendingEntries
from forebay.namespace.pending_pages import PendingPages
from forebay.protocol.exchange import EMPTY_BODY, Request
from forebay.request.listing_read import ListingReader
from harness import packed_rig as packs
from harness.admitted_reads import admission_of
from harness.conformance import texts
from harness.fake.s3_request import S3Request
from harness.fake_origin import FakeOrigin
from harness.memory_exchange import MemoryReply
from harness.origin_credentials import ALICE, BOB, BOB_THERE, KEYS, OURS, fake, refusing
from harness.rig import Rig

LISTED = KEYS.replace('freshness = "immutable"', 'freshness = "immutable"\nlisting = "immutable"')
LISTING = "/bucket?list-type=2"


def rig_of(origin: FakeOrigin, directory: Path, ttl: str = "60s") -> Rig:
    return Rig(origin.endpoint, OURS, directory, rest=LISTED.format(ttl=ttl))


def signers(origin: FakeOrigin) -> list[str]:
    return [
        each.headers["Authorization"].split("Credential=")[1].split("/")[0]
        for each in origin.log.matching(operation="ListObjectsV2")
    ]


async def test_the_origin_allows_a_listing_to_each_principal_itself(tmp_path: Path) -> None:
    async with fake() as origin, rig_of(origin, tmp_path) as rig:
        origin.store.put("bucket", "a", b"a")
        assert (await rig.client(ALICE).request("GET", LISTING)).status == 200
        assert sorted(signers(origin)) == ["alicethere", "forebaythere"]
        refusing(origin, BOB_THERE)
        refused = await rig.client(BOB).request("GET", LISTING)
        assert (refused.status, refused.headers["x-forebay-cache"]) == (403, "bypass")
        again = await rig.client(ALICE).request("GET", LISTING)
        assert again.headers["x-forebay-cache"] == "hit-ssd"
        assert signers(origin).count("alicethere") == 1


async def test_a_permission_is_for_one_listing_and_ends(tmp_path: Path) -> None:
    async with fake() as origin, rig_of(origin, tmp_path) as rig:
        origin.store.put("bucket", "a/b", b"a")
        bob = rig.client(BOB)
        pages = [f"{LISTING}&max-keys=7&prefix=a", f"{LISTING}&max-keys=7&prefix=a&start-after=a%2Fa"]
        for page in pages:
            assert texts(await bob.request("GET", page), "Contents/Key") == ["a/b"]
        assert signers(origin).count("bobthere") == 1  # pages of one listing
        refusing(origin, BOB_THERE)
        assert (await bob.request("GET", pages[0])).status == 200
        for other in (f"{LISTING}&max-keys=8&prefix=a", f"{LISTING}&max-keys=7&prefix=a%2F", LISTING, "/bucket"):
            assert (await bob.request("GET", other)).status == 403
        rig.advance_clock(61)
        assert (await bob.request("GET", pages[0])).status == 403


async def test_a_write_to_the_bucket_ends_permissions(tmp_path: Path) -> None:
    async with fake() as origin, rig_of(origin, tmp_path) as rig:
        origin.store.put("bucket", "a", b"a")
        assert (await rig.client(BOB).request("GET", LISTING)).status == 200
        body = b"<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>"
        assert (await rig.client(ALICE).request("PUT", "/bucket?versioning", (), body)).status == 200
        refusing(origin, BOB_THERE)
        assert (await rig.client(BOB).request("GET", LISTING)).status == 403


@pytest.mark.parametrize("public", [True, False])
async def test_anonymous_listings_are_allowed_by_the_origin(tmp_path: Path, *, public: bool) -> None:
    def is_public(request: S3Request) -> bool:
        return public and request.query.get("prefix", "").startswith("open/")

    granted = '[auth.anonymous]\ngrants = [{ path = "*/open/**", allow = ["list"] }]\n'
    rules = granted + '[[rules]]\npath = "**"\nlisting = "immutable"\n'
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, rest=rules) as rig:
        origin.is_public = is_public
        origin.store.put("bucket", "open/a", b"a")
        origin.store.put("bucket", "closed/a", b"a")
        await rig.client().request("GET", LISTING)
        for source in ("hit-ssd", "hit-ssd"):
            answer = await rig.client().unsigned("GET", f"{LISTING}&prefix=open%2F")
            assert answer.status == (200 if public else 403)
            assert answer.headers["x-forebay-cache"] == (source if public else "bypass")
        for wider in (LISTING, f"{LISTING}&prefix=closed%2F"):
            assert (await rig.client().unsigned("GET", wider)).status == 403


class CountedPages(PendingPages):
    """Counts how often it is asked for members."""

    looks = 0

    async def has_members(self, bucket: str, prefix: str) -> bool:
        self.looks += 1
        return await super().has_members(bucket, prefix)


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"x-amz-request-payer": "requester"},
        {"x-amz-optional-object-attributes": "RestoreStatus"},
        {"x-amz-request-payer": "requester", "x-amz-optional-object-attributes": "RestoreStatus"},
    ],
)
async def test_members_are_looked_for_once(tmp_path: Path, headers: dict[str, str]) -> None:
    async with FakeOrigin() as origin, packs.rig_of(origin, tmp_path) as rig:
        packs.pack(origin)
        origin.store.put("bucket", "train/archived", b"a", x_amz_storage_class="GLACIER")
        parts = rig.parts
        listed = PackedPages(OriginPages(parts.origins), parts.namespaces.catalogue, parts.context.rules)
        pages = CountedPages(listed, PendingEntries(parts.storage.pending))
        reader = ListingReader(
            parts.namespaces.node_listings,
            parts.origins,
            parts.requests.listing_permissions,
            parts.context.fences,
            parts.context.clock,
            pages,
        )
        admission, reply = admission_of("GET", f"{LISTING}&prefix=train%2F", **headers), MemoryReply()
        request = Request("GET", "/", "localhost", admission.headers, EMPTY_BODY, False, 0.0, "")
        assert await reader.answer(admission, request, reply, RequestRecord("GET", 0.0, "ID"))
        assert reply.status == 200
        assert pages.looks == 1
