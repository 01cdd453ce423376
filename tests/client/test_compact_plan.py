"""The compact form of a plan, against the proxy's own reading of it."""

from array import array
from hashlib import sha256

import pytest

from forebay.jobs.plans.plan_body import HEADER_SIZE, CompactPlan, read_header
from forebay_client.client_errors import InvalidRequest
from forebay_client.compact_plan import check_lines, checked_order, compact_plan, key_list, line_problem


@pytest.mark.parametrize("order", [[3, 0, 3], range(4), array("I", [1]), []])
def test_the_proxy_reads_what_was_written(order: list[int]) -> None:
    body = compact_plan(sha256(b"keys").digest(), checked_order(order, 4))
    digest, count = read_header(body[:HEADER_SIZE])
    assert digest == sha256(b"keys").hexdigest()
    files: dict[str, bytes] = {}

    def append(name: str, content: bytes) -> None:
        files[name] = files.get(name, b"") + content

    plan = CompactPlan(append, count, 4, None)
    list(plan.feed(body[HEADER_SIZE:]))
    plan.close()
    assert array("I", files["indices"]) == array("I", order)


def test_a_list_is_named_by_its_bytes() -> None:
    found = key_list(["a", "ä b"])
    assert found.content == "a\nä b\n".encode()
    assert found.digest == sha256(found.content).digest()


@pytest.mark.parametrize(
    "key", ["", "a\nb", "a\rb", "a\tb", "a\0b", "\ud800", "a" * 1025, "é" * 513, "\U0001f600" * 257]
)
def test_a_key_that_no_line_can_hold_is_named(key: str) -> None:
    with pytest.raises(InvalidRequest) as found:
        check_lines("b", ["a", key, "a\nc"])
    assert found.value.key == key
    assert line_problem(key) in str(found.value)


@pytest.mark.parametrize("keys", [[], ["a"], ["a\x01", "\x7f", "\x85", "\ufffe"], ["é" * 512], ["a" * 1024, "a"]])
def test_any_other_key_is_a_line(keys: list[str]) -> None:
    check_lines("b", keys)
    assert not any(map(line_problem, keys))


@pytest.mark.parametrize("order", [[-1], [1 << 32], ["a"]])
def test_what_is_no_number_is_refused(order: list[int]) -> None:
    with pytest.raises(InvalidRequest, match="an order is numbers"):
        checked_order(order, 1 << 40)


def test_a_number_behind_the_last_key_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="no key 4"):
        checked_order([0, 4, 3], 4)
