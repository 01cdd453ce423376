"""Upload listings: every form shows the uploads of the journal among those of the origin, each once, in one order."""

import random
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from itertools import product

import pytest

from forebay.core.errors import S3Error
from forebay.core.names import ObjectName
from forebay.origin.credentials import StaticCredentials
from forebay.origin.dialects import DIALECTS
from forebay.origin.origin_client import OriginClient
from forebay.origin.origin_server import OriginServer
from forebay.origin.origins import Origins
from forebay.peers.owners import Peers
from forebay.protocol.signatures.signing_key import SecretKey
from forebay.protocol.target import Target
from forebay.protocol.xml.xml_tree import Element, read_tree
from forebay.storage.journal.log_writer import RecordId
from forebay.storage.journal.pending_objects import PendingObjects, PendingVersion
from forebay.write.back.accept.upload_listing import UploadListings
from forebay.write.back.drain.own_uploads import OwnUploads
from forebay.write.back.pending.accepted_write import AcceptedUpload
from forebay.write.back.pending.pending_uploads import PendingUploads, new_upload_id
from harness.fake.actions import Respond
from harness.fake.store import Upload
from harness.fake_origin import FakeOrigin


@asynccontextmanager
async def _listings(
    origin: FakeOrigin, uploads: PendingUploads, own: Sequence[str] = (), pending: Sequence[ObjectName] = ()
) -> AsyncIterator[UploadListings]:
    """`own`: uploads of the origin that carry completions out; `pending`: objects with pending writes."""
    secret = origin.secret
    key = StaticCredentials(SecretKey(secret.access, secret.secret))
    async with OriginClient(OriginServer(origin.endpoint, secret.region, DIALECTS["minio"]), key) as client:
        own_uploads, objects = OwnUploads(Peers()), PendingObjects(_read_nothing)
        for each in own:
            await own_uploads.add(ObjectName("b", "k"), each)
        for name in pending:
            objects.add(name, PendingVersion(RecordId("l", 0), 0, None))
        yield UploadListings(uploads, objects, own_uploads, Origins.single(client))


async def _read_nothing(_ref: object, _span: object) -> memoryview:
    raise AssertionError("nothing is read")


def _target(**query: str) -> Target:
    pairs = (("uploads", ""), *((name.replace("_", "-"), value) for name, value in query.items()))
    return Target("", "", "bucket", None, pairs)


def _read(document: bytes) -> Element:
    return read_tree(document, max_size=1 << 20, max_elements=10_000)


def _add(uploads: PendingUploads, key: str, bucket: str = "bucket") -> str:
    upload_id = new_upload_id(1)
    uploads.create(RecordId("l", len(uploads.by_id)), AcceptedUpload(ObjectName(bucket, key), upload_id, (), 0.0))
    return upload_id


def _add_at_origin(origin: FakeOrigin, key: str, upload_id: str) -> None:
    origin.store.create_bucket("bucket").uploads[upload_id] = Upload(key, (), (), 0.0)


