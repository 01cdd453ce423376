"""Conditional reads: the four headers, their combinations (RFC 9110, 13.2.2), If-Range, and conditions of writes."""

from email.utils import formatdate, parsedate_to_datetime

import pytest

from harness.conformance import Kept, Subject, code
from harness.quirks import Quirk

BODY = b"0123456789"
OTHER = '"00000000000000000000000000000000"'


def header(name: str, kept: Kept) -> tuple[str, str]:
    """`if-match:same` and so on as a header."""
    field, _, value = name.partition(":")
    moment = int(parsedate_to_datetime(kept.modified).timestamp())
    values = {
        "same": kept.etag,
        "other": OTHER,
        "any": "*",
        "list": f"{OTHER}, {kept.etag}",
        "weak": f"W/{kept.etag}",
        "bare": kept.etag.strip('"'),
        "then": kept.modified,
        "before": formatdate(moment - 3600, usegmt=True),
        "after": formatdate(moment + 3600, usegmt=True),
        "nonsense": "yesterday",
    }
    return field, values[value]


CASES = [
    (("if-match:same",), 200),
    (("if-match:other",), 412),
    (("if-match:any",), 200),
    (("if-match:list",), 200),
    (("if-match:bare",), 200),
    (("if-none-match:same",), 304),
    (("if-none-match:other",), 200),
    (("if-none-match:any",), 304),
    (("if-none-match:list",), 304),
    (("if-modified-since:before",), 200),
    (("if-modified-since:then",), 304),
    (("if-modified-since:nonsense",), 200),
    (("if-unmodified-since:before",), 412),
    (("if-unmodified-since:then",), 200),
    (("if-unmodified-since:after",), 200),
    (("if-unmodified-since:nonsense",), 200),
    # If-Match decides over If-Unmodified-Since, If-None-Match over If-Modified-Since.
    (("if-match:same", "if-unmodified-since:before"), 200),
    (("if-match:other", "if-unmodified-since:after"), 412),
    (("if-none-match:same", "if-modified-since:before"), 304),
    (("if-none-match:other", "if-modified-since:then"), 200),
    (("if-none-match:same", "if-modified-since:then"), 304),
    (("if-match:same", "if-none-match:same"), 304),
    (("if-match:other", "if-none-match:same"), 412),
    (("if-match:same", "if-modified-since:then"), 304),
    (("if-unmodified-since:before", "if-none-match:same"), 412),
]
# What Quirk.CONDITIONS_ONE_BY_ONE makes of some of them.
ONE_BY_ONE: dict[tuple[str, ...], int] = {
    ("if-match:same", "if-unmodified-since:before"): 412,
    ("if-none-match:other", "if-modified-since:then"): 304,
    ("if-match:other", "if-none-match:same"): 304,
    ("if-unmodified-since:before", "if-none-match:same"): 304,
}


@pytest.mark.parametrize(
    ("names", "status"), CASES, ids=lambda value: "+".join(value) if isinstance(value, tuple) else ""
)
async def test_conditions_of_a_read(origin: Subject, names: tuple[str, ...], status: int) -> None:
    kept = await origin.put(BODY)
    conditions = [header(name, kept) for name in names]
    if origin.has(Quirk.CONDITIONS_ONE_BY_ONE):
        status = ONE_BY_ONE.get(names, status)
    for method in ("GET", "HEAD"):
        answer = await origin.ask(method, kept.key, conditions)
        assert answer.status == status, method
        if status == 304:
            assert (answer.headers["ETag"], answer.body) == (kept.etag, b"")
        elif status == 200 and method == "GET":
            assert answer.body == BODY
        elif method == "GET":
            assert code(answer) == "PreconditionFailed"


async def test_a_condition_is_judged_before_the_range(origin: Subject) -> None:
    kept = await origin.put(BODY)
    beyond = ("Range", "bytes=100-")
    assert (await origin.get(kept.key, beyond, ("If-Match", OTHER))).status == 412
    assert (await origin.get(kept.key, beyond, ("If-None-Match", kept.etag))).status == 304
    pinned = await origin.get(kept.key, ("Range", "bytes=2-3"), ("If-Match", kept.etag))
    assert (pinned.status, pinned.body) == (206, b"23")


@pytest.mark.parametrize(("value", "status"), [("same", 206), ("other", 200), ("then", 206), ("before", 200)])
async def test_if_range(origin: Subject, value: str, status: int) -> None:
    kept = await origin.put(BODY)
    if origin.has(Quirk.IGNORES_IF_RANGE):
        status = 206
    answer = await origin.get(kept.key, ("Range", "bytes=2-3"), header(f"if-range:{value}", kept))
    assert answer.status == status
    assert answer.body == (b"23" if status == 206 else BODY)


async def test_condition_on_a_missing_object(origin: Subject) -> None:
    for name in ("If-Match", "If-None-Match"):
        assert (await origin.get("no-such-key", (name, OTHER))).status == 404


async def test_put_if_none_match(origin: Subject) -> None:
    kept = await origin.put(BODY)
    again = await origin.ask("PUT", kept.key, [("If-None-Match", "*")], b"other")
    assert (again.status, code(again)) == (412, "PreconditionFailed")
    assert (await origin.get(kept.key)).body == BODY
    fresh = await origin.ask("PUT", f"{kept.key}-fresh", [("If-None-Match", "*")], b"other")
    assert fresh.status == 200


async def test_put_if_match(origin: Subject) -> None:
    kept = await origin.put(BODY)
    wrong = await origin.ask("PUT", kept.key, [("If-Match", OTHER)], b"other")
    if origin.has(Quirk.NO_PUT_IF_MATCH):
        assert wrong.status == 501
        return
    assert (wrong.status, code(wrong)) == (412, "PreconditionFailed")
    assert (await origin.ask("PUT", kept.key, [("If-Match", kept.etag)], b"other")).status == 200
    assert (await origin.get(kept.key)).body == b"other"


async def test_delete_if_match(origin: Subject) -> None:
    kept = await origin.put(BODY)
    wrong = await origin.ask("DELETE", kept.key, [("If-Match", OTHER)])
    assert wrong.status == (501 if origin.has(Quirk.NO_DELETE_IF_MATCH) else 412)
    assert (await origin.get(kept.key)).status == 200
    if origin.has(Quirk.NO_DELETE_IF_MATCH):
        return
    assert (await origin.ask("DELETE", kept.key, [("If-Match", kept.etag)])).status == 204
    assert (await origin.get(kept.key)).status == 404
