"""The reads of the fault matrix, as data: what is cached before, the request, and which answer is right."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from random import Random
from typing import Final, Literal
from xml.etree import ElementTree as Tree

from faults.scene import BLOCK, STALE, Pairs, Scene, bytes_of
from forebay.core.byte_ranges import Span
from harness.conformance import parsed
from harness.fake.store import StoredObject
from harness.raw_connection import RawAnswer

SMALL: Final = Random(1).randbytes(1000)
LARGE: Final = Random(2).randbytes(5 * BLOCK + 17)
REPLACED: Final = Random(3).randbytes(5 * BLOCK + 400)
"""Another version, of another size."""


@dataclass(frozen=True, slots=True)
class Operation:
    """One row of the matrix. `prepare` runs with a healthy origin, `perform` with a failing one."""

    name: str
    effect: Literal["read", "write"]
    prepare: Callable[[Scene], Awaitable[None]]
    perform: Callable[[Scene], Awaitable[RawAnswer]]
    complaint: Callable[[Scene, RawAnswer], str]
    """What is wrong with an answer that looks like a complete success; empty if nothing is."""
    honest: frozenset[int] = frozenset({200})
    """The statuses that a healthy origin leads to; all of them are right at any time."""
    asks_origin: bool = True
    """Whether the origin is asked at all: a hit must succeed, whatever the fault."""
    may_break: bool = False
    """Whether it may be broken off once by an honest origin: the object was replaced, and bytes of it had left."""
    passes_on: bool = False
    """Whether the origin's answer is relayed as it is, rather than read as an object's."""
    is_known: bool = False
    """Whether the origin's version is known already, so that its size can't be another."""
    is_of_object: bool = True
    """Of a read: whether its answer is an object's bytes or its head."""
    sends_body: bool = False
    answers_etag: bool = False
    """Of a write: whether its answer has the ETag of what was written."""
    oss: bool = False
    """Whether it is sent in OSS's dialect."""
    origins: frozenset[str] = frozenset({"s3", "oss"})
    """The origins that know it."""

    @property
    def answers_nothing(self) -> bool:
        """Whether a success has no body."""
        return 204 in self.honest or self.answers_etag or self.name.startswith("HEAD")


def document_of(answer: RawAnswer) -> Tree.Element | None:
    """The document of an answer, names without namespaces; None for what is none, which each client sees."""
    try:
        return parsed(answer)
    except Tree.ParseError:
        return None


def is_of(etag: str | None, expected: str) -> bool:
    """OSS writes ETags in capitals."""
    return etag is not None and etag.lower() == expected.lower()


def object_complaint(scene: Scene, answer: RawAnswer, *, span: Span | None = None, bodiless: bool = False) -> str:
    """What is wrong with an object's bytes and head. Without an ETag the bytes are those of any version that may be
    answered."""
    etag = answer.headers.get("ETag")
    if etag is None:
        complaints = [_version_complaint(answer, each, span, bodiless) for each in scene.versions]
        return min(complaints, key=len, default="a success without an object")
    version = next((each for each in scene.versions if is_of(etag.removeprefix("W/"), each.etag)), None)
    if version is None:
        return f"an ETag that may not be answered: {etag}"
    return _version_complaint(answer, version, span, bodiless)


def _version_complaint(answer: RawAnswer, version: StoredObject, span: Span | None, bodiless: bool) -> str:
    body = bytes_of(version)
    if answer.status == 206:
        clipped = Span(0, len(body)) if span is None else span.clip(Span(0, len(body)))
        said = answer.headers.get("Content-Range", "")
        if said not in {f"bytes {clipped.start}-{clipped.stop - 1}/{total}" for total in (len(body), "*")}:
            return f"another range: {said}"
        body = body[clipped.start : clipped.stop]
    elif answer.status != 200:
        return f"a success of another kind: {answer.status}"
    if bodiless:
        announced = answer.headers.get("Content-Length")
        return "" if announced in {None, str(len(body))} else f"another size: {announced} for {len(body)}"
    if answer.headers.get("Content-Encoding"):
        return "a coding that the object lacks"
    return "" if answer.body == body else f"wrong bytes: {len(answer.body)} for {len(body)}"


