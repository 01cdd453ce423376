from forebay.core.heads import ObjectFacts
from forebay.core.names import Version
from forebay.protocol.packs.packed_member import member_of

DATE = "Tue, 14 Nov 2023 22:13:20 GMT"


def test_a_member_shows_the_facts_of_its_object() -> None:
    headers = (("Content-Type", "image/png"), ("x-amz-meta-label", "cat"), ("x-amz-checksum-crc32", "AAAAAA=="))
    facts = ObjectFacts(Version('"abc"', "v1"), 7, DATE, (*headers, ("x-amz-storage-class", "GLACIER_IR")))
    shown = member_of("key", facts, 3, 512, bytes(8)).facts()
    assert shown == ObjectFacts(Version('"abc"'), 7, DATE, headers)
    assert shown.checksums_known, "nobody asks the origin for those of an object that it may not have"


def test_an_object_without_a_date_has_none() -> None:
    facts = ObjectFacts(Version('"abc"'), 7, "", ())
    assert not member_of("key", facts, 0, 512, bytes(8)).facts().last_modified
