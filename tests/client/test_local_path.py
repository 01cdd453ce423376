"""Objects as paths: for what opens by name, for as long as it is open, and without a trace afterwards."""

import asyncio
import mmap
import os
import random
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import pytest

import forebay_client
from forebay_client import BodyCorrupt, Client, ConditionNotMet, InvalidRequest, ObjectNotFound
from harness.fake import actions
from harness.fake_origin import FakeOrigin
from harness.forked import in_a_fork
from structure.source_tree import ROOT

CONTENT: Final = random.Random(3).randbytes(40 << 20)
TORCH: Final = ROOT / ".clients" / "torch" / "bin" / "python"


@pytest.fixture
async def client() -> AsyncIterator[tuple[FakeOrigin, Client]]:
    async with FakeOrigin() as origin:
        secret = origin.secret
        with Client(origin.endpoint, access_key=secret.access, secret_key=secret.secret, socket="", retries=0) as made:
            yield origin, made


async def test_a_path_can_be_opened_as_often_as_one_likes(client: tuple[FakeOrigin, Client]) -> None:
    origin, reader = client
    origin.store.put("b", "dir/k.bin", CONTENT)

    def use() -> None:
        local = forebay_client.path("s3://b/dir/k.bin", client=reader)
        name = os.fspath(local)
        assert name.startswith("/proc/self/fd/")
        assert Path(name).read_bytes() == Path(name).read_bytes() == CONTENT
        assert in_a_fork(lambda: Path(name).stat().st_size) == len(CONTENT)
        with pytest.raises(OSError, match="not permitted"):
            os.pwrite(int(name.rpartition("/")[2]), b"x", 0)
        with Path(name).open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
            local.close()
            local.close()
            assert mapped[-10:] == CONTENT[-10:], "what is mapped stays"
        with pytest.raises(ValueError, match="closed"):
            os.fspath(local)

    await asyncio.to_thread(use)
    assert origin.log.count("GET") == 3  # pieces of 16 MiB


async def test_nothing_stays_open_when_it_fails(client: tuple[FakeOrigin, Client]) -> None:
    origin, reader = client
    origin.store.put("b", "k", b"content")
    await asyncio.to_thread(reader.head, "b", "k")
    before = sorted(os.listdir("/proc/self/fd"))  # noqa: PTH208 # the descriptors themselves
    for fault in (actions.Respond(404, "NoSuchKey"), actions.Respond(412, "PreconditionFailed")):
        origin.faults.clear()
        origin.faults.add(fault, method="GET")
        with pytest.raises((ObjectNotFound, ConditionNotMet)):
            await asyncio.to_thread(forebay_client.path, "s3://b/k", client=reader)
    assert sorted(os.listdir("/proc/self/fd")) == before  # noqa: PTH208 # likewise


@pytest.mark.parametrize("other", ["bytes=5-9", "bytes=0-4"])
async def test_another_range_or_less_of_it_makes_no_path(client: tuple[FakeOrigin, Client], other: str) -> None:
    origin, reader = client
    origin.store.put("b", "k", b"content of it")
    origin.faults.add(actions.AnotherRange(other), method="GET")
    with pytest.raises(BodyCorrupt):
        await asyncio.to_thread(forebay_client.path, "s3://b/k", client=reader)


async def test_an_object_that_is_replaced_meanwhile_is_read_again(client: tuple[FakeOrigin, Client]) -> None:
    origin, reader = client
    origin.store.put("b", "k", b"content")
    origin.faults.add(actions.Respond(412, "PreconditionFailed"), method="GET", times=1)
    with await asyncio.to_thread(forebay_client.path, "s3://b/k", client=reader) as name:
        assert await asyncio.to_thread(Path(name).read_bytes) == b"content"
    origin.store.put("b", "empty", b"")
    with await asyncio.to_thread(forebay_client.path, "s3://b/empty", client=reader) as name:
        assert await asyncio.to_thread(Path(name).read_bytes) == b""


