"""FORMAT: which ids origins have, and that none ever gets another one's."""

import json

import pytest

from forebay.storage.cache_origin import CacheOrigin, CacheOrigins
from forebay.storage.ssd.directory_format import DirectoryFormat, first_format, format_document, read_document

DEFAULT = CacheOrigin.of("http://h")
FAR = CacheOrigin.of("http://far", None, "far")


def origins_of(*origins: CacheOrigin, routes: str = "r") -> CacheOrigins:
    """The bucket "0" is the first origin's, and so on."""
    return CacheOrigins(origins, lambda bucket: int(bucket) if bucket.isdigit() else None, routes)


def taken_over(content: DirectoryFormat, *origins: CacheOrigin) -> DirectoryFormat:
    successor = content.taken_over_by(origins_of(*origins))
    assert successor is not None
    return successor


def ids(content: DirectoryFormat, count: int) -> list[str]:
    id_of = content.id_by_bucket(origins_of(*[DEFAULT] * count))
    return [id_of(str(number)) for number in range(count)]


@pytest.mark.parametrize("origins", [(DEFAULT,), (FAR, DEFAULT)])
def test_a_format_is_read_as_it_was_written(origins: tuple[CacheOrigin, ...]) -> None:
    written = first_format(origins_of(*origins, routes="r" if len(origins) > 1 else ""))
    assert read_document(json.loads(json.dumps(format_document(written)))) == written


def test_an_origin_keeps_its_id_and_a_new_one_gets_a_new_one() -> None:
    alone = first_format(CacheOrigins.single(DEFAULT))
    both = taken_over(alone, FAR, DEFAULT)
    assert ids(both, 2)[1] == ids(alone, 1)[0] == "http://h"
    assert ids(both, 2)[0].startswith("http://far#")
    assert ids(taken_over(both, FAR, DEFAULT), 2) == ids(both, 2)
    assert taken_over(both, FAR, DEFAULT).is_of(origins_of(FAR, DEFAULT))
    assert not both.is_of(origins_of(DEFAULT, FAR))


def test_an_origin_that_comes_back_does_not_get_its_old_id() -> None:
    both = first_format(origins_of(FAR, DEFAULT))
    without = taken_over(both, DEFAULT)
    assert [str(left) for left in both.left_by(without)] == ["http://far"]
    assert ids(taken_over(without, FAR, DEFAULT), 2)[0] != ids(both, 2)[0]


def test_two_accounts_at_one_endpoint_are_two() -> None:
    other = CacheOrigin.of("http://h", None, "other")
    both = first_format(origins_of(other, DEFAULT))
    assert len(set(ids(both, 2))) == 2
    swapped = taken_over(both, CacheOrigin.of("http://h", None, "third"), DEFAULT)
    assert not {ids(swapped, 2)[0]} & set(ids(both, 2))


def test_two_that_claim_one_record_do_not_both_get_it() -> None:
    """One has the cache_id of what was cached, the other its name and endpoint."""
    named = CacheOrigin.of("http://far", "store", "far")
    content = first_format(origins_of(named, DEFAULT))
    moved, renamed = CacheOrigin.of("http://elsewhere", "store", "moved"), CacheOrigin.of("http://far", None, "far")
    for claimants in ((moved, renamed), (renamed, moved)):
        given = ids(taken_over(content, *claimants, DEFAULT), 3)
        assert len(set(given)) == 3
        assert given[0] == "store"


def test_content_of_other_origins_is_not_taken_over() -> None:
    content = first_format(CacheOrigins.single(DEFAULT))
    assert content.taken_over_by(CacheOrigins.single(CacheOrigin.of("http://other"))) is None


def test_a_bucket_without_an_origin_has_an_id_of_its_own() -> None:
    id_of = first_format(origins_of(FAR, DEFAULT)).id_by_bucket(origins_of(FAR, DEFAULT))
    assert id_of("none") not in {id_of("0"), id_of("1")}
