"""A hit is not a way in: whoever may not read an object learns nothing of it, not even that it is there.

Every way to ask, of an object in every state that the cache knows, by everybody who may not, through both lanes. Each
is asked of an object that exists and of one that doesn't, under names of one length, and the two answers are the same
but for the names, the ids and the time. Nobody's question reaches the origin either. How long an answer takes is not
looked at here.

In `make test` a plain GET and HEAD is asked in every place (a state and a lane), by everybody; a third of all else in
each, and everything in two places at least. `make forgery` asks everything everywhere.
"""

import itertools
import re
import time
from base64 import b64decode
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final
from zlib import crc32

import pytest

from forebay.server.fastpath.client_state import ClientState
from harness.clients import RawRequest
from harness.fake.store import md5_etag
from harness.fake_origin import FakeOrigin
from harness.inspection import cache_status
from harness.raw_connection import RawAnswer
from harness.reference_sigv4 import Secret
from harness.rig import READER, TRAINER, Rig
from harness.socket_rig import client_by, socket_setting
from security.oss_signers import ALL_SIGNERS, OSS_SIGNERS
from security.scale import SCALE
from security.signers import ENDLESS, SIGNERS, Form, Pairs, form_name

CONTENT: Final = b"the content of what is closed " * 50
ETAG: Final = md5_etag(CONTENT).strip('"')
COLOUR: Final = "the-colour-of-what-is-closed"
MODIFIED: Final = "Wed, 18 Nov 2026 10:00:00 GMT"
THERE, MISSING = "closed/there-1", "closed/wanted-"

REVOKED, NARROWED, NOBODY, COPIER = (
    Secret(name, f"{name}-secret") for name in ("revoked", "narrowed", "none", "copier")
)
_KEYS: Final = """
[[auth.keys]]
id = "none"
secret = "none-secret"
grants = []

[[auth.keys]]
id = "copier"
secret = "copier-secret"
grants = [{ path = "*/mine/**", allow = ["read", "write", "list", "delete"] }, { path = "*/open/**", allow = ["read"] }]
"""
_TO_BE_REVOKED: Final = """
[[auth.keys]]
id = "revoked"
secret = "revoked-secret"
grants = [{ path = "**", allow = ["read", "write", "list", "delete"] }]
"""
_TO_BE_NARROWED: Final = """
[[auth.keys]]
id = "narrowed"
secret = "narrowed-secret"
grants = [{ path = "%s", allow = ["read", "list"] }]
"""

STATES: Final[Mapping[str, str]] = {
    "miss": "miss",
    "memory, fresh": "hit-memory",
    "memory, stale": "revalidated",
    "ssd, fresh": "hit-ssd",
    "ssd, stale": "revalidated",
}

ASKED: Final[Mapping[str, tuple[str, Pairs]]] = {
    "get": ("GET", ()),
    "head": ("HEAD", ()),
    "range": ("GET", [("Range", "bytes=0-9")]),
    "range of a head": ("HEAD", [("Range", "bytes=0-9")]),
    "suffix": ("GET", [("Range", "bytes=-5")]),
    "beyond": ("GET", [("Range", "bytes=99999999-")]),
    "if none match": ("GET", [("If-None-Match", f'"{ETAG}"')]),
    "if none match, any": ("HEAD", [("If-None-Match", "*")]),
    "if match": ("GET", [("If-Match", f'"{ETAG}"')]),
    "if match, other": ("GET", [("If-Match", '"other"')]),
    "modified since": ("GET", [("If-Modified-Since", MODIFIED)]),
    "unmodified since": ("HEAD", [("If-Unmodified-Since", MODIFIED)]),
    "if range": ("GET", [("If-Range", f'"{ETAG}"'), ("Range", "bytes=0-9")]),
    "no cache": ("GET", [("Cache-Control", "no-cache")]),
    "checksums": ("HEAD", [("x-amz-checksum-mode", "ENABLED")]),
}
OSS_ASKED: Final[Mapping[str, tuple[str, Pairs]]] = {
    **{asked: said for asked, said in ASKED.items() if asked != "checksums"},
    "standard range": ("GET", [("Range", "bytes=0-9"), ("x-oss-range-behavior", "standard")]),
    "beyond, standard": ("GET", [("Range", "bytes=99999999-"), ("x-oss-range-behavior", "standard")]),
    "if match, unquoted": ("GET", [("If-Match", ETAG.upper())]),
}
OSS_QUERIES: Final = ("", "?objectMeta", "?versionId=null", "?response-content-type=text%2Fx", "?acl", "?tagging")
QUERIES: Final = ("", "?versionId=null", "?partNumber=1", "?response-content-type=text%2Fx", "?attributes", "?tagging")

