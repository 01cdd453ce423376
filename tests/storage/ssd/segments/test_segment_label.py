"""The rows that say what a segment has."""

from forebay.storage.ssd.segments.segment_label import (
    NO_POOL,
    LabelledSegment,
    PoolRow,
    SegmentLabel,
    decode_segment,
    encode_pool,
    encode_segment,
    is_label,
    pool_id,
    pool_key,
    read_labels,
    read_pools,
    segment_key,
)


class Rows:
    """A cursor over rows, as LMDB's."""

    def __init__(self, rows: dict[bytes, bytes]) -> None:
        self._rows = sorted(rows.items())
        self._at = 0

    def set_range(self, key: bytes) -> bool:
        self._at = sum(found < key for found, _ in self._rows)
        return self._at < len(self._rows)

    def next(self) -> bool:
        self._at += 1
        return self._at < len(self._rows)

    def key(self) -> bytes:
        return self._rows[self._at][0] if self._at < len(self._rows) else b""

    def value(self) -> bytes:
        return self._rows[self._at][1]


SEGMENT = LabelledSegment(SegmentLabel(b"12345678", 5), 1_000)


def test_a_segment_is_decoded_as_it_was_encoded() -> None:
    assert decode_segment(encode_segment(SEGMENT)) == SEGMENT
    assert decode_segment(None) is None
    assert decode_segment(b"short") is None


def test_labels_and_pools_are_found_among_other_rows() -> None:
    row = PoolRow("sätze/**", True, 7)
    rows = {
        b"next_segment": b"1234",
        b"rescan": b"",
        segment_key(3): encode_segment(SEGMENT),
        segment_key(4): b"damaged",
        pool_key(b"12345678"): encode_pool(row),
        pool_key(b"87654321"): b"",
        pool_key(b"short"): encode_pool(row),
    }
    assert dict(read_labels(Rows(rows))) == {3: SEGMENT}
    assert dict(read_pools(Rows(rows))) == {b"12345678": row}
    assert [key for key in rows if is_label(key)] == list(rows)[2:]
    assert dict(read_labels(Rows({}))) == {}


def test_pools_have_ids_of_their_own() -> None:
    ids = {pool_id(name, is_epoch=epoch) for name in ("a/**", "b/**") for epoch in (True, False)}
    assert len(ids) == 4
    assert NO_POOL not in ids
