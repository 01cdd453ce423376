"""Open mode against web pages, in a real browser: Debian's chromium (`make browser` installs it)."""

import asyncio
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import pytest
from aiohttp import web

from harness.fake_origin import FakeOrigin
from harness.rig import Rig

CHROMIUM: Final = shutil.which("chromium")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed (make browser)")

DOMAIN: Final = "forebay.test"
"""A name that a browser gives no Fetch Metadata for, as it is neither secure nor this machine by its name."""
SCRIPT: Final = b"document.title = 'the script ran'"
PAGE: Final = b"""<!doctype html><title>an object</title><body>
<script>
document.title = 'the page ran'
fetch('/bucket/secret').then(answer => answer.text()).then(text => document.title = text)
</script>
"""
ATTACK: Final = """<!doctype html><title>attacking</title>
<script src="{forebay}/bucket/script.js"></script>
<img src="{forebay}/bucket/picture"><link rel="stylesheet" href="{forebay}/bucket/style">
<iframe src="{forebay}/bucket/page.html"></iframe>
<form id="form" method="post" enctype="multipart/form-data" action="{forebay}/bucket" target="frame">
<input name="key" value="posted"><input name="file" value="content"></form><iframe name="frame"></iframe>
<script>
const forebay = '{forebay}/bucket/'
const attempts = [
  fetch(forebay + 'no-cors', {{mode: 'no-cors'}}), fetch(forebay + 'cors'),
  fetch(forebay + 'put', {{method: 'PUT', body: 'content', mode: 'cors'}}),
  fetch(forebay + 'post', {{method: 'POST', body: 'content', mode: 'no-cors'}}),
]
document.getElementById('form').submit()
navigator.sendBeacon(forebay + 'beacon', 'content')
Promise.allSettled(attempts).then(() => document.body.append('attempted'))
</script>
"""


@asynccontextmanager
async def attacker(forebay: str) -> AsyncIterator[str]:
    """The URL of a page, on another port of this machine, that has the browser send what a page can."""

    async def answer(_request: web.BaseRequest) -> web.Response:
        return web.Response(text=ATTACK.format(forebay=forebay), content_type="text/html")

    runner = web.ServerRunner(web.Server(answer))
    await runner.setup()
    await (site := web.TCPSite(runner, "127.0.0.1", 0)).start()
    assert site._server is not None  # noqa: SLF001 # how aiohttp shows the port that the system chose
    try:
        yield f"http://127.0.0.1:{site._server.sockets[0].getsockname()[1]}/"  # type: ignore[attr-defined] # noqa: SLF001 # as above
    finally:
        await runner.cleanup()


async def rendered(url: str, profile: Path) -> str:
    """The document that the browser has made of `url` after its scripts have ended."""
    assert CHROMIUM is not None
    browser = await asyncio.create_subprocess_exec(
        CHROMIUM,
        "--headless",
        "--no-sandbox",  # chromium refuses to run as root with one
        "--disable-gpu",
        "--no-proxy-server",
        "--no-first-run",
        f"--user-data-dir={profile}",
        f"--host-resolver-rules=MAP {DOMAIN} 127.0.0.1",
        "--virtual-time-budget=10000",
        "--dump-dom",
        url,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        output, _ = await asyncio.wait_for(browser.communicate(), 60)
    finally:
        if browser.returncode is None:
            browser.kill()
            await browser.wait()
    return output.decode()


@asynccontextmanager
async def open_rig(directory: Path) -> AsyncIterator[tuple[Rig, FakeOrigin]]:
    async with FakeOrigin() as origin:
        rig = Rig(origin.endpoint, origin.secret, directory, server=f'domains = ["{DOMAIN}"]')
        keys = rig.configuration[rig.configuration.index("[[auth.keys]]") :]
        rig.configuration = rig.configuration.replace(keys, '[auth]\nmode = "open"\n')
        async with rig:
            origin.store.put("bucket", "page.html", PAGE, content_type="text/html")
            origin.store.put("bucket", "script.js", SCRIPT, content_type="text/javascript")
            origin.store.put("bucket", "text.js", SCRIPT, content_type="text/plain")
            for key in ("picture", "style", "no-cors", "cors", "secret"):
                origin.store.put("bucket", key, b"the secret")
            yield rig, origin


def objects_read(origin: FakeOrigin) -> list[str | None]:
    """The keys that the origin was asked for."""
    return [each.key for each in origin.log.requests if each.bucket is not None]


async def test_page_of_another_origin_reaches_nothing(tmp_path: Path) -> None:
    async with open_rig(tmp_path) as (rig, origin), attacker(rig.endpoint) as url:
        document = await rendered(url, tmp_path / "profile")
        assert "attempted" in document
        assert "the script ran" not in document
        assert objects_read(origin) == []
        await rig.stop()
        lines = rig.access_lines()
        assert len(lines) >= 8
        assert all('"error":"AccessDenied"' in line or '"method":"OPTIONS"' in line for line in lines), lines


async def test_object_is_no_page_of_a_browser(tmp_path: Path) -> None:
    async with open_rig(tmp_path) as (rig, origin):
        document = await rendered(f"{rig.endpoint}/bucket/page.html", tmp_path / "profile")
        assert "AccessDenied" in document
        assert objects_read(origin) == []


async def test_object_opened_without_fetch_metadata_is_sandboxed(tmp_path: Path) -> None:
    async with open_rig(tmp_path) as (rig, origin):
        url = f"http://{DOMAIN}:{rig.worker.address[1]}/bucket/page.html"
        for _ in range(2):  # a miss, and a hit of the fast lane
            document = await rendered(url, tmp_path / "profile")
            assert "<title>an object</title>" in document
        assert objects_read(origin) == ["page.html"]