BY_OTHER_WAYS: Final = [("memory, fresh", "full"), ("memory, fresh", "channel")]
"""States that are looked at in the full lane, and over the Unix socket's channels."""

PLACES: Final = [*((state, "fast") for state in STATES), *BY_OTHER_WAYS]
_SHARE: Final = 3

Ask = Callable[[str, str, Pairs], RawRequest]


ANONYMOUS_PLACES: Final = [*itertools.product(STATES, ("*/open/**", "*/closed/**"), ("fast", "full"))]


def _is_asked(place: int, asked: str, caller: str, query: str) -> bool:
    """Whether this is asked in the place with this number; see the module."""
    if SCALE > 1 or (asked in {"get", "head"} and not query):
        return True
    return crc32(f"{asked}/{caller}/{query}".encode()) % _SHARE == place % _SHARE


def _signed(secret: Secret, form: tuple[str, str] = ("SignedV4", "header"), ahead: float = 0) -> Ask:
    def ask(method: str, target: str, pairs: Pairs) -> RawRequest:
        return ALL_SIGNERS[form](secret, method, target, pairs, b"", time.time() + ahead, None)

    return ask


def _anonymous(method: str, target: str, pairs: Pairs) -> RawRequest:
    return RawRequest(method, target, (("Host", "forebay.test"), *pairs))


CALLERS: Final[Mapping[str, Ask]] = {
    "anonymous": _anonymous,
    "reader of another prefix": _signed(READER),
    "key without grants": _signed(NOBODY),
    "writer of another prefix": _signed(COPIER),
    "revoked by reload": _signed(REVOKED),
    "narrowed by reload": _signed(NARROWED),
    **{
        f"{how} {form_name(form)}": _signed(secret, form, ahead)
        for form in SIGNERS
        for how, secret, ahead in (
            ("unknown key", Secret("unknown", TRAINER.secret), 0),
            ("wrong secret", Secret(TRAINER.access, "wrong"), 0),
            ("expired", TRAINER, -10 * 86_400),
        )
    },
    **{
        f"skewed {form_name(form)}": _signed(TRAINER, form, 3 * 86_400)
        for form in SIGNERS
        if form != ("SignedV2", "query")
    },
}


def _anonymous_of_oss(method: str, target: str, pairs: Pairs) -> RawRequest:
    return _anonymous(method, target, [*pairs, ("x-oss-meta-a", "b")])


OSS_KNOWN: Final[Mapping[str, Ask]] = {
    f"{how} {form_name(form)}": _signed(secret, form)
    for form in (("SignedOssV1", "header"), ("SignedOssV4", "query"))
    for how, secret in (
        ("reader of another prefix", READER),
        ("key without grants", NOBODY),
        ("writer of another prefix", COPIER),
        ("revoked by reload", REVOKED),
        ("narrowed by reload", NARROWED),
    )
}
OSS_UNKNOWN: Final[Mapping[str, Ask]] = {
    "anonymous": _anonymous_of_oss,
    **{
        f"{how} {form_name(form)}": _signed(secret, form, ahead)
        for form in OSS_SIGNERS
        for how, secret, ahead in (
            ("unknown key", Secret("unknown", TRAINER.secret), 0),
            ("wrong secret", Secret(TRAINER.access, "wrong"), 0),
            ("expired", TRAINER, -10 * 86_400),
        )
    },
    **{f"skewed {form_name(form)}": _signed(TRAINER, form, 3 * 86_400) for form in OSS_SIGNERS if form not in ENDLESS},
}


def _plain(answer: RawAnswer, key: str) -> tuple[object, ...]:
    """An answer without what differs between any two: names, ids, times, and the hash of what was signed."""
    left_out = {"date", "x-amz-request-id", "x-oss-request-id", "x-oss-err"}
    kept = tuple(pair for pair in answer.pairs if pair[0].lower() not in left_out)
    # The document of a HEAD is told in a header.
    error = _plain_body(b64decode(answer.headers.get("x-oss-err", "")), key)
    return answer.status, kept, _plain_body(answer.body, key), error


