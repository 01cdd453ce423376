"""Object CRC: fetched blocks are compared with the origin's CRC-64 of the whole object."""

from hypothesis import given
from hypothesis import strategies as st

from forebay.core.byte_ranges import block_count, block_span
from forebay.core.heads import Head, ObjectFacts, head_of
from forebay.core.names import BlockId, ObjectName, Version
from forebay.fetch.object_crc import ObjectCrc
from forebay.protocol.body.crc64 import crc64

SIZE = 16
NAME = ObjectName("bucket", "key")


def head(body: bytes, crc: str | None, etag: str = '"1"') -> Head:
    headers = () if crc is None else (("content-type", "a/b"), ("x-oss-hash-crc64ecma", crc))
    return head_of(ObjectFacts(Version(etag), len(body), "", headers), SIZE, 0.0)


def land(crcs: ObjectCrc, version: Head, body: bytes, number: int) -> bool:
    span = block_span(number, SIZE, len(body))
    return crcs.verifies(BlockId(NAME, version.generation, number), memoryview(body)[span.start : span.stop], version)


@given(st.binary(min_size=1, max_size=100), st.booleans(), st.data())
def test_blocks_are_compared_in_any_order_and_more_than_once(body: bytes, true: bool, drawn: st.DataObject) -> None:
    crcs, version = ObjectCrc(), head(body, str(crc64(body) if true else crc64(body) ^ 1))
    numbers = range(block_count(len(body), SIZE))
    order = drawn.draw(st.permutations(numbers))
    twice = drawn.draw(st.lists(st.sampled_from(order[:-1]), max_size=3)) if len(order) > 1 else []
    for number in (*twice, *order[:-1]):
        assert land(crcs, version, body, number)
    assert land(crcs, version, body, order[-1]) is true
    assert len(crcs) == 0


def test_a_wrong_block_is_found_with_the_last_one() -> None:
    body = bytes(40)
    crcs, version = ObjectCrc(), head(body, str(crc64(body)))
    assert land(crcs, version, b"\1" + body[1:], 0)
    assert land(crcs, version, body, 2)
    assert not land(crcs, version, body, 1)


def test_a_version_without_a_crc_is_not_tracked() -> None:
    body = bytes(40)
    for crc in (None, "", "-1", "x", "１"):  # the last is a digit, but not an ASCII one
        crcs = ObjectCrc()
        assert all(land(crcs, head(body, crc), body, number) for number in range(3))
        assert len(crcs) == 0


def test_versions_are_kept_apart() -> None:
    first, second = bytes(40), bytes([1]) * 40
    crcs = ObjectCrc()
    heads = head(first, str(crc64(first))), head(second, str(crc64(second)), '"2"')
    for number in range(3):
        assert land(crcs, heads[0], first, number)
        assert land(crcs, heads[1], second, number)


def test_the_version_begun_longest_ago_is_forgotten_first() -> None:
    body = bytes(40)
    crcs = ObjectCrc(capacity=3)
    heads = [head(body, "1", f'"{number}"') for number in range(3)]
    for version in heads:
        assert land(crcs, version, body, 0)
        assert land(crcs, version, body, 1)
    assert len(crcs) == 1
    assert land(crcs, heads[0], body, 2)  # its first two blocks are forgotten
    assert not land(crcs, heads[2], body, 2)
