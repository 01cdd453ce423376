"""What is known of the parts of uploads under way, and of the bodies they were."""

from dataclasses import replace
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from forebay.core.fair_semaphore import FairSemaphore
from forebay.core.heads import ObjectFacts
from forebay.core.names import ObjectName, Version
from forebay.protocol.body.crc64 import crc64
from forebay.protocol.xml.s3_documents import UploadedPart
from forebay.storage.spool import Spool
from forebay.write.body_digest import BodyDigest, WrittenDigests, combine_digests, crc_header
from forebay.write.multipart.upload_parts import KnownPart, MultipartRegistry

NAME = ObjectName("b", "k")


def tally_of(body: bytes) -> BodyDigest:
    tally = BodyDigest()
    tally.update(body)
    return tally


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


async def held(holds: Spool, body: bytes) -> KnownPart:
    hold = holds.create()
    await hold.reserve(len(body))
    hold.append(body)
    return KnownPart(f'"{body.hex()}"', tally_of(body), hold)


def holds_in(directory: Path) -> Spool:
    return Spool(1000, FairSemaphore(1000), share=1000, wait=0.01, parent=directory)


async def test_a_part_is_known_by_its_etag_and_let_go_of_when_it_is_replaced(tmp_path: Path) -> None:
    holds, parts = holds_in(tmp_path), MultipartRegistry(Clock(), 10)
    first, second = await held(holds, b"1"), await held(holds, b"2")
    parts.add(NAME, "u", 1, first)
    asked = [UploadedPart(1, first.etag.strip('"').upper()), UploadedPart(2, "")]
    assert parts.lookup(NAME, "u", asked) == [first, None]
    assert parts.lookup(NAME, "other", asked) == [None, None]
    assert not parts.differs(NAME, "u", asked)
    parts.add(NAME, "u", 1, second)
    assert (len(holds), parts.lookup(NAME, "u", asked), parts.differs(NAME, "u", asked)) == (1, [None, None], True)
    second.coalesced_etag = '"ab"'
    assert parts.lookup(NAME, "u", [UploadedPart(1, "AB")]) == [second]
    parts.remove(NAME, "u", 1)
    parts.remove(NAME, "u", 1)
    assert (len(holds), holds.in_use) == (0, 0)


async def test_idle_uploads_let_go_of_their_bytes(tmp_path: Path) -> None:
    clock, holds = Clock(), holds_in(tmp_path)
    parts = MultipartRegistry(clock, 10)
    parts.add(NAME, "idle", 1, await held(holds, b"1"))
    parts.add(NAME, "busy", 1, await held(holds, b"2"))
    clock.now = 8
    parts.lookup(NAME, "busy", [UploadedPart(1, "")])
    clock.now = 11
    parts.add(NAME, "new", 1, await held(holds, b"3"))
    assert (len(parts), len(holds)) == (2, 2)
    clock.now = 18.5
    parts.expire()
    assert (len(parts), len(holds)) == (1, 1)
    parts.forget(NAME, "busy")
    parts.forget(NAME, "new")
    parts.forget(NAME, "idle")
    assert (len(parts), len(holds), holds.in_use) == (0, 0, 0)


async def test_more_than_can_be_remembered_is_forgotten_by_the_upload(tmp_path: Path) -> None:
    holds, parts = holds_in(tmp_path), MultipartRegistry(Clock(), 10, max_parts=2)
    for upload in ("a", "b"):
        for number in (1, 2):
            parts.add(NAME, upload, number, await held(holds, b"x"))
    assert (len(parts), len(holds)) == (1, 2)


@given(st.lists(st.binary(max_size=50), max_size=6))
def test_tallies_join_to_that_of_the_whole(bodies: list[bytes]) -> None:
    assert combine_digests(map(tally_of, bodies)) == tally_of(b"".join(bodies))


def test_a_crc_is_told_of_exactly_the_version_that_was_written() -> None:
    known = WrittenDigests(capacity=2)
    facts = ObjectFacts(Version('"ab"', None), 3, "", (("Content-Type", "text/plain"),))
    known.record(NAME, '"AB"', tally_of(b"abc"))
    told = known.add_crc(NAME, facts)
    assert told.headers == (*facts.headers, ("x-oss-hash-crc64ecma", str(crc64(b"abc"))))
    assert known.add_crc(NAME, told) is told  # what is there is left
    for other in (replace(facts, size=4), replace(facts, version=Version('"ac"', None))):
        assert known.add_crc(NAME, other) is other
    assert known.add_crc(ObjectName("b", "other"), facts) is facts
    known.record(ObjectName("b", "1"), "", tally_of(b""))
    assert len(known) == 1
    for key in ("2", "3"):
        known.record(ObjectName("b", key), '"x"', tally_of(b""))
    assert (len(known), known.add_crc(NAME, facts)) == (2, facts)
    assert crc_header(None) == ()
