"""A training job over a loader of four workers, which goes on whatever is killed: what a training script does that
resumes by the state of its sampler.

    python -m client.torch.killed_loader SOCKET SEED EPOCHS

SOCKET: path of Forebay's Unix socket; empty for HTTP alone. Behind each batch it prints a line of JSON, the pids of its
loader's workers, and waits for a line: whoever started it kills then what is to be killed. The last line has what the
job keeps, and the errors, one for each place in an epoch. Each worker compares the bytes of each sample; an epoch that
lacks a sample, or has one twice, ends the program with an AssertionError.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import DataLoader

from client.torch.killed_samples import BATCH, BUCKET, KEYS, sample_content
from forebay_client import Client
from forebay_client.client_errors import ServiceUnavailable
from forebay_client.torch import ForebayMapDataset, planned

WORKERS = 4
RETRIES = 10
"""Attempts after the first: a server that is restarted is waited for 65 s."""
_OF_FOREBAY = ("memfd:forebay", "socket:")


def verified(sample: Any) -> int:
    """The number of a sample. Raises AssertionError for other bytes than it has."""
    number = KEYS.index(sample.key)
    assert sample.view == sample_content(number), f"other bytes of {sample.key}"
    return number


def open_files() -> list[str]:
    """What the descriptors of this process are."""
    found = []
    for number in os.listdir("/proc/self/fd"):  # noqa: PTH208 # links, which may be gone
        try:
            found.append(str(Path(f"/proc/self/fd/{number}").readlink()))
        except OSError:
            continue
    return sorted(each for each in found if each.startswith(_OF_FOREBAY))


def first_line(error: Exception) -> str:
    """The kind of an error, and the first line of its message."""
    return f"{type(error).__name__}: {error}".partition("\n")[0]


def main(socket: str, seed: str, epochs: str) -> None:
    torch.manual_seed(int(seed))
    before = open_files()
    client = Client(socket=socket, retries=RETRIES, timeout=10.0)
    dataset = ForebayMapDataset.from_keys(BUCKET, KEYS, client=client, transform=verified)
    loader: Any = planned(DataLoader(dataset, BATCH, shuffle=True, num_workers=WORKERS), name=f"killed-{seed}")
    errors: dict[tuple[int, int], str] = {}
    for epoch in range(int(epochs)):
        read: list[int] = []
        is_begun = False
        while len(read) < len(KEYS):
            # PyTorch's own errors, of a worker that was killed, come in a signal's handler, so anywhere, in the inner
            # handler too: `read` alone says what is left.
            try:
                try:
                    if is_begun:
                        state = loader.batch_sampler.state_dict(yielded=len(read) // BATCH)
                        loader.batch_sampler.load_state_dict(state)
                    is_begun = True
                    batches = iter(loader)
                    for batch in batches:
                        read += batch.tolist()
                        workers = [worker.pid for worker in batches._workers]  # noqa: SLF001 # to be killed
                        print(json.dumps({"workers": workers}), flush=True)  # noqa: T201 # what the test reads
                        sys.stdin.readline()
                # EOFError: a killed worker's sockets close a moment before the loader can see that it has ended. The
                # signal comes as a second error then, before any batch.
                except (RuntimeError, EOFError, OSError, ServiceUnavailable) as error:
                    errors[epoch, len(read)] = first_line(error)
            except RuntimeError as error:
                errors[epoch, len(read)] = first_line(error)
        assert sorted(read) == list(range(len(KEYS))), "an epoch does not have each sample once"
    client.close()
    kept = [each for each in open_files() if each not in before]
    mapped = [line for line in Path("/proc/self/maps").read_text().splitlines() if "memfd:forebay" in line]
    counts = loader.batch_sampler.counts
    report = {"errors": [*errors.values()], "kept": kept + mapped, "failed plans": counts.failed, "sent": counts.sent}
    print(json.dumps(report))  # noqa: T201 # likewise


if __name__ == "__main__":
    main(*sys.argv[1:])
