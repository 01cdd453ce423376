"""Versioned buckets: ids, reads of old versions, delete markers, listings."""

from uuid import uuid4

import pytest

from harness.conformance import Subject, code, texts
from harness.quirks import Quirk


def configuration(status: str) -> bytes:
    return f"<VersioningConfiguration><Status>{status}</Status></VersioningConfiguration>".encode()


@pytest.fixture
async def versioned(origin: Subject) -> Subject:
    home = Subject(origin.endpoint, origin.secret, f"versioned-{uuid4().hex[:12]}", origin.quirks)
    assert (await home.ask("PUT")).status == 200
    assert texts(await home.ask("GET", None, versioning=""), "Status") == []
    assert (await home.ask("PUT", None, (), configuration("Enabled"), versioning="")).status == 200
    assert texts(await home.ask("GET", None, versioning=""), "Status") == ["Enabled"]
    return home


async def test_each_put_is_a_version(versioned: Subject) -> None:
    ids = [(await versioned.ask("PUT", "k", (), body)).headers["x-amz-version-id"] for body in (b"one", b"two")]
    assert ids[0] != ids[1]
    current = await versioned.get("k")
    assert (current.body, current.headers["x-amz-version-id"]) == (b"two", ids[1])
    old = await versioned.get("k", versionId=ids[0])
    assert (old.body, old.headers["x-amz-version-id"]) == (b"one", ids[0])
    ranged = await versioned.get("k", ("Range", "bytes=1-"), versionId=ids[0])
    assert (ranged.status, ranged.body) == (206, b"ne")
    listed = await versioned.ask("GET", None, versions="")
    assert texts(listed, "Version/VersionId") == ids[::-1]
    assert texts(listed, "Version/IsLatest") == ["true", "false"]


async def test_a_delete_leaves_a_marker(versioned: Subject) -> None:
    version = (await versioned.ask("PUT", "k", (), b"one")).headers["x-amz-version-id"]
    gone = await versioned.ask("DELETE", "k")
    assert (gone.status, gone.headers["x-amz-delete-marker"]) == (204, "true")
    answer = await versioned.get("k")
    assert (answer.status, code(answer)) == (404, "NoSuchKey")
    marker = None if versioned.has(Quirk.HIDES_DELETE_MARKERS) else "true"
    assert answer.headers.get("x-amz-delete-marker") == marker
    assert texts(await versioned.ask("GET", None), "Contents/Key") == []
    assert (await versioned.get("k", versionId=version)).body == b"one"
    marker = gone.headers["x-amz-version-id"]
    itself = await versioned.get("k", versionId=marker)
    assert itself.status == (404 if versioned.has(Quirk.HIDES_DELETE_MARKERS) else 405)
    assert (await versioned.ask("DELETE", "k", versionId=marker)).status == 204
    assert (await versioned.get("k")).body == b"one"


async def test_a_version_is_deleted_for_good(versioned: Subject) -> None:
    ids = [(await versioned.ask("PUT", "k", (), body)).headers["x-amz-version-id"] for body in (b"one", b"two")]
    assert (await versioned.ask("DELETE", "k", versionId=ids[1])).status == 204
    assert (await versioned.get("k")).body == b"one"
    assert (await versioned.get("k", versionId=ids[1])).status == 404


async def test_suspended(versioned: Subject) -> None:
    kept = (await versioned.ask("PUT", "k", (), b"one")).headers["x-amz-version-id"]
    assert (await versioned.ask("PUT", None, (), configuration("Suspended"), versioning="")).status == 200
    for body in (b"two", b"three"):
        assert (await versioned.ask("PUT", "k", (), body)).status == 200
    assert (await versioned.get("k")).body == b"three"
    assert (await versioned.get("k", versionId="null")).body == b"three"
    assert (await versioned.get("k", versionId=kept)).body == b"one"
    assert len(texts(await versioned.ask("GET", None, versions=""), "Version/VersionId")) == 2


async def test_a_copy_of_an_old_version(versioned: Subject) -> None:
    old = (await versioned.ask("PUT", "k", (), b"one")).headers["x-amz-version-id"]
    await versioned.ask("PUT", "k", (), b"two")
    source = ("x-amz-copy-source", f"/{versioned.bucket}/k?versionId={old}")
    assert (await versioned.ask("PUT", "copy", [source])).status == 200
    assert (await versioned.get("copy")).body == b"one"
