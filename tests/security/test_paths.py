"""Paths: what is authorised, what the origin is asked for and what the tiers keep is one and the same object.

Awkward buckets, keys and copy sources, generated, through a whole Forebay; what it then asked is read in the origin's
log, and what it kept in its tiers and on its disk. A key is never a path: nothing outside the cache's directory comes
into being, and no file anywhere bears a name that a client chose.
"""

import asyncio
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from urllib.parse import quote, unquote

from hypothesis import given
from hypothesis import strategies as st

from forebay.core.names import ObjectName
from forebay.protocol.header_map import Headers
from harness.clients import RawClient
from harness.fake_origin import FakeOrigin
from harness.reference_sigv4 import Secret
from harness.rig import TRAINER, Rig
from security.scale import fuzzed

KEEPER: Final = Secret("keeper", "keeper-secret")
"""May do everything under mine/ of the bucket `own`, and nothing else."""
_KEYS: Final = """
[[auth.keys]]
id = "keeper"
secret = "keeper-secret"
grants = [{ path = "own/mine/**", allow = ["read", "write", "list", "delete"] }]
"""
_PIECES: Final = (
    *(
        "..",
        ".",
        "/",
        "//",
        "\\",
        "%2F",
        "%2f",
        "%252F",
        "%2E%2E",
        "%00",
        "?",
        "#",
        "&",
        "=",
        "+",
        " ",
        ";",
        ":",
        "@",
        "*",
        "~",
    ),
    *(
        "own",
        "mine",
        "other",
        "etc/passwd",
        "a",
        "ä",
        "日",
        "\u202e",
        "\x01",
        "\x7f",
        "%",
        "%%",
        "%zz",
        "\r\n",
        "\n",
        "'",
        '"',
        "<",
        "$",
        "|",
    ),
    *("forebay.toml", "ssd", "../..", "/../", "/./", "C:", "{}", "versionId=1", "?acl", "\ud7ff", "\uffff", "🜁"),
)
_texts: Final = st.lists(st.sampled_from(_PIECES), min_size=1, max_size=8).map("".join)
_keys: Final = st.one_of(
    _texts,
    _texts.map(lambda text: f"mine/{text}"),
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=40),
)
# As a client could spell it: properly, hardly at all, or twice over.
_spellings: Final = st.sampled_from(("proper", "all", "raw", "twice"))


def _spelt(text: str, how: str) -> str:
    match how:
        case "proper":
            return quote(text, safe="/~")
        case "all":
            return quote(text, safe="")
        case "twice":
            return quote(quote(text, safe=""), safe="/")
        case _:
            return "".join(each if " " < each < "\x7f" else quote(each, safe="") for each in text)


@contextmanager
def _running(directory: Path) -> Iterator[tuple[asyncio.Runner, Rig, FakeOrigin]]:
    """A Forebay with an SSD tier, for as many examples as there are."""
    with asyncio.Runner() as runner:
        origin = FakeOrigin()
        runner.run(origin.__aenter__())
        rig = Rig(origin.endpoint, origin.secret, directory / "within", ssd="256MiB", rest=_KEYS)
        runner.run(rig.start())
        try:
            for bucket in ("own", "other", "..", "mine"):
                origin.store.create_bucket(bucket)
            yield runner, rig, origin
        finally:
            runner.run(rig.stop())
            runner.run(origin.__aexit__(None, None, None))


def _files(directory: Path) -> set[str]:
    return {str(Path(root, name).relative_to(directory)) for root, _, names in os.walk(directory) for name in names}


def _cached(rig: Rig) -> set[ObjectName]:
    return {
        each.name
        for bucket in ("own", "other")
        for step in rig.parts.storage.tiers.memory.objects.listing(bucket, "")
        for each in step
    }


def _asked(origin: FakeOrigin) -> set[tuple[str | None, str | None]]:
    return {(seen.bucket, seen.key) for seen in origin.log.requests if seen.bucket is not None}


def _sources(headers: Headers) -> list[str]:
    return headers.getall("x-amz-copy-source", [])


def test_authorised_fetched_and_cached_names_agree(tmp_path: Path) -> None:
    with _running(tmp_path) as (runner, rig, origin):
        keeper, trainer = rig.client(KEEPER), rig.client(TRAINER)

        @given(
            _keys, _spellings, st.sampled_from(("own", "other", "own%2Fmine", "%2e%2e", "..", "own%00", "own;a", "OWN"))
        )
        @fuzzed(250)
        def example(key: str, how: str, bucket: str) -> None:
            runner.run(_reads_and_writes(keeper, trainer, rig, origin, f"/{bucket}/{_spelt(key, how)}"))

        example()
        runner.run(rig.wait_idle())
        names = {name.rpartition("/")[2] for name in _files(tmp_path)}
    within = _files(tmp_path)
    assert {Path(name).parts[0] for name in within} == {"within"}
    assert {Path(name).parts[1] for name in within} == {"forebay.toml", "access.log", "ssd", "state"}
    assert not any(piece in name for name in names for piece in ("passwd", "mine", "own", "ä", "日"))


