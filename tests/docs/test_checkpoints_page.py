"""The examples of docs/checkpoints.md: its rules are in force in a Forebay whose clients write as the writers of its
table do, its commands are run, and its manifest is one that Kubernetes can read."""

import asyncio
import re
import shlex
import sys
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import pytest
import yaml

from forebay.core.task_registry import TaskRegistry
from forebay.journal_commands import check_journal_command
from forebay.settings.loader import load_settings
from forebay_client.cli.argument_parser import make_parser
from forebay_client.cli.command_context import Screen, process_context
from forebay_client.cli.command_line import run_command_line
from harness.clients import path_of
from harness.fake.actions import HoldRequest
from harness.fake.gate import Gate
from harness.fake_origin import FakeOrigin
from harness.rig import Rig
from harness.write_back_rig import at_origin
from structure.source_tree import ROOT

PAGE: Final = (ROOT / "docs" / "checkpoints.md").read_text()
TOML: Final = re.findall(r"^```toml\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
YAML: Final = re.findall(r"^```yaml\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
COMMANDS: Final = re.findall(r"^    \$ forebay (.+)$", PAGE, re.MULTILINE)
ORIGIN: Final = '\n[origin]\nendpoint = "https://s3.eu-west-1.amazonaws.com"\n[auth]\nmode = "open"\n'
JOURNAL: Final = tomllib.loads(TOML[0])["journal"]
ROWS: Final = {
    cells[0].strip(): [cell.strip() for cell in cells[1:]]
    for line in PAGE.partition("## Rules for writers")[2].partition("\n## ")[0].splitlines()
    if line.startswith("| ") and not line.startswith("| writer")
    for cells in [line.strip("|").split("|")]
}
LAST: Final = {
    "PyTorch DCP": ("dcp/step-1", ["__0_0.distcp", ".metadata.tmp"], [".metadata"]),
    "Lightning": ("dcp/lightning", ["epoch=1.ckpt", "last.ckpt"], []),
    "NeMo": ("nemo/step-1", ["weights/__0_0.distcp"], ["step-2-unfinished"]),
    "Megatron-LM, DeepSpeed, Orbax, Composer": (
        "megatron/run",
        ["iter_0000001/mp_rank_00/model_optim_rng.pt", "ep1-rank0.pt"],
        ["latest_checkpointed_iteration.txt", "latest", "commit_success.txt", "latest-rank0.pt.symlink"],
    ),
    "Ray Train": ("ray/trial", ["checkpoint_000001/model.pt"], [".validate_storage_marker"]),
}
"""Of each writer: where its rule of the page has it write, what it writes, and what it writes with a fence."""


def _forebay(line: str, rig: Rig) -> int:
    around = replace(
        process_context(),
        screen=Screen(sys.stdout, sys.stdout, is_terminal=False),
        environ={"FOREBAY_ADMIN": urlsplit(rig.admin).netloc},
    )
    return run_command_line(shlex.split(line), around)


def _rig(origin: FakeOrigin, directory: Path) -> Rig:
    """A Forebay with the page's configuration, in which the rules of writers come before the one for all."""
    journal, everything = (f"[{text}" for text in TOML[0].split("[", 1)[1].split("\n\n[", 1))
    moved = journal.replace(JOURNAL["path"], str(directory / "journal"))
    rig = Rig(origin.endpoint, origin.secret, directory / "rig", rest="\n".join((moved, TOML[1], everything)))
    rig.configuration = rig.configuration.replace('drain_timeout = "5s"', 'drain_timeout = "1ms"')
    return rig


def test_the_configurations_are_accepted() -> None:
    for example in (TOML[0], TOML[0] + TOML[1]):
        rules = load_settings(example + ORIGIN, {}, {}, str).settings.rules
        assert len(rules) == example.count("[[rules]]")
        assert all(rule.write == "back" for rule in rules)


def test_the_rules_have_the_fences_of_the_table() -> None:
    in_rules = [fence for rule in tomllib.loads(TOML[1])["rules"] for fence in rule["fence"]]
    in_table = [fence for row in ROWS.values() for fence in re.findall(r'"([^"]+)"', row[1])]
    assert in_rules == in_table
    assert [name.partition(" (")[0] for name in ROWS] == list(LAST)
    for name, row in ROWS.items():
        _, _, fenced = LAST[name.partition(" (")[0]]
        assert bool(fenced) == row[1].startswith("`[")


@pytest.mark.parametrize("writer", LAST)
async def test_a_fence_waits_for_what_was_written_before(writer: str, tmp_path: Path) -> None:
    """Everything else is acknowledged from the journal, while the origin has none of it."""
    folder, written, fenced = LAST[writer]
    keys = {key: f"{folder}/{key}" for key in (*written, *fenced)}
    async with FakeOrigin() as origin, _rig(origin, tmp_path) as rig:
        origin.store.create_bucket("checkpoints")
        write_back, client, tasks = rig.parts.writes.write_back, rig.client(), TaskRegistry()
        assert write_back is not None
        await client.request("PUT", path_of("checkpoints", f"{folder}/proof"))
        await write_back.pending.wait_settled(lambda _: True)
        gate = Gate()
        origin.faults.add(HoldRequest(gate), method="PUT")
        for key in written:
            answer = await client.request("PUT", path_of("checkpoints", keys[key]), (), b"shard")
            assert (answer.status, answer.headers["x-forebay-durable"]) == (200, "local"), key
        await gate.reached()
        fences = [
            tasks.spawn(rig.client().request("PUT", path_of("checkpoints", keys[key]), (), b"marker"), key)
            for key in fenced
        ]
        read = await client.request("GET", path_of("checkpoints", keys[written[0]]))
        assert (read.body, [each.done() for each in fences]) == (b"shard", [False] * len(fences))
        gate.open()
        for answer in await asyncio.gather(*fences):
            assert (answer.status, answer.headers["x-forebay-durable"]) == (200, "origin")
        await write_back.pending.wait_settled(lambda _: True)
        assert None not in [at_origin(origin, key, "checkpoints") for key in keys.values()]


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_parses(command: str) -> None:
    make_parser().parse_args(shlex.split(command))


async def test_the_commands_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With a write that the origin does not get: it is stuck, said, and exported from the journal at rest."""
    flush, *writes, check, export, _ = COMMANDS
    async with FakeOrigin() as origin, _rig(origin, tmp_path) as rig:
        origin.store.create_bucket("checkpoints")
        client = rig.client()
        await client.request("PUT", path_of("checkpoints", "run-7/step-400/proof"))
        assert await asyncio.to_thread(_forebay, flush, rig) == 0
        origin.store.buckets.pop("checkpoints")
        answer = await client.request("PUT", path_of("checkpoints", "run-7/step-400/shard"), (), b"shard")
        assert answer.headers["x-forebay-durable"] == "local"
        await rig.parts.context.tasks.wait_idle()
        for command in writes:
            assert await asyncio.to_thread(_forebay, command, rig) == 0
            assert "run-7/step-400/shard" in capsys.readouterr().out
    journal = tmp_path / "journal"
    assert make_parser().parse_args(shlex.split(check)).directory == JOURNAL["path"]
    assert check_journal_command(journal, None) == 0
    assert "1 pending write of" in capsys.readouterr().out
    assert make_parser().parse_args(shlex.split(export)).export == "/mnt/rescue"
    assert check_journal_command(journal, tmp_path / "rescue") == 0
    assert [path.read_bytes() for path in (tmp_path / "rescue").iterdir() if path.suffix == ""] == [b"shard"]


def test_the_manifest_flushes_before_it_ends() -> None:
    """The commands of the container are Forebay's, its time suffices for them, and its volume is there."""
    [pod] = [yaml.safe_load(text) for text in YAML]
    [container] = pod["initContainers"]
    assert container["restartPolicy"] == "Always", "a sidecar, which ends after the job's container"
    program, *arguments = container["lifecycle"]["preStop"]["exec"]["command"]
    assert program == "forebay"
    flush: Any = make_parser().parse_args(arguments)
    drain = load_settings(TOML[0] + ORIGIN, {}, {}, str).settings.server.drain_timeout
    assert flush.command == "flush"
    assert float(flush.timeout) + drain <= pod["terminationGracePeriodSeconds"]
    assert [each["name"] for each in container["volumeMounts"]] == [each["name"] for each in pod["volumes"]]
    assert all("emptyDir" not in volume for volume in pod["volumes"])
