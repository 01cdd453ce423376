"""The examples of docs/semantics.md are run: each is a doctest, with a Forebay and an origin of its own.

The names that the page explains (`s3`, `elsewhere`, `later`, ...) are made here.
"""

import asyncio
import doctest
import re
import shlex
import sys
from collections.abc import Callable, Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import pytest

from forebay_client.cli.command_context import Screen, process_context
from forebay_client.cli.main import main
from harness.background_work import wait_settled
from harness.clients import boto_client
from harness.fake.actions import FORBIDDEN, CloseAfter
from harness.fake_origin import FakeOrigin
from harness.reference_sigv4 import Secret
from harness.rig import READER, TRAINER, Rig

PAGE: Final = (Path(__file__).parents[2] / "docs" / "semantics.md").read_text()
BLOCKS: Final = re.findall(r"^```(\w+)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
RULES: Final = "".join(text for language, text in BLOCKS if language == "toml")
SECTIONS: Final = {
    title: re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    for title, text in re.findall(r"^## (.*?)\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
}
WITHOUT_EXAMPLE: Final = {"Tenets", "Promises", "The examples", "What is not promised"}
PARTNER, PARTNER_THERE = Secret("partner", "partner-secret"), Secret("partner-there", "partner-secret-there")
OURS: Final = Secret("forebay-there", "forebay-secret-there")
FLAGS: Final = doctest.ELLIPSIS | doctest.IGNORE_EXCEPTION_DETAIL


class Stage:
    """What an example can use. Its methods are called in the example's thread."""

    def __init__(self, rig: Rig, origin: FakeOrigin, loop: asyncio.AbstractEventLoop) -> None:
        self._rig, self._origin, self._loop = rig, origin, loop
        self._clients: list[Any] = []

    def _in_loop(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(timeout=60)

    def _client(self, endpoint: str, secret: Secret) -> Any:
        client = boto_client(endpoint, secret)
        self._clients.append(client)
        return client

    def _post(self, path: str, body: bytes) -> bytes:
        async def post() -> bytes:
            answer = await self._rig.client().request("POST", path, (), body)
            assert (answer.status, answer.aborted) == (200, False), answer.body
            return answer.body

        return asyncio.run_coroutine_threadsafe(post(), self._loop).result(timeout=60)

    def _settle(self) -> None:
        self._in_loop(wait_settled(self._rig, self._origin))

    def _restart(self) -> Any:
        self._in_loop(self._rig.restart())
        return self._client(self._rig.endpoint, TRAINER)

    def _deny(self, access_key: str) -> None:
        signed = f"Credential={access_key}/"
        self._origin.faults.add(FORBIDDEN, where=lambda asked: signed in asked.headers.get("Authorization", ""))

    def _break_off(self, key: str, *, after: int) -> None:
        self._origin.faults.add(CloseAfter(after), method="GET", key=key)

    def _go_away(self) -> None:
        async def away() -> None:
            await self._origin.refuse()
            self._origin.disconnect(idle_only=False)

        self._in_loop(away())

    def _forebay(self, line: str) -> None:
        around = replace(
            process_context(),
            screen=Screen(sys.stdout, sys.stdout, is_terminal=False),
            environ={"FOREBAY_ADMIN": urlsplit(self._rig.admin).netloc},
        )
        code = main(shlex.split(line), around)
        assert code == 0, code

    def names(self) -> dict[str, object]:
        """The names of an example."""
        return {
            "s3": self._client(self._rig.endpoint, TRAINER),
            "reader": self._client(self._rig.endpoint, READER),
            "partner": self._client(self._rig.endpoint, PARTNER),
            "elsewhere": self._client(self._origin.endpoint, OURS),
            "cache": lambda answer: answer["ResponseMetadata"]["HTTPHeaders"]["x-forebay-cache"],
            "post": self._post,
            "settle": self._settle,
            "later": self._rig.advance_clock,
            "restart": self._restart,
            "origin_bytes": lambda: self._origin.log.bytes_sent,
            "origin_breaks_off": self._break_off,
            "origin_denies": self._deny,
            "origin_goes_away": self._go_away,
            "forebay": self._forebay,
        }

    def close(self) -> None:
        for client in self._clients:
            client.close()


def run(example: str, names: dict[str, object]) -> str:
    """What did not come out as the page says; empty if all did."""
    said: list[str] = []
    test = doctest.DocTestParser().get_doctest(example, names, "docs/semantics.md", "docs/semantics.md", 0)
    doctest.DocTestRunner(verbose=False, optionflags=FLAGS).run(test, out=said.append)
    return "".join(said)


async def check(example: str, directory: Path, change: Callable[[str], str] = lambda text: text) -> str:
    loop = asyncio.get_running_loop()
    journal = f'[journal]\npath = "{directory / "journal"}"\nsize = "64MiB"\n\n'
    rig_options = {"ssd": "256MiB", "rest": journal + RULES}
    origin = FakeOrigin(secrets=(OURS, PARTNER_THERE))
    async with origin, Rig(origin.endpoint, OURS, directory, **rig_options) as rig:
        origin.store.create_bucket("demo")
        stage = Stage(rig, origin, loop)
        try:
            return await asyncio.to_thread(run, change(example), stage.names())
        finally:
            await asyncio.to_thread(stage.close)


@pytest.mark.parametrize("title", [title for title, examples in SECTIONS.items() if examples])
async def test_the_examples_are_true(title: str, tmp_path: Path) -> None:
    for number, example in enumerate(SECTIONS[title]):
        wrong = await check(example, tmp_path / str(number))
        assert not wrong, wrong


def test_every_section_has_an_example() -> None:
    assert {title for title, examples in SECTIONS.items() if not examples} == WITHOUT_EXAMPLE


async def test_an_example_that_is_not_true_is_found(tmp_path: Path) -> None:
    """The runner itself: doctest must be looking at the output."""
    example = SECTIONS["x-forebay-cache"][0]
    assert "'miss')" in example
    assert "Expected:" in await check(example, tmp_path, lambda text: text.replace("'miss')", "'hit-ssd')", 1))