async def _reads_and_writes(keeper: RawClient, trainer: RawClient, rig: Rig, origin: FakeOrigin, target: str) -> None:
    origin.log.reset()
    for method in ("GET", "PUT", "HEAD", "GET", "DELETE"):
        answer = await keeper.request(method, target, body=b"written" if method == "PUT" else b"")
        assert answer.status != 500, (target, answer.body)
        for bucket, key in _asked(origin):
            # Only what it may touch was asked for, whatever its target looked like.
            assert bucket == "own", target
            assert key is not None, target
            assert key.startswith("mine/"), target
    mine = _asked(origin)
    # Decoded once, and no more: the key is what the client spelt.
    assert mine <= {("own", unquote(target.removeprefix("/own/")))}, target
    stored = origin.store.bucket("own").keys_from("")
    assert not [key for key in stored if not key.startswith("mine/")]
    for bucket, key in mine:
        name = ObjectName(bucket or "", key or "")
        origin.store.put(name.bucket, name.key, b"kept")
        for _ in range(2):
            answer = await trainer.request("GET", target)
            assert (answer.status, answer.body) == (200, b"kept"), target
        assert name in _cached(rig)
        assert _asked(origin) == mine
        answer = await trainer.request("DELETE", target)
        assert answer.status == 204
        assert name not in _cached(rig)


def test_a_copy_source_is_one_object_for_everybody(tmp_path: Path) -> None:
    """Authorised is what the origin then reads: or nothing is asked at all."""
    with _running(tmp_path) as (runner, rig, origin):
        keeper = rig.client(KEEPER)
        sources = st.tuples(
            st.sampled_from(("", "/", "//", "%2F")),
            st.sampled_from(("own/", "other/", "own%2F", "..", "own/../other/")),
            _keys,
            _spellings,
        )

        @given(sources)
        @fuzzed(250)
        def example(source: tuple[str, str, str, str]) -> None:
            slash, bucket, key, how = source
            runner.run(_copies(keeper, origin, slash + bucket + _spelt(key, how)))

        example()


async def _copies(keeper: RawClient, origin: FakeOrigin, source: str) -> None:
    origin.log.reset()
    answer = await keeper.request("PUT", "/own/mine/copy", [("x-amz-copy-source", source)])
    assert answer.status != 500, source
    for seen in origin.log.requests:
        for told in _sources(seen.headers):
            assert told.startswith("own/mine/"), (source, told)
            assert unquote(told) == unquote(source.replace("+", " ")).removeprefix("/"), (source, told)
    for key in origin.store.bucket("own").keys_from(""):
        assert key.startswith("mine/")


def test_virtual_hosted_style_names_no_other_bucket(tmp_path: Path) -> None:
    """A Host is a second way to name a bucket: with domains and CNAMEs, and in every spelling."""
    with asyncio.Runner() as runner:
        origin = FakeOrigin()
        runner.run(origin.__aenter__())
        origin.store.create_bucket("own")
        server = (
            'domains = ["forebay.test", "deep.forebay.test"]\n'
            'cnames = { "cname.test" = "own", "other.forebay.test" = "other", "own.own.test" = "other" }'
        )
        rig = Rig(origin.endpoint, origin.secret, tmp_path, server=server, rest=_KEYS)
        runner.run(rig.start())
        hosts = st.lists(
            st.sampled_from(
                (
                    "own",
                    "other",
                    ".",
                    "forebay.test",
                    "cname.test",
                    "own.test",
                    "deep",
                    "-",
                    "_",
                    ":80",
                    ":",
                    "OWN",
                    "[::1]",
                    "127.0.0.1",
                    "/",
                    "%2e",
                    "..",
                )
            ),
            min_size=1,
            max_size=5,
        ).map("".join)

        @given(hosts, _keys)
        @fuzzed(150)
        def example(host: str, key: str) -> None:
            runner.run(_hosted(rig, origin, host, key))

        try:
            example()
        finally:
            runner.run(rig.stop())
            runner.run(origin.__aexit__(None, None, None))


async def _hosted(rig: Rig, origin: FakeOrigin, host: str, key: str) -> None:
    origin.log.reset()
    client = RawClient(rig.endpoint, KEEPER, host=host)
    answer = await client.request("GET", "/" + quote(key, safe="/~"))
    assert answer.status != 500, (host, key)
    for bucket, asked in _asked(origin):
        assert bucket == "own", (host, key)
        assert asked is not None, (host, key)
        assert asked.startswith("mine/"), (host, key)
