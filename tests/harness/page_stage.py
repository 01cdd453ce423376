"""Examples of a page that are dialogues (doctest): each is run with a Forebay and an origin of its own.

A page explains the names that its examples use (`s3`, `elsewhere`, `later`, ...). They are made here.
"""

import asyncio
import doctest
import io
import re
import shlex
import sys
from collections.abc import Callable, Coroutine
from contextlib import redirect_stdout
from dataclasses import replace
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from forebay_client.cli.command_context import Screen, process_context
from forebay_client.cli.command_line import run_command_line
from harness.background_work import wait_settled
from harness.clients import boto_client
from harness.fake.actions import FORBIDDEN, CloseAfter
from harness.fake_origin import FakeOrigin
from harness.reference_sigv4 import Secret
from harness.rig import READER, TRAINER, Rig

PARTNER, PARTNER_THERE = Secret("partner", "partner-secret"), Secret("partner-there", "partner-secret-there")
OURS: Final = Secret("forebay-there", "forebay-secret-there")
FLAGS: Final = doctest.ELLIPSIS | doctest.IGNORE_EXCEPTION_DETAIL
_DOCS: Final = Path(__file__).parents[2] / "docs"
_SECTION: Final = re.compile(r"^## (.*?)\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
_PYTHON: Final = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_TOML: Final = re.compile(r"^```toml\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class PageStage:
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

    def _come_back(self) -> None:
        self._in_loop(self._origin.listen())

    def _forebay(self, line: str) -> None:
        around = replace(
            process_context(),
            screen=Screen(sys.stdout, sys.stdout, is_terminal=False),
            environ={"FOREBAY_ADMIN": urlsplit(self._rig.admin).netloc},
        )
        if code := run_command_line(shlex.split(line), around):
            print(f"exit code {code}")  # noqa: T201 # an example shows what is printed

    def _flush(self) -> None:
        with redirect_stdout(io.StringIO()) as said:
            self._forebay("flush s3://demo/saved/")
        assert "exit code" not in said.getvalue(), said.getvalue()

    def names(self) -> dict[str, object]:
        """The names of an example."""
        return {
            "s3": self._client(self._rig.endpoint, TRAINER),
            "reader": self._client(self._rig.endpoint, READER),
            "partner": self._client(self._rig.endpoint, PARTNER),
            "elsewhere": self._client(self._origin.endpoint, OURS),
            "cache": lambda answer: answer["ResponseMetadata"]["HTTPHeaders"]["x-forebay-cache"],
            "durable": lambda answer: answer["ResponseMetadata"]["HTTPHeaders"].get("x-forebay-durable"),
            "post": self._post,
            "settle": self._settle,
            "later": self._rig.advance_clock,
            "restart": self._restart,
            "origin_bytes": lambda: self._origin.log.bytes_sent,
            "origin_breaks_off": self._break_off,
            "origin_comes_back": self._come_back,
            "origin_denies": self._deny,
            "origin_goes_away": self._go_away,
            "flush": self._flush,
            "forebay": self._forebay,
        }

    def close(self) -> None:
        for client in self._clients:
            client.close()


class PageDialogues:
    """The examples of `docs/<page>`: the rules of `front` and its own, and the dialogues of each section."""

    def __init__(self, page: str, front: str | None = None) -> None:
        text = (_DOCS / page).read_text()
        self._page = f"docs/{page}"
        rules = _TOML.findall((_DOCS / front).read_text()) if front is not None else []
        self._rules = "".join([*rules, *_TOML.findall(text)])
        self.sections = {title: _PYTHON.findall(section) for title, section in _SECTION.findall(text)}

    @property
    def with_examples(self) -> list[str]:
        return [title for title, examples in self.sections.items() if examples]

    @property
    def without_examples(self) -> set[str]:
        return {title for title, examples in self.sections.items() if not examples}

    async def check(self, example: str, directory: Path, change: Callable[[str], str] = lambda text: text) -> str:
        """Runs an example. Returns what did not come out as the page says; empty if all did."""
        loop = asyncio.get_running_loop()
        journal = f'[journal]\npath = "{directory / "journal"}"\nsize = "64MiB"\n\n'
        rig_options = {"ssd": "256MiB", "rest": journal + self._rules}
        origin = FakeOrigin(secrets=(OURS, PARTNER_THERE))
        async with origin, Rig(origin.endpoint, OURS, directory, **rig_options) as rig:
            origin.store.create_bucket("demo")
            stage = PageStage(rig, origin, loop)
            try:
                return await asyncio.to_thread(self._run, change(example), stage.names())
            finally:
                await asyncio.to_thread(stage.close)

    def _run(self, example: str, names: dict[str, object]) -> str:
        said: list[str] = []
        test = doctest.DocTestParser().get_doctest(example, names, self._page, self._page, 0)
        doctest.DocTestRunner(verbose=False, optionflags=FLAGS).run(test, out=said.append)
        return "".join(said)
