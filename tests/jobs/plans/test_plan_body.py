"""The bodies of plans: both forms in any pieces, short steps, and errors with their line."""

import time
from array import array
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.core.cooperative import run_to_completion
from forebay.core.errors import S3Error
from forebay.jobs.plans.plan_body import MAX_ENTRIES, CompactPlan, ReadableKeys, TextPlan, read_header
from forebay.jobs.plans.plan_entries import WHOLE
from forebay.policy.grants import Grant, Principal
from forebay.policy.path_patterns import Pattern
from forebay.protocol.operations import Access


def principal(*paths: str) -> Principal:
    return Principal("p", tuple(Grant(Pattern(path), frozenset({Access.READ})) for path in paths))


class Written:
    """What was written, by file."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}

    def append(self, name: str, content: bytes) -> None:
        self.files[name] = self.files.get(name, b"") + content

    def entries(self) -> list[tuple[str, int, int]]:
        keys = self.files["keys"].decode().split("\n")[:-1]
        offsets = list(array("I", self.files["offsets"]))
        assert offsets == [0, *(len("\n".join(keys[:nth]).encode()) + 1 for nth in range(1, len(keys) + 1))]
        bounds = list(array("Q", self.files["ranges"])) if "ranges" in self.files else [0, WHOLE] * len(keys)
        return list(zip(keys, bounds[::2], bounds[1::2], strict=True))


def parse(pieces: Sequence[bytes], *grants: str) -> tuple[Written, TextPlan]:
    written = Written()
    plan = TextPlan(written.append, ReadableKeys(principal(*(grants or ("b/**",))), "b"))
    for piece in pieces:
        run_to_completion(plan.feed(piece))
    plan.close()
    return written, plan


def test_lines_are_keys_with_an_optional_range() -> None:
    written, plan = parse([b"a\nb/c\r\n\nd\t5-9\n\xc3\xa9\t7-\nlast"])
    assert written.entries() == [("a", 0, WHOLE), ("b/c", 0, WHOLE), ("d", 5, 9), ("é", 7, WHOLE), ("last", 0, WHOLE)]
    assert (plan.entries, plan.dropped) == (5, 0)


@pytest.mark.parametrize("size", [1, 2, 100])
def test_a_byte_order_mark_is_no_part_of_a_key(size: int) -> None:
    body = b"\xef\xbb\xbfa\n\xef\xbb\xbfb\n"
    written, _ = parse([body[start : start + size] for start in range(0, len(body), size)])
    assert written.entries() == [("a", 0, WHOLE), ("\ufeffb", 0, WHOLE)]


@given(st.lists(st.sampled_from(["a", "ü" * 30, "x\t1-2", "", "long" * 40]), max_size=20), st.integers(1, 50))
def test_any_pieces_give_the_same_entries(lines: list[str], size: int) -> None:
    body = "\n".join(lines).encode()
    whole, _ = parse([body])
    pieces, _ = parse([body[start : start + size] for start in range(0, len(body), size)])
    assert pieces.entries() == whole.entries()


def test_keys_that_may_not_be_read_are_left_out() -> None:
    written, plan = parse([b"open/1\nsecret/1\nopen/2\n.forebay/plans/a\n"], "b/open/**", "b/.forebay/**")
    assert [key for key, _, _ in written.entries()] == ["open/1", "open/2"]
    assert plan.dropped == 2


def test_one_range_gives_all_entries_ranges() -> None:
    written, _ = parse([b"k\n" * 5000, b"r\t1-1\n", b"k\n"])
    assert written.entries()[4999:] == [("k", 0, WHOLE), ("r", 1, 1), ("k", 0, WHOLE)]
    assert len(written.entries()) == 5002


@pytest.mark.parametrize(
    ("body", "line"),
    [
        (b"a\nb\n\xff\n", 3),
        (b"a\n\n\xffb", 3),
        (b"a\tb\n", 1),
        (b"a\nb\t9-8\n", 2),
        (b"a\t-8\n", 1),
        (b"a\t1\n", 1),
        (b"a\t1-\xd9\xa3\n", 1),
        (b"\t1-2\n", 1),
        (b"a\nb\nk\0\n", 3),
        (b"a\n" + b"k" * 1025 + b"\n", 2),
        (b"a\n" + b"k" * 3000, 2),
        (b"FBPLAN2\n" + b"\1" * 40, 1),
        (b"FBPLAN12\r\na\n", 1),
    ],
)
def test_an_error_names_its_line(body: bytes, line: int) -> None:
    with pytest.raises(S3Error, match=f"Line {line}:") as refused:
        parse([body])
    assert (refused.value.status, refused.value.details["Line"]) == (400, str(line))


def test_a_plan_is_bounded() -> None:
    with pytest.raises(S3Error, match="EntityTooLarge"):
        parse([b"k\n" * 100_000] * (MAX_ENTRIES // 100_000 + 1))


def test_a_million_lines_are_read_in_short_steps() -> None:
    """A second of the loop's time for 1.28 million; here a tenth of them, in steps of some milliseconds at most."""
    lines = [f"train/n{nth % 1000:08}/n{nth % 1000:08}_{nth}.JPEG\n".encode() for nth in range(128_000)]
    body, steps = b"".join(lines), list[float]()
    plan = TextPlan(Written().append, ReadableKeys(principal("b/train/**"), "b"))
    for start in range(0, len(body), 1 << 18):
        work = plan.feed(body[start : start + (1 << 18)])
        began = time.thread_time()
        for _ in work:
            steps.append(time.thread_time() - began)
            began = time.thread_time()
    assert plan.entries == 128_000
    assert len(steps) >= len(body) / (32 << 10), "no step is longer than some bytes"
    assert sorted(steps)[len(steps) // 2] < 0.005


def compact(indices: Sequence[int], count: int, keys: int, allowed: frozenset[int] | None = None) -> CompactPlan:
    readable = None if allowed is None else lambda numbers: [number in allowed for number in numbers]
    plan = CompactPlan(Written().append, count, keys, readable)
    content = array("I", indices).tobytes()
    for start in range(0, len(content), 7):
        run_to_completion(plan.feed(content[start : start + 7]))
    plan.close()
    return plan


def test_indices_name_keys_of_the_list() -> None:
    plan = compact([3, 0, 3], 3, 4, frozenset({3}))
    assert (plan.entries, plan.dropped) == (2, 1)


@pytest.mark.parametrize(
    ("indices", "count", "entry"), [([0, 4, 1], 3, 2), ([0, 1], 3, 3), ([0, 1, 2], 2, 3), ([], 1, 1)]
)
def test_an_error_of_the_compact_form_names_its_entry(indices: list[int], count: int, entry: int) -> None:
    with pytest.raises(S3Error, match=f"Entry {entry}:"):
        compact(indices, count, 4)


def test_a_compact_body_that_is_too_long_is_not_read_to_its_end() -> None:
    written = Written()
    plan = CompactPlan(written.append, 3, 4, None)
    with pytest.raises(S3Error, match="Entry 4:"):
        run_to_completion(plan.feed(bytes(1 << 20)))
    assert written.files["indices"] == b""


def test_a_header_is_read_strictly() -> None:
    assert read_header(b"FBPLAN1\n" + b"\1" * 32 + bytes(4) + b"\5\0\0\0") == ("01" * 32, 5)
    for header in (b"FBPLAN1\n", b"FBPLAN1\n" + b"\1" * 40):
        with pytest.raises(S3Error, match="48 bytes"):
            read_header(header)
