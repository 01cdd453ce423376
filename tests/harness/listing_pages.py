"""Listings compared: random queries of a bucket, and what of a page has a meaning.

The order of a page's scalar elements has none; an empty element is as good as a missing one; a continuation token is
opaque. All else counts: every element of every entry, the order of entries, every number.
"""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from random import Random
from urllib.parse import unquote
from xml.etree import ElementTree as Tree

from harness.clients import query_of
from harness.conformance import parsed
from harness.oss.oss_response import CONTINUATION_TOKENS
from harness.raw_connection import RawAnswer

Send = Callable[[str], Awaitable[RawAnswer]]
"""Sends a GET of a target."""

NAMES = (
    "a",
    "b",
    "bo",
    "d e",
    "d+e",
    "ä",
    "é",
    "~x",
    "*",
    "%25",
    "q&r",
    "<s>",
    "e\u0301",
    "\uffee",
    "\U0001f600",
    "Z",
    "_",
)


@dataclass(slots=True)
class ComparedPage:
    """The meaning of a page."""

    status: int
    scalars: dict[str, str] = field(default_factory=dict)
    contents: list[dict[str, str]] = field(default_factory=list)
    prefixes: list[str] = field(default_factory=list)


def compared(answer: RawAnswer) -> ComparedPage:
    """What of a page has a meaning."""
    page = ComparedPage(answer.status)
    if answer.status != 200:
        page.scalars["Code"] = parsed(answer).findtext("Code") or ""
        return page
    for each in parsed(answer):
        if each.tag == "Contents":
            page.contents.append(dict(_leaves(each, "")))
        elif each.tag == "CommonPrefixes":
            page.prefixes.append(each.findtext("Prefix") or "")
        elif each.tag in CONTINUATION_TOKENS:
            page.scalars[each.tag] = "opaque"
        elif each.text:
            page.scalars[each.tag] = each.text
    return page


def token_of(answer: RawAnswer) -> str:
    """The token for the next page. OSS encodes it where it encodes keys; no other has a percent sign."""
    return unquote(parsed(answer).findtext("NextContinuationToken") or "")


def _leaves(element: Tree.Element, path: str) -> Iterator[tuple[str, str]]:
    for each in element:
        if len(each):
            yield from _leaves(each, f"{path}{each.tag}/")
        else:
            yield f"{path}{each.tag}", each.text or ""


def random_key(random: Random) -> str:
    return "/".join(
        random.choice(NAMES) + str(random.randrange(4)) * random.randrange(2) for _ in range(random.randint(1, 3))
    )


def random_query(random: Random, keys: Sequence[str], *, oss: bool = False) -> dict[str, str]:
    """The parameters of a listing."""
    query: dict[str, str] = {}
    version = random.choice((1, 2))
    if version == 2:
        query["list-type"] = "2"
        if random.random() < 0.3:
            query["fetch-owner"] = random.choice(("true", "false"))
    somewhere = random.choice(keys) if keys else "a"
    if random.random() < 0.5:
        query["prefix"] = somewhere[: random.randint(0, len(somewhere))]
    if random.random() < 0.5:
        query["delimiter"] = random.choice(("/", "/", "/", "a", "é", "//", "b"))
    if random.random() < 0.4:
        start = random.choice((somewhere, random.choice(keys) if keys else "b", random_key(random), "", "\U0001f5ff"))
        query["marker" if version == 1 else "start-after"] = start
    if random.random() < 0.7:
        query["max-keys"] = str(
            random.choice((1, 1, 2, 3, 5, 7, 20, 1000) if oss else (0, 1, 2, 3, 5, 7, 20, 1000, 2000))
        )
    if oss or random.random() < 0.6:
        query["encoding-type"] = "url"
    return query


async def compare_pages(bucket: str, query: dict[str, str], ours: Send, origins: Send, pages: int = 4) -> list[str]:
    """Follows a listing on both sides and asserts that each page is the same. Returns x-forebay-cache of each."""
    left, right = dict(query), dict(query)
    sources = []
    for _ in range(pages):
        answer, expected = await ours(f"/{bucket}?{query_of(left)}"), await origins(f"/{bucket}?{query_of(right)}")
        sources.append(answer.headers.get("x-forebay-cache", ""))
        shown, wanted = compared(answer), compared(expected)
        assert shown == wanted, (query, left, sources, shown, wanted)
        if wanted.scalars.get("IsTruncated") != "true":
            break
        if "list-type" in query:
            left["continuation-token"], right["continuation-token"] = token_of(answer), token_of(expected)
        else:
            marker = parsed(expected).findtext("NextMarker")
            if marker is None:
                marker = parsed(expected).findall("Contents")[-1].findtext("Key") or ""
            if query.get("encoding-type") == "url":
                marker = unquote(marker)
            left["marker"] = right["marker"] = marker
    return sources
