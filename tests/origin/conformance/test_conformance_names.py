"""Odd keys: what goes in comes out, under that name and no other."""

import pytest

from harness.conformance import Subject, texts
from harness.quirks import Quirk

ODD = [
    "a//b",
    "/lead",
    "//",
    "trail/",
    "dot/../x",
    "./x",
    "..",
    "%2F",
    "a%2Fb",
    "%",
    "%25",
    "sp ace",
    " lead",
    "plus+plus",
    "ünï/çødé",
    "日本語",
    "e\u0301",
    "é",
    "🙂",
    "a?b",
    "a#b",
    "a&b=c",
    "a;b,c:d@e!$'()*",
    "~tilde",
    'quote"<tag>',
    "back\\slash",
    "x" * 1000,
]


@pytest.mark.parametrize("key", ODD)
async def test_an_odd_key(origin: Subject, key: str) -> None:
    body = f"this is {key}".encode()
    if key.startswith("/") and origin.has(Quirk.NO_LEADING_SLASH):
        assert (await origin.ask("PUT", key, (), body)).status == 400
        return
    kept = await origin.put(body, key)
    assert (await origin.get(key)).body == body
    listed = await origin.ask("GET", None, list_type="2", prefix=key)
    assert key in texts(listed, "Contents/Key")
    source = origin.target(key).partition("?")[0]
    copy = await origin.ask("PUT", "copied-from-odd", [("x-amz-copy-source", source)])
    assert copy.status == 200
    assert (await origin.get("copied-from-odd")).headers["ETag"] == kept.etag
    assert (await origin.ask("DELETE", key)).status == 204
    assert (await origin.get(key)).status == 404


async def test_neighbours_are_not_confused(origin: Subject) -> None:
    keys = ["n/a//b", "n/a/b", "n/a%2Fb", "n/a/../a/b", "n/a/b/", "n/A/b", "n/a+b", "n/a b"]
    for key in keys:
        await origin.put(key.encode(), key)
    for key in keys:
        assert (await origin.get(key)).body == key.encode()


async def test_too_long_a_key(origin: Subject) -> None:
    most = 1023 if origin.has(Quirk.NO_LEADING_SLASH) else 1024
    assert (await origin.ask("PUT", "k" * most, (), b"")).status == 200
    assert (await origin.ask("PUT", "k" * (most + 1), (), b"")).status == 400
