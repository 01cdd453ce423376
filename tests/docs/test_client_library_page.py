"""The examples of docs/client-library.md are run: one dialogue, in a process of its own, with a Forebay."""

import asyncio
import inspect
import re
import subprocess
import sys
from pathlib import Path
from typing import Final

import forebay_client
from forebay_client import Client
from harness.fake_origin import FakeOrigin
from harness.rig import TRAINER, Rig
from structure.source_tree import ROOT

PAGE: Final = ROOT / "docs" / "client-library.md"
TEXT: Final = PAGE.read_text()
RULES: Final = '[[rules]]\nname = "train"\npath = "demo/train/**"\nfreshness = "immutable"\n'
PROGRAM: Final = """
import doctest, re, sys
from pathlib import Path
from forebay_client import Client
with Client() as client:  # reads are counted in the background: the dialogue begins when the data set has its row
    client.get("demo", "train/0000")
    while not client.datasets("demo"):
        pass
blocks = re.findall(r"^```python\\n(.*?)^```$", Path(sys.argv[1]).read_text(), re.MULTILINE | re.DOTALL)
text = "".join(block for block in blocks if block.startswith(">>>"))
test = doctest.DocTestParser().get_doctest(text, {}, "client-library.md", sys.argv[1], 0)
results = doctest.DocTestRunner(verbose=False).run(test)
print(results.attempted, "examples")
sys.exit(results.failed > 0)
"""


async def test_the_examples_run(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, rest=RULES) as rig:
        for number in range(100):
            origin.store.put_synthetic("demo", f"train/{number:04}", 20_000)
        environment = {
            "AWS_ENDPOINT_URL_S3": rig.endpoint,
            "AWS_ACCESS_KEY_ID": TRAINER.access,
            "AWS_SECRET_ACCESS_KEY": TRAINER.secret,
            "AWS_CONFIG_FILE": "/none",
            "AWS_SHARED_CREDENTIALS_FILE": "/none",
            "PYTHONPATH": f"{ROOT / 'client'}:{ROOT / 'proxy'}",
        }
        answer = await asyncio.to_thread(
            subprocess.run,
            [sys.executable, "-c", PROGRAM, str(PAGE)],
            env=environment,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        for job in rig.parts.jobs.warm_ups.jobs():
            await rig.parts.jobs.warm_ups.wait(job.id)
        rig.parts.jobs.plans.coordinator.close()
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert answer.stderr == ""
    assert int(answer.stdout.split()[0]) > 30


def test_the_page_names_every_call_and_every_argument() -> None:
    calls = {name for name in dir(Client) if not name.startswith("_")} - {"connections", "executor"}
    assert {name for name in calls if f"`{name}" not in TEXT and f"client.{name}(" not in TEXT} == set()
    arguments = set(inspect.signature(Client).parameters)
    assert {name for name in arguments if not re.search(rf"^\| .*`{name}`.*\|", TEXT, re.MULTILINE)} == set()


def test_the_page_names_every_public_name() -> None:
    assert {name for name in forebay_client.__all__ if not re.search(rf"\b{name}\b", TEXT)} == set()
