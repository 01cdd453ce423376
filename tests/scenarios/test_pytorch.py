"""The client library for PyTorch, in an environment that has it, in front of a Forebay.

The checks stand in tests/client/torch, and several modules of them run in one process, because importing torch costs
more than most of them.
"""

import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import pytest

from client.torch.contents import CONTENTS
from harness.fake_origin import FakeOrigin
from harness.rig import TRAINER, Rig
from harness.torch_environment import output_of, pass_checks, python_of_torch, torch_environ

SCRIPT: Final = Path(__file__).parents[1] / "client" / "torch" / "train_script.py"


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    """A Forebay in front of a bucket with 40 samples."""
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path / "rig") as rig:
        for key, content in CONTENTS.items():
            origin.store.put("bucket", key, content)
        origin.store.create_bucket("datasets")
        yield rig


async def test_samplers_and_data_sets(rig: Rig, tmp_path: Path) -> None:
    environ = torch_environ(tmp_path, rig.endpoint, TRAINER)
    await pass_checks(["sampler_checks", "dataset_checks"], tmp_path, environ)


@pytest.mark.long  # torch.distributed is slow to import: five seconds
async def test_checkpoints(rig: Rig, tmp_path: Path) -> None:
    environ = torch_environ(tmp_path, rig.endpoint, TRAINER)
    await pass_checks(["checkpoint_checks"], tmp_path, environ)


@pytest.mark.long  # workers of loaders that import torch anew: ten seconds
async def test_loaders_with_workers(rig: Rig, tmp_path: Path) -> None:
    environ = torch_environ(tmp_path, rig.endpoint, TRAINER)
    await pass_checks(["loader_checks"], tmp_path, environ)


@pytest.mark.long  # six processes that import torch: fifteen seconds
async def test_an_unchanged_script_is_run_with_plans(rig: Rig, tmp_path: Path) -> None:
    """With workers in the process, forked and spawned; what it reads and draws is the same with and without."""
    environ = torch_environ(tmp_path, rig.endpoint, TRAINER)
    script = [python_of_torch(), str(SCRIPT), "none", "fork", "spawn"]
    plain, complaint = await output_of(script, tmp_path, environ)
    assert plain, complaint
    assert rig.parts.plans.coordinator.plans() == []
    command = [sys.executable, "-m", "forebay_client.cli.main", "run", "--name", "job", *script]
    path = os.pathsep.join([environ["PYTHONPATH"], *filter(None, sys.path)])
    printed, complaint = await output_of(command, tmp_path, {**environ, "PYTHONPATH": path})
    assert (printed, complaint) == (plain, "")
    plans = rig.parts.plans.coordinator.plans()
    assert [(plan.entries, plan.name.split("/")[:2]) for plan in plans] == [(40, ["torch", "job"])] * 6
    assert {plan.name.rpartition("/")[2] for plan in plans} == {"epoch-1", "epoch-2"}
