"""Policy: which rule applies, and that a reload changes the rules atomically or not at all."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from harness.clients import path_of
from harness.fake_origin import FakeOrigin
from harness.inspection import error_code
from harness.rig import READER, TRAINER, Rig

RULES = """
[[rules]]
path = "bucket/data/raw/**"
accelerate = false

[[rules]]
path = "bucket/data/**"
freshness = "immutable"

[[rules]]
path = "bucket/**"
accelerate = true
freshness = "always"
"""


async def cache_of(rig: Rig, key: str) -> str:
    return (await rig.client().request("GET", path_of("bucket", key))).headers["x-forebay-cache"]


async def put_config(rig: Rig, toml: str) -> tuple[int, Any]:
    async with (
        aiohttp.ClientSession() as session,
        session.put(f"{rig.admin}/v1/config", data=toml, headers={"Content-Type": "application/toml"}) as answer,
    ):
        return answer.status, await answer.json()


async def test_the_first_rule_that_sets_a_field_decides_it(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, rest=RULES) as rig:
        expected = {"data/raw/a": "bypass", "data/a": "hit-memory", "a": "revalidated"}
        for key, cache in expected.items():
            origin.store.put("bucket", key, b"x")
            await cache_of(rig, key)
            assert await cache_of(rig, key) == cache


@pytest.mark.parametrize("by_admin", [False, True], ids=["SIGHUP", "admin port"])
async def test_new_rules_apply_from_the_next_request(tmp_path: Path, by_admin: bool) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, rest=RULES) as rig:
        origin.store.put("bucket", "a", b"x")
        await cache_of(rig, "a")
        assert await cache_of(rig, "a") == "revalidated"
        for freshness, cache in (("immutable", "hit-memory"), ("always", "revalidated")):
            toml = rig.configuration.replace('"always"', f'"{freshness}"')
            if by_admin:
                status, _ = await put_config(rig, toml)
                assert status == 200
            else:
                (rig.directory / "forebay.toml").write_text(toml)
                await rig.worker.reload()
            assert await cache_of(rig, "a") == cache


WRONG: dict[str, Callable[[str], str]] = {
    "not TOML": lambda text: text + "\n[[[",
    "an unknown key": lambda text: text.replace("freshness", "freshnes", 1),
    "an impossible value": lambda text: text.replace('"always"', '"sometimes"'),
    "one wrong rule among right ones": lambda text: (
        text.replace('"always"', '"immutable"') + '\n[[rules]]\npath = ""\n'
    ),
    "a key twice": lambda text: text + '\n[[auth.keys]]\nid = "reader"\nsecret = "another"\ngrants = []\n',
    "nobody left": lambda text: re.sub(r"\[\[auth\.keys\]\](.|\n)*?\n\n(?=\[\[rules|\n)", "", text),
}


@pytest.mark.parametrize("by_admin", [False, True], ids=["SIGHUP", "admin port"])
@pytest.mark.parametrize("name", WRONG)
async def test_refused_configuration_changes_nothing(tmp_path: Path, name: str, by_admin: bool) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, rest=RULES) as rig:
        origin.store.put("bucket", "a", b"x")
        await cache_of(rig, "a")
        toml = WRONG[name](rig.configuration).replace("trainer-secret", "another-secret")
        assert toml != rig.configuration
        if by_admin:
            status, told = await put_config(rig, toml)
            assert 400 <= status < 500
            assert "another-secret" not in str(told)
        else:
            (rig.directory / "forebay.toml").write_text(toml)
            await rig.worker.reload()
        assert await cache_of(rig, "a") == "revalidated"
        assert (await rig.client(READER).request("GET", "/bucket/open/x")).status == 404


async def test_a_key_that_is_revoked_is_refused_on_the_connection_it_has(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path) as rig:
        origin.store.put("bucket", "open/key", b"x")
        client = rig.client(READER)
        async with await client.open() as connection:
            assert (await client.request("GET", "/bucket/open/key", connection=connection)).status == 200
            without = re.sub(r'\[\[auth\.keys\]\]\nid = "reader"\n.*\n.*\n', "", rig.configuration)
            assert "reader" not in without
            assert (await put_config(rig, without))[0] == 200
            answer = await client.request("GET", "/bucket/open/key", connection=connection)
            assert (answer.status, error_code(answer)) == (403, "InvalidAccessKeyId")
            answer = await rig.client(TRAINER).request("GET", "/bucket/open/key", connection=connection)
            assert answer.status == 200


async def test_revoked_grant_applies_to_cached_objects(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path) as rig:
        origin.store.put("bucket", "open/key", b"x")
        client = rig.client(READER)
        assert (await client.request("GET", "/bucket/open/key")).status == 200
        assert (await put_config(rig, rig.configuration.replace("*/open/**", "*/other/**")))[0] == 200
        answer = await client.request("GET", "/bucket/open/key")
        assert (answer.status, error_code(answer)) == (403, "AccessDenied")