def _plain_body(body: bytes, key: str) -> bytes:
    body = body.replace(key.encode(), b"KEY").replace(key.replace("/", "%2F").encode(), b"KEY")
    body = re.sub(rb"<RequestId>[^<]*<", b"<RequestId><", body)
    body = re.sub(
        rb"[0-9a-f]{64}|\d{8}T\d{6}Z|\d{4}-\d\d-\d\dT[\d:]{8}Z|\w{3}, \d\d \w{3} \d{4} [\d:]{8} GMT", b"#", body
    )
    body = re.sub(rb"x-oss-expires=\d{10}", b"#", body)
    return re.sub(rb"<StringToSign>(.*?)\d{10}\n", rb"<StringToSign>\1#\n", body, flags=re.DOTALL)


def _leaks(answer: RawAnswer) -> list[str]:
    """What of the object shows."""
    shown = answer.body + repr(answer.pairs).encode()
    marks = {"content": CONTENT[:12], "metadata": COLOUR.encode(), "its ETag": ETAG.encode()}
    return [what for what, mark in marks.items() if mark in shown]


@asynccontextmanager
async def _in_state(state: str, tmp_path: Path, more: str = "") -> AsyncIterator[tuple[Rig, FakeOrigin]]:
    """The object in that state, and the two keys revoked that could read it a moment ago."""
    ssd, rest = "256MiB" if state.startswith("ssd") else None, _KEYS + _TO_BE_REVOKED + _TO_BE_NARROWED % "**"
    rest += more
    settings = {"ssd": ssd, "rest": rest, "server": socket_setting(tmp_path)}
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, **settings) as rig:
        origin.store.put("bucket", THERE, CONTENT, content_type="text/secret", x_amz_meta_colour=COLOUR)
        origin.store.put("bucket", "open/small", b"open")
        if state != "miss":
            for secret in (REVOKED, NARROWED):
                for _ in range(2):
                    assert (await rig.client(secret).request("GET", f"/bucket/{THERE}")).body == CONTENT
            await rig.wait_idle()
        file = rig.directory / "forebay.toml"
        file.write_text(
            rig.configuration.replace(_TO_BE_REVOKED, "").replace(
                'path = "**", allow = ["read", "list"]', 'path = "*/open/**", allow = ["read", "list"]'
            )
        )
        rig.configuration = file.read_text()
        if state.startswith("ssd"):
            await rig.restart()
        else:
            await rig.worker.reload()
        if state.endswith("stale"):
            rig.advance_clock(3600)
        for secret in (TRAINER, READER):
            await _acquaint(rig, secret)
        origin.log.reset()
        yield rig, origin


async def _acquaint(rig: Rig, secret: Secret) -> None:
    """Have all these requests answered for another object, in every form, so that their shapes are known. How they are
    signed does not tell who will ask, nor for what."""
    lane = rig.worker.listener.reads.fast_lane
    assert lane is not None
    await rig.client(secret).request("GET", "/bucket/open/small")
    known, asked = set[Form](), {**ASKED, **OSS_ASKED}
    for form, sign in ALL_SIGNERS.items():
        for method, pairs in asked.values():
            wire, caller = (
                sign(secret, method, "/bucket/open/small", pairs, b"", time.time(), None).wire,
                ClientState("test"),
            )
            lane.answer(wire, caller)
            if caller.template is not None:
                known.add(form)
    assert known == ALL_SIGNERS.keys() - {("SignedOssV2", "query")}


_ANONYMOUS_GRANTS: Final = """
[auth.anonymous]
grants = [{ path = "%s", allow = ["read", "list"] }]
"""


