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
from harness.socket_rig import SocketRig
from harness.torch_environment import output_of, pass_checks, python_of_torch, torch_environ

SCRIPT: Final = Path(__file__).parents[1] / "client" / "torch" / "train_script.py"


@pytest.fixture
async def origin() -> AsyncIterator[FakeOrigin]:
    """A bucket with 40 samples."""
    async with FakeOrigin() as made:
        for key, content in CONTENTS.items():
            made.store.put("bucket", key, content)
        made.store.create_bucket("demo")
        yield made


@pytest.fixture
async def rig(origin: FakeOrigin, tmp_path: Path) -> AsyncIterator[Rig]:
    async with Rig(origin.endpoint, origin.secret, tmp_path / "rig") as made:
        yield made


@pytest.fixture
async def socket_rig(origin: FakeOrigin, tmp_path: Path) -> AsyncIterator[SocketRig]:
    """With a Unix socket, which clients find by themselves."""
    async with SocketRig(origin, tmp_path / "rig") as made:
        yield made


async def test_samplers_and_data_sets(socket_rig: SocketRig, tmp_path: Path) -> None:
    """Beside Forebay: the batches of data sets go over its socket."""
    environ = torch_environ(tmp_path, socket_rig.endpoint, TRAINER)
    await pass_checks(["sampler_checks", "dataset_checks"], tmp_path, environ)
    assert socket_rig.forms()["batch"] > 0


@pytest.mark.long  # torch.distributed is slow to import: five seconds
async def test_checkpoints(rig: Rig, tmp_path: Path) -> None:
    environ = torch_environ(tmp_path, rig.endpoint, TRAINER)
    await pass_checks(["checkpoint_checks"], tmp_path, environ)


@pytest.mark.long  # workers of loaders that import torch anew: ten seconds
async def test_loaders_with_workers_read_over_the_socket(socket_rig: SocketRig, tmp_path: Path) -> None:
    """Forked and spawned ones, each with a channel of its own; nothing stays of them."""
    environ = torch_environ(tmp_path, socket_rig.endpoint, TRAINER)
    await pass_checks(["loader_checks"], tmp_path, environ)
    batches = socket_rig.parts.context.metrics.counters["forebay_batch_entries_total"]
    assert sum(batches.values()) > 0
    assert socket_rig.forms()["batch"] > 6, "of loaders with no worker, forked ones and spawned ones"
    assert "declined" not in socket_rig.forms()
    await socket_rig.channels_are(0)
    socket_rig.worker.client_memory.check()
    assert socket_rig.parts.storage.rings.in_use == 0


@pytest.mark.long  # likewise
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
    assert rig.parts.jobs.plans.coordinator.plans() == []
    command = [sys.executable, "-m", "forebay_client.cli.main", "run", "--name", "job", *script]
    path = os.pathsep.join([environ["PYTHONPATH"], *filter(None, sys.path)])
    printed, complaint = await output_of(command, tmp_path, {**environ, "PYTHONPATH": path})
    assert (printed, complaint) == (plain, "")
    plans = rig.parts.jobs.plans.coordinator.plans()
    assert [(plan.entries, plan.name.split("/")[:2]) for plan in plans] == [(40, ["torch", "job"])] * 6
    assert {plan.name.rpartition("/")[2] for plan in plans} == {"epoch-1", "epoch-2"}
