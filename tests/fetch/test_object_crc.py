"""What was fetched of an object, held to what its origin tells of all of it."""

from hypothesis import given
from hypothesis import strategies as st

from forebay.core.byte_ranges import block_count, block_span
from forebay.core.heads import Head, ObjectFacts, head_of
from forebay.core.names import BlockId, ObjectName, Version
from forebay.fetch.object_crc import ObjectCrc
from forebay.protocol.body.crc64 import crc64

SIZE = 16
NAME = ObjectName("bucket", "key")


def head(body: bytes, told: str | None, etag: str = '"1"') -> Head:
    headers = () if told is None else (("content-type", "a/b"), ("x-oss-hash-crc64ecma", told))
    return head_of(ObjectFacts(Version(etag), len(body), "", headers), SIZE, 0.0)


def land(whole: ObjectCrc, of: Head, body: bytes, number: int) -> bool:
    span = block_span(number, SIZE, len(body))
    return whole.verifies(BlockId(NAME, of.generation, number), memoryview(body)[span.start : span.stop], of)


@given(st.binary(min_size=1, max_size=100), st.booleans(), st.data())
def test_in_any_order_and_more_than_once(body: bytes, true: bool, drawn: st.DataObject) -> None:
    whole, of = ObjectCrc(), head(body, str(crc64(body) if true else crc64(body) ^ 1))
    numbers = range(block_count(len(body), SIZE))
    order = drawn.draw(st.permutations(numbers))
    twice = drawn.draw(st.lists(st.sampled_from(order[:-1]), max_size=3)) if len(order) > 1 else []
    for number in (*twice, *order[:-1]):
        assert land(whole, of, body, number)
    assert land(whole, of, body, order[-1]) is true
    assert len(whole) == 0


def test_a_block_that_is_wrong_is_found_by_the_last() -> None:
    body = bytes(40)
    whole, of = ObjectCrc(), head(body, str(crc64(body)))
    assert land(whole, of, b"\1" + body[1:], 0)
    assert land(whole, of, body, 2)
    assert not land(whole, of, body, 1)


def test_nothing_is_kept_of_what_tells_nothing() -> None:
    body = bytes(40)
    for told in (None, "", "-1", "x", "１"):  # a digit, but not one of OSS's
        whole = ObjectCrc()
        assert all(land(whole, head(body, told), body, number) for number in range(3))
        assert len(whole) == 0


def test_versions_are_kept_apart() -> None:
    one, other = bytes(40), bytes([1]) * 40
    whole = ObjectCrc()
    heads = head(one, str(crc64(one))), head(other, str(crc64(other)), '"2"')
    for number in range(3):
        assert land(whole, heads[0], one, number)
        assert land(whole, heads[1], other, number)


def test_what_was_begun_longest_ago_is_forgotten_and_not_compared() -> None:
    body = bytes(40)
    whole = ObjectCrc(capacity=3)
    heads = [head(body, "1", f'"{number}"') for number in range(3)]
    for of in heads:
        assert land(whole, of, body, 0)
        assert land(whole, of, body, 1)
    assert len(whole) == 1
    assert land(whole, heads[0], body, 2)  # its first two are not known any more
    assert not land(whole, heads[2], body, 2)