def test_a_path_ends_silently_with_the_interpreter() -> None:
    """Whose modules may have lost their names by then."""
    program = (
        "import os\nfrom forebay_client import local_path\n"
        "kept = local_path.LocalPath('/dev/null', os.open('/dev/null', os.O_RDONLY))\n"
        "vars(local_path).update(dict.fromkeys(vars(local_path)))\n"
        "del kept\n"
    )
    paths = os.pathsep.join(str(ROOT / name) for name in ("client", "proxy"))
    answer = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, env={"PYTHONPATH": paths}, check=False
    )
    assert (answer.returncode, answer.stderr) == (0, b"")


@pytest.mark.parametrize("url", ["b/k", "s3://b", "s3://b/", "s3:///k", "http://b/k"])
def test_a_url_names_an_object(url: str) -> None:
    with pytest.raises(InvalidRequest, match="names no object"):
        forebay_client.path(url)


PROGRAM: Final = """
import sys
from pathlib import Path
import forebay_client
{hidden}
with forebay_client.path("s3://b/k") as name:
    assert Path(name).read_bytes() == b"content", name
    print(name)
print(Path(name).exists())
"""


def environment(origin: FakeOrigin) -> dict[str, str]:
    return {
        "PYTHONPATH": f"{ROOT / 'client'}:{ROOT / 'proxy'}",
        "AWS_ENDPOINT_URL_S3": origin.endpoint,
        "AWS_ACCESS_KEY_ID": origin.secret.access,
        "AWS_SECRET_ACCESS_KEY": origin.secret.secret,
        "AWS_CONFIG_FILE": "/none",
        "AWS_SHARED_CREDENTIALS_FILE": "/none",
    }


@pytest.mark.parametrize("hidden", ["import os; del os.memfd_create", "import os; del os.memfd_create, os.pwrite"])
async def test_without_memory_files_it_is_a_temporary_one(hidden: str) -> None:
    async with FakeOrigin() as origin:
        origin.store.put("b", "k", b"content")
        answer = await asyncio.to_thread(
            subprocess.run,
            [sys.executable, "-c", PROGRAM.format(hidden=hidden)],
            env=environment(origin),
            capture_output=True,
            text=True,
            check=False,
        )
    assert answer.returncode == 0, answer.stderr
    name, exists = answer.stdout.split()
    assert "forebay-" in name
    assert exists == "False"


LIBRARIES: Final = """
import importlib.util
import numpy, safetensors.torch, torch
import forebay_client
from forebay_client import Client

client = Client()
wanted = {"weight": torch.arange(100_000, dtype=torch.float32).reshape(100, 1000), "bias": torch.ones(7)}
safetensors.torch.save_file(wanted, "w.safetensors")
torch.save(wanted, "w.pt")
client.put_file("b", "w.safetensors", "w.safetensors")
client.put_file("b", "w.pt", "w.pt")

with forebay_client.path("s3://b/w.safetensors") as name:
    found = safetensors.torch.load_file(name)
    with safetensors.safe_open(name, framework="pt") as file:
        assert torch.equal(file.get_slice("weight")[3:5], wanted["weight"][3:5])
assert all(torch.equal(found[name], wanted[name]) for name in wanted)

with forebay_client.path("s3://b/w.pt") as name:
    found = torch.load(name, mmap=True, weights_only=True)
assert all(torch.equal(found[name], wanted[name]) for name in wanted), "what is mapped stays after the path is closed"
found["bias"] += 1  # a private mapping
libraries = ["safetensors", "torch"]

if importlib.util.find_spec("cv2") is not None:
    import cv2
    image = numpy.random.default_rng(1).integers(0, 255, (64, 64, 3), dtype=numpy.uint8)
    client.put("b", "i.png", cv2.imencode(".png", image)[1].tobytes())
    with forebay_client.path("s3://b/i.png") as name:
        assert (cv2.imread(name) == image).all()
    libraries.append("cv2")
print(*libraries)
"""


@pytest.mark.long
@pytest.mark.skipif(not TORCH.exists(), reason="PyTorch is not installed (make clients-torch)")
async def test_libraries_open_it_by_its_name(tmp_path: Path) -> None:
    async with FakeOrigin() as origin:
        origin.store.put("b", "seed", b"")
        answer = await asyncio.to_thread(
            subprocess.run,
            [str(TORCH), "-c", LIBRARIES],
            env=environment(origin),
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
    assert answer.returncode == 0, answer.stderr
    assert {"safetensors", "torch"} <= set(answer.stdout.split())
