"""README.md and docs/recipes.md: clients read the sample data, figures match the benchmarks. Configurations load,
those of MORE_RULES too.

torch is not installed for tests; the data set of the README runs with a stand-in that has the three names it uses. The
examples of Alibaba's clients run as they stand, where `make clients` and `make clients-torch` have installed them.
"""

import array
import asyncio
import os
import re
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import pytest
from benchmarks.figures.measured_pages import MeasuredPages
from benchmarks.figures.readme import TRAINING_BEGIN, TRAINING_END, rendered
from benchmarks.pages.part_pages import parted_page

from compat.clients import load_clients
from compat.host_names import with_names
from forebay.settings import load_settings
from forebay_demo.embedded_origin import EmbeddedOrigin
from forebay_demo.samples import samples
from harness.clients import boto_client
from harness.fake_origin import FakeOrigin
from harness.reference_sigv4 import Secret
from harness.rig import TRAINER, Rig

ROOT: Final = Path(__file__).parents[2]
README: Final = (ROOT / "README.md").read_text()
PAGES: Final = MeasuredPages.read()
RECIPES: Final = (ROOT / "docs" / "recipes.md").read_text()
MORE_RULES: Final = ("packs.md", "training-data.md", "training-with-forebay.md")
"""Pages whose configurations no test of their own loads."""
PYTHON: Final = re.findall(r"^```python\n(.*?)^```$", README + RECIPES, re.MULTILINE | re.DOTALL)
TOML: Final = re.findall(
    r"^```toml\n(.*?)^```$",
    README + RECIPES + "".join((ROOT / "docs" / page).read_text() for page in MORE_RULES),
    re.MULTILINE | re.DOTALL,
)
SHELL: Final = re.findall(r"^    (echo '\{.*)$", RECIPES, re.MULTILINE)
KEY: Final = "train/tensors/00000.f32"
CLIENTS: Final = {client.name: client for client in load_clients()}


FOREBAY: Final = """
[[auth.keys]]
id = "forebay"
secret = "forebay-secret"
grants = [{ path = "**", allow = ["read", "write", "list", "delete"] }]
"""
"""The key of `make serve`."""


class Tensor(array.array):  # type: ignore[type-arg] # not generic at run time before Python 3.12
    """Of a tensor, what the example uses."""

    def reshape(self, *shape: int) -> tuple[tuple[int, ...], "Tensor"]:
        return shape, self


STAND_IN: Final = SimpleNamespace(
    float32="f", Tensor=Tensor, frombuffer=lambda buffer, dtype: Tensor(dtype, bytes(buffer))
)


@asynccontextmanager
async def sample_data(directory: Path) -> AsyncIterator[Rig]:
    """A Forebay with some of the sample data."""
    by_key = {sample.key: sample for sample in samples()}
    async with FakeOrigin() as origin:
        for number in range(3):
            key = f"train/tensors/{number:05}.f32"
            origin.store.put("demo", key, by_key[key].make())
        async with Rig(
            origin.endpoint, origin.secret, directory, server='domains = ["localhost"]', rest=FOREBAY
        ) as rig:
            yield rig


async def with_sample_data(directory: Path, work: Callable[[Any], None]) -> None:
    """Runs `work` in a thread, with a boto3 whose clients are pointed at a Forebay with the sample data."""
    async with sample_data(directory) as rig:
        clients: list[Any] = []

        def client(service: str, *, endpoint_url: str, **_credentials: str) -> Any:
            assert (service, endpoint_url) == ("s3", "http://127.0.0.1:9000")
            clients.append(boto_client(rig.endpoint, TRAINER))
            return clients[-1]

        try:
            await asyncio.to_thread(work, SimpleNamespace(client=client))
        finally:
            for each in clients:
                each.close()


def without_imports(example: str) -> str:
    return "".join(line for line in example.splitlines(keepends=True) if not re.match(r"(import|from) ", line))


async def test_boto3_reads_cold_then_warm(tmp_path: Path) -> None:
    said: list[tuple[object, ...]] = []
    example = without_imports(PYTHON[0])

    def work(boto3: Any) -> None:
        exec(example, {"boto3": boto3, "print": lambda *words: said.append(words)})

    await with_sample_data(tmp_path, work)
    for size, cache in said:
        assert f"`{size} {cache}`" in README
    assert [cache for _, cache in said] == ["miss", "hit-memory"]


async def test_the_data_set_reads_tensors(tmp_path: Path) -> None:
    example = without_imports(PYTHON[1])
    content = next(sample for sample in samples() if sample.key == KEY).make()

    def work(boto3: Any) -> None:
        names: dict[str, Any] = {"boto3": boto3, "torch": STAND_IN, "Dataset": object}
        exec(example, names)
        tensors = names["Tensors"]("demo", "train/tensors/")
        shape, values = tensors[0]
        assert len(tensors) == 3
        assert shape == (3, 224, 224)
        assert values.tobytes() == content

    await with_sample_data(tmp_path, work)


