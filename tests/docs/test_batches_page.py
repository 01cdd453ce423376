"""The examples of docs/batches.md are run against a Forebay of their own: curl and tar, and Python's tarfile."""

import asyncio
import os
import re
import shutil
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import boto3
import pytest

from forebay.policy.batch_window import MAX_BYTES, MAX_ENTRIES
from forebay.protocol.batch import tar_entries
from forebay.protocol.batch.batch_request import MAX_BODY, MAX_KEYS
from forebay.request.batch.entry_reply import HELD_SIZE
from forebay_client import BatchKey, Client
from forebay_client.batch.key_groups import GROUP
from harness.fake_origin import FakeOrigin
from harness.rig import TRAINER, Rig

PAGE: Final = (Path(__file__).parents[2] / "docs" / "batches.md").read_text()


def example(language: str) -> str:
    [found] = re.findall(rf"^```{re.escape(language)}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    return str(found)


@asynccontextmanager
async def rig_with_samples(directory: Path) -> AsyncIterator[Rig]:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, directory) as rig:
        origin.store.put("demo", "train/0001.jpg", b"first")
        origin.store.put("demo", "train/0002.jpg", b"second")
        yield rig


@pytest.mark.skipif(shutil.which("curl") is None or shutil.which("tar") is None, reason="needs curl and GNU tar")
async def test_curl_and_tar_read_a_batch(tmp_path: Path) -> None:
    (tmp_path / "samples").mkdir()
    async with rig_with_samples(tmp_path / "rig") as rig:
        environment = {
            "PATH": os.environ["PATH"],
            "AWS_ACCESS_KEY_ID": TRAINER.access,
            "AWS_SECRET_ACCESS_KEY": TRAINER.secret,
            "AWS_ENDPOINT_URL": rig.endpoint,
        }
        command = ["bash", "-e", "-o", "pipefail", "-c", example("sh")]
        ran = await asyncio.to_thread(
            subprocess.run, command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        assert (ran.returncode, ran.stderr) == (0, "")
    files = {str(file.relative_to(tmp_path / "samples")): file for file in (tmp_path / "samples").rglob("*.jpg")}
    assert {name: file.read_bytes() for name, file in files.items()} == {
        "train/0001.jpg": b"first",
        "train/0002.jpg": b"seco",
        ".forebay/errors/train/gone.jpg": b"",
    }


async def test_tarfile_reads_a_batch_as_it_comes(tmp_path: Path) -> None:
    printed: list[tuple[object, ...]] = []
    async with rig_with_samples(tmp_path) as rig:
        session = boto3.Session(TRAINER.access, TRAINER.secret)
        names = {"endpoint": rig.endpoint, "session": session, "print": lambda *words: printed.append(words)}
        code = compile(example("python"), "docs/batches.md", "exec")
        await asyncio.to_thread(exec, code, names)
    assert printed == [("read", "train/0001.jpg", 5), ("cannot read", "train/gone.jpg", "NoSuchKey")]


async def test_the_client_reads_a_batch(tmp_path: Path) -> None:
    printed: list[tuple[object, ...]] = []
    async with rig_with_samples(tmp_path) as rig:
        with Client(rig.endpoint, access_key=TRAINER.access, secret_key=TRAINER.secret) as client:
            names = {"client": client, "BatchKey": BatchKey, "print": lambda *words: printed.append(words)}
            await asyncio.to_thread(exec, compile(example("python client"), "docs/batches.md", "exec"), names)
            assert (client.stats.requests, client.stats.fallbacks) == ({"http": 1}, {})
    assert printed == [
        (0, "train/0001.jpg", b"first", None),
        (1, "train/0002.jpg", b"seco", None),
        (2, "train/gone.jpg", None, "NoSuchKey"),
    ]


def test_the_page_names_the_bounds_of_the_code() -> None:
    assert f"at most {MAX_KEYS:,} entries" in PAGE
    assert f"at most {MAX_BODY >> 20} MiB" in PAGE
    assert f"up to {MAX_ENTRIES} at once" in PAGE
    assert f"{GROUP} keys a request" in PAGE
    assert f"{MAX_BYTES >> 20} MiB of them" in PAGE
    assert f"at most {HELD_SIZE >> 10} KiB for each object" in PAGE
    for record in (tar_entries.INDEX, tar_entries.KEY, tar_entries.STATUS, tar_entries.CODE, tar_entries.MESSAGE):
        assert f"`{record}`" in PAGE
