"""A record is of one origin, however that is spelled; of no other one, whatever its bucket is called."""

import pytest

from forebay.storage.cache_origin import CacheOrigin, CacheOrigins
from forebay.storage.journal.journal_record import Document
from forebay.storage.journal.record_origins import RecordOrigins

HERE, THERE = "https://s3.here.example", "https://s3.there.example"


def _origins(*origins: CacheOrigin, position: int | None = 0) -> RecordOrigins:
    return RecordOrigins(CacheOrigins(origins, lambda _bucket: position))


def _record(origin: CacheOrigin) -> Document:
    return {"bucket": "b", **_origins(origin).named("b")}


@pytest.mark.parametrize(
    ("accepted_for", "now"),
    [
        (CacheOrigin.of(HERE), CacheOrigin.of("HTTPS://S3.here.example:443/")),
        (CacheOrigin.of(HERE), CacheOrigin.of(HERE, "far")),
        (CacheOrigin.of(HERE, "far"), CacheOrigin.of(HERE)),
        (CacheOrigin.of(HERE, "far"), CacheOrigin.of(THERE, "far", "renamed")),
    ],
)
def test_the_same_origin_by_another_name(accepted_for: CacheOrigin, now: CacheOrigin) -> None:
    assert _origins(now).obstacle(_record(accepted_for)) is None


@pytest.mark.parametrize(
    ("accepted_for", "now"),
    [
        (CacheOrigin.of(HERE), CacheOrigin.of(THERE)),
        (CacheOrigin.of(HERE), CacheOrigin.of("http://s3.here.example")),
        (CacheOrigin.of(HERE), CacheOrigin.of(HERE, name="another-account")),
        (CacheOrigin.of(HERE, "far"), CacheOrigin.of(HERE, "further")),
        (CacheOrigin.of(HERE), CacheOrigin.of(THERE, "far")),
    ],
)
def test_another_origin(accepted_for: CacheOrigin, now: CacheOrigin) -> None:
    obstacle = _origins(now).obstacle(_record(accepted_for))
    assert obstacle == f"accepted for the origin default at {accepted_for}, which is not configured"


def test_a_bucket_that_moved_or_has_no_origin() -> None:
    here, there = CacheOrigin.of(HERE), CacheOrigin.of(THERE, name="there")
    for position in (1, None):
        obstacle = _origins(here, there, position=position).obstacle(_record(here))
        assert obstacle == f"accepted for the origin default at {HERE}, which has the bucket no longer"


@pytest.mark.parametrize("document", [{"bucket": "b"}, {"bucket": "b", "origin": None}, {"origin": {}}])
def test_a_record_without_an_origin_is_refused(document: Document) -> None:
    with pytest.raises(ValueError, match="it names no origin"):
        _origins(CacheOrigin.of(HERE)).obstacle(document)