async def _cold(scene: Scene, body: bytes = LARGE) -> None:
    scene.versions = [scene.put(body)]


async def _cold_small(scene: Scene) -> None:
    await _cold(scene, SMALL)


async def _cold_empty(scene: Scene) -> None:
    await _cold(scene, b"")


async def _missing(scene: Scene) -> None:
    scene.origin.store.create_bucket(scene.bucket)


async def _head_known(scene: Scene) -> None:
    await _cold(scene)
    await scene.read_into_cache(method="HEAD")


async def _first_block_cached(scene: Scene) -> None:
    await _cold(scene)
    await scene.read_into_cache(("Range", "bytes=0-9"))


async def _last_block_cached(scene: Scene) -> None:
    await _cold(scene)
    await scene.read_into_cache(("Range", f"bytes={5 * BLOCK}-"))


async def _cached(scene: Scene) -> None:
    await _cold(scene)
    await scene.read_into_cache()


async def _cached_small(scene: Scene) -> None:
    await _cold_small(scene)
    await scene.read_into_cache()
    await scene.read_into_cache()  # with a prepared response from here on


async def _stale(scene: Scene) -> None:
    await _cached(scene)
    scene.rig.advance_clock(STALE)


async def _stale_and_replaced(scene: Scene) -> None:
    await _stale(scene)
    scene.versions = [scene.put(REPLACED)]


async def _replaced_unseen(scene: Scene) -> None:
    """Fresh by the rule, replaced at the origin, and only the first block is cached."""
    await _first_block_cached(scene)
    scene.versions.append(scene.put(REPLACED))


async def _always_replaced(scene: Scene) -> None:
    scene.key = "always/key"
    await _cached(scene)
    scene.versions = [scene.put(REPLACED)]


async def _plain(scene: Scene) -> None:
    scene.key = "plain/key"
    await _cold(scene)


async def _versioned(scene: Scene) -> None:
    scene.origin.store.create_bucket(scene.bucket).versioning = "Enabled"
    scene.versions = [scene.put(LARGE)]
    scene.notes["version"] = scene.versions[0].version_id
    scene.put(SMALL)


async def _tagged(scene: Scene) -> None:
    await _cold_small(scene)


def _get(*headers: tuple[str, str], method: str = "GET", **query: str) -> Callable[[Scene], Awaitable[RawAnswer]]:
    async def perform(scene: Scene) -> RawAnswer:
        return await scene.client.request(method, scene.target(**query), headers)

    return perform


def _read(
    name: str,
    prepare: Callable[[Scene], Awaitable[None]],
    *headers: tuple[str, str],
    method: str = "GET",
    span: Span | None = None,
    honest: frozenset[int] | None = None,
    asks_origin: bool = True,
    may_break: bool = False,
    passes_on: bool = False,
    is_known: bool = False,
    **query: str,
) -> Operation:
    pairs: Pairs = headers if span is None else (*headers, ("Range", f"bytes={span.start}-{span.stop - 1}"))
    return Operation(
        name,
        "read",
        prepare,
        _get(*pairs, method=method, **query),
        lambda scene, answer: object_complaint(scene, answer, span=span, bodiless=method == "HEAD"),
        frozenset({200 if span is None else 206}) if honest is None else honest,
        asks_origin,
        may_break,
        passes_on,
        is_known,
    )


async def _get_version(scene: Scene) -> RawAnswer:
    return await scene.client.request("GET", scene.target(versionId=scene.notes["version"]))


async def _get_if_none_match(scene: Scene) -> RawAnswer:
    return await scene.get(("If-None-Match", _etag(scene)))


async def _get_if_match(scene: Scene) -> RawAnswer:
    return await scene.get(("If-Match", _etag(scene)))


def _etag(scene: Scene) -> str:
    etag = scene.versions[0].etag
    return etag.upper() if scene.has_oss_origin else etag


async def _oss_get(scene: Scene) -> RawAnswer:
    return await scene.oss.request("GET", scene.target())


async def _list(scene: Scene) -> RawAnswer:
    return await scene.client.request("GET", scene.bucket_target("list-type=2"))


async def _oss_list(scene: Scene) -> RawAnswer:
    return await scene.oss.request("GET", scene.bucket_target("list-type=2"))