@pytest.mark.parametrize("lane", ["fast", "full"])
@pytest.mark.parametrize("granted", ["*/open/**", "*/closed/**"], ids=["no grant", "the origin refuses"])
@pytest.mark.parametrize("state", STATES)
async def test_anonymous_reader_learns_nothing(tmp_path: Path, state: str, granted: str, lane: str) -> None:
    """With grants for another prefix nothing is looked up; with a grant for this one the origin answers, and what it
    refuses to anybody is not answered from the cache."""
    place = ANONYMOUS_PLACES.index((state, granted, lane))
    async with _in_state(state, tmp_path, _ANONYMOUS_GRANTS % granted) as (rig, origin):
        client = client_by(lane, rig)
        for ask, asked, queries in ((_anonymous, ASKED, QUERIES), (_anonymous_of_oss, OSS_ASKED, OSS_QUERIES)):
            for what, (method, pairs) in asked.items():
                for query in queries if what in {"get", "head"} else queries[:1]:
                    if not _is_asked(place, what, "anonymous", query):
                        continue
                    told = []
                    for key in (THERE, MISSING):
                        answer = await client.send(ask(method, f"/bucket/{key}{query}", pairs))
                        assert answer.status in {400, 403, 405, 501}, (what, query)
                        assert _leaks(answer) == [], (what, query)
                        told.append(_plain(answer, key))
                    assert told[0] == told[1], (what, query)
        reached = [seen for seen in origin.log.requests if seen.bucket is not None]
        assert bool(reached) == (granted == "*/closed/**")
        assert not any("Authorization" in seen.headers for seen in reached)
        assert (await client.request("GET", f"/bucket/{THERE}")).body == CONTENT


@pytest.mark.parametrize(("state", "lane"), PLACES)
async def test_unauthorised_reader_learns_nothing(tmp_path: Path, state: str, lane: str) -> None:
    place = PLACES.index((state, lane))
    async with _in_state(state, tmp_path) as (rig, origin):
        client = client_by(lane, rig)
        for asked, (method, pairs) in ASKED.items():
            for caller, ask in CALLERS.items():
                for query in QUERIES if asked in {"get", "head"} else QUERIES[:1]:
                    if not _is_asked(place, asked, caller, query):
                        continue
                    told = []
                    for key in (THERE, MISSING):
                        answer = await client.send(ask(method, f"/bucket/{key}{query}", pairs))
                        assert answer.status in {400, 403, 405}, (asked, caller, query)
                        assert _leaks(answer) == [], (asked, caller, query)
                        told.append(_plain(answer, key))
                    assert told[0] == told[1], (asked, caller, query)
        assert [seen for seen in origin.log.requests if seen.bucket is not None] == []
        # It was there all the time, in that state, for who may.
        answer = await client.request("GET", f"/bucket/{THERE}")
        assert (cache_status(answer), answer.body) == ((200, STATES[state]), CONTENT)


@pytest.mark.parametrize(("state", "lane"), PLACES)
async def test_unauthorised_oss_reader_learns_nothing(tmp_path: Path, state: str, lane: str) -> None:
    place = PLACES.index((state, lane))
    async with _in_state(state, tmp_path) as (rig, origin):
        client = client_by(lane, rig)
        for asked, (method, pairs) in OSS_ASKED.items():
            plain = asked in {"get", "head"}
            for caller, ask in {**OSS_KNOWN, **(OSS_UNKNOWN if plain else {})}.items():
                for query in OSS_QUERIES if plain and caller in OSS_KNOWN else OSS_QUERIES[:1]:
                    if not _is_asked(place, asked, caller, query):
                        continue
                    told = []
                    for key in (THERE, MISSING):
                        answer = await client.send(ask(method, f"/bucket/{key}{query}", pairs))
                        assert answer.status in {400, 403, 405, 501}, (asked, caller, query)
                        assert answer.headers["x-oss-request-id"]
                        assert _leaks(answer) == [], (asked, caller, query)
                        told.append(_plain(answer, key))
                    assert told[0] == told[1], (asked, caller, query)
                    if not query:
                        assert answer.status in {400, 403}, (asked, caller)
        assert [seen for seen in origin.log.requests if seen.bucket is not None] == []
        # It was there all the time, in that state, for who may.
        answer = await client.send(
            OSS_SIGNERS["SignedOssV4", "header"](TRAINER, "GET", f"/bucket/{THERE}", (), b"", time.time(), None)
        )
        assert (answer.status, answer.body) == (200, CONTENT)
        assert ETAG.upper() in answer.headers["ETag"]