async def test_the_data_set_needs_no_variables(tmp_path: Path) -> None:
    """The example in a process of its own with a real boto3 and no AWS_* variable; only torch is a stand-in."""
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text(
        "class Tensor(bytes):\n    def reshape(self, *_):\n        return self\n"
        "float32 = None\ndef frombuffer(buffer, dtype):\n    return Tensor(buffer)\n"
    )
    (tmp_path / "torch" / "utils").mkdir()
    (tmp_path / "torch" / "utils" / "__init__.py").touch()
    (tmp_path / "torch" / "utils" / "data.py").write_text("Dataset = object\n")
    async with sample_data(tmp_path) as rig:
        example = PYTHON[1] + 'print(len(Tensors("demo", "train/tensors/")[0]))\n'
        command = [sys.executable, "-c", example.replace(":9000", f":{rig.worker.address[1]}")]
        environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PYTHONPATH": str(tmp_path)}
        process = await asyncio.create_subprocess_exec(
            *command, cwd=tmp_path, env=environment, stdout=PIPE, stderr=PIPE
        )
        output, complaint = await process.communicate()
        assert (output, process.returncode) == (b"602112\n", 0), complaint.decode()[-2000:]


async def in_its_own_environment(client: str, example: str, port: int, directory: Path) -> str:
    """What `example` prints when it is run as it stands, where `client` is installed, but for the port."""
    found = CLIENTS[client]
    missing = found.missing()
    if missing is not None:
        pytest.skip(missing)
    command = [str(found.home / "bin" / "python"), "-c", example.replace(":9000", f":{port}")]
    if found.named:
        command = with_names(command, ("demo.localhost",), directory)
    environment = {"PATH": os.environ["PATH"], "HOME": str(directory)}
    process = await asyncio.create_subprocess_exec(
        *command, cwd=directory, env=environment, stdout=PIPE, stderr=PIPE, start_new_session=True
    )
    told, complaint = await process.communicate()
    assert process.returncode == 0, complaint.decode()[-2000:]
    return told.decode()


async def test_oss2_reads_cold_then_warm(tmp_path: Path) -> None:
    async with sample_data(tmp_path) as rig:
        said = await in_its_own_environment("oss2-v1", PYTHON[2], rig.worker.address[1], tmp_path)
        for line in said.splitlines():
            assert f"`{line}`" in RECIPES
        assert said.split() == ["602112", "miss", "602112", "hit-memory"]
        written = await rig.client(Secret("forebay", "forebay-secret")).request("GET", "/demo/hello.txt")
        assert written.body == b"written by one dialect, read by both"


async def test_osstorchconnector_reads_and_writes_tensors(tmp_path: Path) -> None:
    files = [re.fullmatch(r"echo '(.*)' > (\S+)", line) for line in SHELL]
    for file in files:
        assert file is not None
        (tmp_path / file[2]).write_text(file[1])
    async with sample_data(tmp_path) as rig:
        port = rig.worker.address[1]
        said = await in_its_own_environment("osstorchconnector", PYTHON[3], port, tmp_path)
        assert "torch.Size([3, 3, 224, 224])" in said
        client = rig.client(Secret("forebay", "forebay-secret"))
        assert (await client.request("HEAD", "/demo/checkpoints/mean.pt")).status == 200


@pytest.mark.parametrize("example", TOML)
def test_the_configurations_are_accepted(example: str) -> None:
    if "[origin]" not in example:
        example += '\n[origin]\nendpoint = "https://s3.eu-west-1.amazonaws.com"\n[auth]\nmode = "open"\n'
    secrets = dict.fromkeys(("LAPTOP_SECRET", "TRAINER_SECRET", "OSS_ACCESS_KEY_SECRET"), "secret")
    load_settings(example, secrets, {}, str)


def test_the_minimal_file_is_the_one_that_is_shown() -> None:
    shown = [line for line in TOML[0].splitlines() if line]
    file = [line for line in (ROOT / "config" / "minimal.toml").read_text().splitlines() if line and line[0] != "#"]
    assert shown == file


def test_output_of_make_serve_matches_the_readme() -> None:
    loaded = load_settings('[origin]\nendpoint = "http://127.0.0.1:1"\n[auth]\nmode = "open"\n', {}, {}, str)
    shown = "".join(
        f"    {line}\n" if line else "\n" for line in EmbeddedOrigin.welcome(loaded.settings).splitlines()[:4]
    )
    assert shown in README


def test_the_figures_are_those_of_the_page() -> None:
    """If this fails after the benchmarks were run: `python -m benchmarks.figures`."""
    assert rendered(README, PAGES) == README


def test_a_figure_that_was_written_by_hand_is_found() -> None:
    figure = re.search(r"\| nginx: ([0-9,]+/s) \|", README)
    assert figure
    changed = README.replace(figure[1], "1/s")
    assert rendered(changed, PAGES) == README != changed


def test_a_page_without_a_figure_is_refused() -> None:
    with pytest.raises(LookupError, match="Stampede"):
        rendered(README, PAGES._replace(benchmarks=PAGES.benchmarks.replace("## Stampede", "## Crowd")))


def test_a_part_that_is_not_measured_has_no_row() -> None:
    parts = ("shares", "plans", "recordings", "listings", "saves", "small", "reads", "batches")
    unmeasured = parted_page("epochs", parts, "", {})
    pages = PAGES._replace(epochs=unmeasured, checkpoints=unmeasured, clients=unmeasured)
    before, _, table = rendered(README, pages).partition(TRAINING_BEGIN)
    assert table.partition(TRAINING_END)[0].count("\n|") == 2  # headings and rule
    assert before == README.partition(TRAINING_BEGIN)[0]
    with pytest.raises(LookupError, match="does not say when shares"):
        rendered(README, pages._replace(epochs=parted_page("epochs", parts, "", {"shares": "## A table"})))