def _listing_complaint(scene: Scene, answer: RawAnswer) -> str:
    tree = document_of(answer)
    if tree is None or tree.tag == "Error":
        return ""
    if tree.tag != "ListBucketResult":
        return f"no listing: {tree.tag}"
    found = [(each.findtext("Key"), each.findtext("Size")) for each in tree.iterfind("Contents")]
    expected = [(scene.key, str(version.size)) for version in scene.versions]
    return "" if found == expected else f"another listing: {found}"


async def _get_tags(scene: Scene) -> RawAnswer:
    return await scene.client.request("GET", scene.target(tagging=""))


def _tags_complaint(_scene: Scene, answer: RawAnswer) -> str:
    tree = document_of(answer)
    return "" if tree is None or tree.tag in {"Tagging", "Error"} else f"no tags: {tree.tag}"


def _suffix_complaint(scene: Scene, answer: RawAnswer) -> str:
    return object_complaint(scene, answer, span=Span(len(LARGE) - 1000, len(LARGE)))


MIDDLE: Final = Span(BLOCK + 100, 3 * BLOCK + 9)
BEYOND: Final = Span(len(LARGE) + 1000, len(LARGE) + 2000)

READS: Final[tuple[Operation, ...]] = (
    _read("GET small, cold", _cold_small),
    _read("GET large, cold", _cold),
    _read("GET large, head known", _head_known, is_known=True),
    _read("GET large, first block cached", _first_block_cached, is_known=True),
    _read("GET large, last block cached", _last_block_cached, is_known=True),
    _read("GET small, cached", _cached_small, asks_origin=False),
    _read("GET large, cached", _cached, asks_origin=False),
    _read("GET range, cached", _cached, span=MIDDLE, asks_origin=False),
    _read("HEAD, cached", _cached, method="HEAD", asks_origin=False),
    _read("GET large, stale", _stale, is_known=True),
    _read("GET large, stale and replaced", _stale_and_replaced),
    _read("GET large, replaced unseen", _replaced_unseen, may_break=True),
    _read("GET large, no-cache", _cached, ("Cache-Control", "no-cache"), is_known=True),
    _read("GET large, always, replaced", _always_replaced),
    _read("GET range, cold", _cold, span=MIDDLE),
    _read("GET range, stale", _stale, span=MIDDLE, is_known=True),
    Operation("GET suffix, cold", "read", _cold, _get(("Range", "bytes=-1000")), _suffix_complaint, frozenset({206})),
    _read("GET range beyond the end", _cold, span=BEYOND, honest=frozenset({416})),
    _read("GET empty, cold", _cold_empty),
    _read("GET missing", _missing, honest=frozenset({404})),
    _read("HEAD, cold", _cold, method="HEAD"),
    _read("HEAD, stale and replaced", _stale_and_replaced, method="HEAD"),
    _read("HEAD, stale", _stale, method="HEAD", is_known=True),
    _read("GET with overrides, cold", _cold, response_content_type="text/css"),
    _read("GET with checksums, cold", _cold, ("x-amz-checksum-mode", "ENABLED")),
    Operation(
        "GET If-None-Match, cold", "read", _cold, _get_if_none_match, object_complaint, frozenset({304}),
    ),
    Operation("GET If-Match, cold", "read", _cold, _get_if_match, object_complaint),
    Operation("GET version, cold", "read", _versioned, _get_version, object_complaint),
    _read("GET not accelerated", _plain, passes_on=True),
    _read("GET range, not accelerated", _plain, span=MIDDLE, passes_on=True),
    _read("HEAD, not accelerated", _plain, method="HEAD", passes_on=True),
    Operation("list", "read", _cold_small, _list, _listing_complaint, passes_on=True, is_of_object=False),
    Operation("get tags", "read", _tagged, _get_tags, _tags_complaint, passes_on=True, is_of_object=False),
    Operation("OSS GET large, cold", "read", _cold, _oss_get, object_complaint, oss=True),
    Operation("OSS GET large, stale", "read", _stale, _oss_get, object_complaint, oss=True, is_known=True),
    Operation("OSS list", "read", _cold_small, _oss_list, _listing_complaint, passes_on=True,
              is_of_object=False, oss=True),
)  # fmt: skip