@pytest.mark.parametrize("state", STATES)
async def test_nobody_reads_by_copying(tmp_path: Path, state: str) -> None:
    """A copy reads its source: who may not read that gets nothing, wherever it goes and however it is named."""
    async with _in_state(state, tmp_path) as (rig, origin):
        client = rig.client(COPIER)
        for source in ("/bucket/{}", "bucket/{}", "bucket%2F{}", "/bucket/{}?versionId=null", "bucket/mine/../{}"):
            for target in ("/bucket/mine/copy", "/bucket/mine/copy?partNumber=1&uploadId=u"):
                for more in ((), (("x-amz-copy-source-if-match", ETAG),), (("x-amz-copy-source-range", "bytes=0-9"),)):
                    told = []
                    for key in (THERE, MISSING):
                        named_source = source.format(key)
                        answer = await client.request("PUT", target, [("x-amz-copy-source", named_source), *more])
                        told.append(_plain(answer, key))
                        if ".." in source:
                            continue  # an odd key of their own: it is what it says, and not there
                        assert answer.status == 403
                        assert _leaks(answer) == []
                    assert told[0] == told[1]
        reached = [seen for seen in origin.log.requests if seen.bucket is not None]
        assert all("mine" in seen.headers.get("x-amz-copy-source", "") for seen in reached)
        assert origin.store.current("bucket", "mine/copy") is None


@pytest.mark.parametrize("form", [("SignedOssV1", "query"), ("SignedOssV4", "header")], ids=form_name)
async def test_nobody_reads_by_copying_in_the_words_of_oss(tmp_path: Path, form: tuple[str, str]) -> None:
    async with _in_state("memory, fresh", tmp_path) as (rig, origin):
        client, sign = rig.client(), OSS_SIGNERS[form]
        for source in ("/bucket/{}", "bucket/{}", "/bucket/{}?versionId=null"):
            for target in ("/bucket/mine/copy", "/bucket/mine/copy?partNumber=1&uploadId=u"):
                for more in ((), (("x-oss-copy-source-if-match", ETAG),), (("x-oss-copy-source-range", "bytes=0-9"),)):
                    told = []
                    for key in (THERE, MISSING):
                        pairs = [("x-oss-copy-source", source.format(key)), *more]
                        answer = await client.send(sign(COPIER, "PUT", target, pairs, b"", time.time(), None))
                        assert answer.status == 403, answer.body
                        assert _leaks(answer) == []
                        told.append(_plain(answer, key))
                    assert told[0] == told[1]
        assert [seen for seen in origin.log.requests if seen.bucket is not None] == []


def test_everything_is_asked_in_two_places_at_least() -> None:
    for callers, asked, queries in ((CALLERS, ASKED, QUERIES), ({**OSS_KNOWN, **OSS_UNKNOWN}, OSS_ASKED, OSS_QUERIES)):
        for cell in itertools.product(asked, callers, queries):
            assert sum(_is_asked(place, *cell) for place in range(len(PLACES))) >= 2, cell


async def test_a_listing_shows_no_more_than_the_prefix(tmp_path: Path) -> None:
    """Keys are told by listings too: every way to ask for one, by who may list another prefix."""
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, rest=_KEYS) as rig:
        for key in (THERE, "open/small", "openly/not"):
            origin.store.put("bucket", key, b"")
        client = rig.client(READER)
        prefixes = [
            "",
            "o",
            "open",
            "closed/",
            "closed/there-1",
            "/open/",
            "open/../",
            "OPEN/",
            "%6Fpen/",
            "open%2F",
            "op*n/",
        ]
        for prefix in prefixes:
            for query in (
                "list-type=2&prefix={}",
                "prefix={}",
                "prefix={}&versions=",
                "prefix={}&uploads=",
                "delimiter=%2F&prefix={}",
            ):
                answer = await client.request("GET", f"/bucket?{query.format(prefix)}")
                if prefix == "open%2F":
                    continue  # is open/, spelt in full
                assert answer.status in {400, 403}, (prefix, query, answer.body)
        for query in ("prefix=open/&prefix=closed/", "prefix=closed/&prefix=open/", "PREFIX=open/", "list-type=2", ""):
            answer = await client.request("GET", f"/bucket?{query}")
            assert answer.status in {400, 403}, query
        answer = await client.request("GET", "/bucket?list-type=2&prefix=open%2F")
        assert answer.status == 200
        assert b"open/small" in answer.body
        assert b"closed" not in answer.body
        assert b"openly" not in answer.body
