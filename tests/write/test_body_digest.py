"""Digests of bodies, and of the versions that they became."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from forebay.core.heads import ObjectFacts
from forebay.core.names import ObjectName, Version
from forebay.peers.owners import Peers
from forebay.protocol.body.crc64 import crc64
from forebay.write.body_digest import BodyDigest, WrittenDigests, combine_digests, crc_header, crc_in

NAME = ObjectName("b", "k")


def digest_of(body: bytes) -> BodyDigest:
    digest = BodyDigest()
    digest.update(body)
    return digest


@given(st.lists(st.binary(max_size=50), max_size=6))
def test_digests_combine_to_that_of_the_whole(bodies: list[bytes]) -> None:
    assert combine_digests(map(digest_of, bodies)) == digest_of(b"".join(bodies))


async def test_a_crc_is_added_to_exactly_the_written_version() -> None:
    digests = WrittenDigests(Peers(), capacity=2)
    facts = ObjectFacts(Version('"ab"', None), 3, "", (("Content-Type", "text/plain"),))
    await digests.record(NAME, '"AB"', digest_of(b"abc"))
    with_crc = digests.add_crc(NAME, facts)
    assert with_crc.headers == (*facts.headers, ("x-oss-hash-crc64ecma", str(crc64(b"abc"))))
    assert digests.add_crc(NAME, with_crc) is with_crc  # one from the origin stays
    for other in (replace(facts, size=4), replace(facts, version=Version('"ac"', None))):
        assert digests.add_crc(NAME, other) is other
    assert digests.add_crc(ObjectName("b", "other"), facts) is facts
    await digests.record(ObjectName("b", "1"), "", digest_of(b""))
    assert len(digests) == 1
    for key in ("2", "3"):
        await digests.record(ObjectName("b", key), '"x"', digest_of(b""))
    assert (len(digests), digests.add_crc(NAME, facts)) == (2, facts)
    assert crc_header(None) == ()


def test_the_crc_is_found_among_other_headers() -> None:
    headers = (("Content-Type", "text/plain"), ("X-Oss-Hash-Crc64ecma", "7"), ("x-oss-hash-crc64", "8"))
    assert crc_in(headers) == (("X-Oss-Hash-Crc64ecma", "7"),)
    assert crc_in(headers[:1]) == ()