async def test_pages_of_any_size_show_each_upload_once_in_order() -> None:
    keys, chooser = ["a", "a/1", "a/2", "a/x/1", "b", "b/1", "ä&<", "c"], random.Random(7)
    async with FakeOrigin() as origin:
        uploads, expected, own = PendingUploads(), [], list[str]()
        for number in range(40):
            key = chooser.choice(keys)
            if chooser.random() < 0.2:
                own.append(f"{number:032x}")
                _add_at_origin(origin, key, own[-1])
            elif chooser.random() < 0.5:
                expected.append((key, 1, _add(uploads, key)))
            else:
                _add_at_origin(origin, key, f"{number:032x}")
                expected.append((key, 0, f"{number:032x}"))
        _add(uploads, "a/1", "elsewhere")
        expected.sort()
        async with _listings(origin, uploads, own) as listings:
            for most, prefix, delimiter in product(("1", "2", "7", "39", "40", "1000"), ("", "a", "a/"), ("", "/")):
                found: list[tuple[str, str]] = []
                markers: dict[str, str] = {}
                while True:
                    document = await listings.answer(
                        _target(prefix=prefix, delimiter=delimiter, max_uploads=most, **markers)
                    )
                    assert document is not None
                    page = _read(document)
                    rows = [(each.text_at("Key"), each.text_at("UploadId")) for each in page.all("Upload")]
                    rows += [(each.text_at("Prefix"), "") for each in page.all("CommonPrefixes")]
                    assert len(rows) <= int(most)
                    found += rows
                    if page.text_at("IsTruncated") == "false":
                        break
                    markers = {
                        "key_marker": page.text_at("NextKeyMarker"),
                        "upload_id_marker": page.text_at("NextUploadIdMarker"),
                    }
                wanted = []
                for key, _, upload_id in expected:
                    if key.startswith(prefix):
                        head, cut, _ = key[len(prefix) :].partition(delimiter or "\0")
                        wanted.append((f"{prefix}{head}/", "") if cut else (key, upload_id))
                assert len(found) == len(set(found))
                assert sorted(found) == sorted(set(wanted)), (most, prefix, delimiter)
                if not delimiter:
                    assert found == wanted, (most, prefix)


async def test_names_are_encoded_where_that_is_requested() -> None:
    async with FakeOrigin() as origin:
        uploads = PendingUploads()
        _add(uploads, "a b+ä")
        _add_at_origin(origin, "a c+ä", "1" * 32)
        async with _listings(origin, uploads) as listings:
            page = _read(await listings.answer(_target(encoding_type="url", prefix="a ")) or b"")
            assert [each.text_at("Key") for each in page.all("Upload")] == ["a%20b%2B%C3%A4", "a%20c%2B%C3%A4"]
            assert (page.text_at("Prefix"), page.text_at("EncodingType")) == ("a%20", "url")
            with pytest.raises(S3Error, match="encoding"):
                await listings.answer(_target(encoding_type="base64"))
            with pytest.raises(S3Error, match="max-uploads"):
                await listings.answer(_target(max_uploads="-1"))


async def test_the_origin_answers_where_the_journal_adds_nothing() -> None:
    async with FakeOrigin() as origin:
        uploads = PendingUploads()
        _add_at_origin(origin, "a", "1" * 32)
        _add(uploads, "a")
        async with _listings(origin, uploads) as listings:
            assert await listings.answer(_target(prefix="b")) is None
            assert await listings.answer(_target(max_uploads="0")) is None
            refused = origin.faults.add(Respond(403, "AccessDenied"))
            assert await listings.answer(_target()) is None
            origin.faults.remove(refused)
            # An upload that has ended since, as the marker of a listing that goes on: unknown to the origin.
            uploads.by_id.clear()
            marker = {"key_marker": "a", "upload_id_marker": new_upload_id(1)}
            page = _read(await listings.answer(_target(**marker)) or b"")
            assert (page.all("Upload"), page.text_at("IsTruncated")) == ([], "false")


async def test_an_upload_that_carries_a_completion_out_is_hidden() -> None:
    """The journal has no other upload. Where it is all of a page, the listing goes on behind it."""
    async with FakeOrigin() as origin:
        _add_at_origin(origin, "a", "1" * 32)
        _add_at_origin(origin, "b", "2" * 32)
        elsewhere, here = ObjectName("another", "a"), ObjectName("bucket", "a")
        async with _listings(origin, PendingUploads(), ["1" * 32], [elsewhere]) as listings:
            assert await listings.answer(_target()) is None
        async with _listings(origin, PendingUploads(), ["1" * 32], [here]) as listings:
            page = _read(await listings.answer(_target()) or b"")
            assert [each.text_at("Key") for each in page.all("Upload")] == ["b"]
            page = _read(await listings.answer(_target(max_uploads="1")) or b"")
            marker = page.text_at("NextKeyMarker"), page.text_at("NextUploadIdMarker")
            assert (page.all("Upload"), page.text_at("IsTruncated"), marker) == ([], "true", ("a", "1" * 32))
