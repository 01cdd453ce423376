"""What a training script without PyTorch does, and how long it takes: run by benchmarks/epochs/boto_readers.py.

    python boto_epochs.py '{"endpoint": ..., "bucket": ..., "prefix": ..., "count": ..., "readers": ..., ...}'

So many reader processes, each with a boto3 client of its own, read the samples of an epoch in batches. These are
dealt to them in turns, as PyTorch's DataLoader deals them; after each sample a reader computes for a fixed time, in
which its CPU is free, as beside a GPU. The order of each of the first `plans` epochs is sent before it, as an object,
by boto3 as well; the URLs of `begins` are read before the epochs of their numbers. Clients and processes are ready
when an epoch begins. Prints one line of JSON, for each epoch its
`seconds`, the CPU seconds in it of the readers and of the processes with the numbers `watched`, and when each sample
was there (`arrivals`, sorted).

Nothing of Forebay is imported here: this is the unchanged client.
"""

import json
import multiprocessing
import random
import sys
import time
from typing import Any
from urllib.request import urlopen

import boto3
from botocore.config import Config

BATCH = 16
CREDENTIALS = {"aws_access_key_id": "trainer", "aws_secret_access_key": "trainer-secret", "region_name": "us-east-1"}


def client_of(asked: dict[str, Any]) -> Any:
    config = Config(s3={"addressing_style": "path"})
    return boto3.client("s3", endpoint_url=asked["endpoint"], config=config, **CREDENTIALS)


def key_of(asked: dict[str, Any], index: int) -> str:
    return f"{asked['prefix']}/{index:05}"


def order_of(asked: dict[str, Any], epoch: int) -> list[int]:
    """The samples of an epoch, in the order that its seed gives."""
    return random.Random(asked["seed"] + epoch).sample(range(asked["count"]), asked["count"])


def cpu_seconds_of(process: int) -> float:
    """What a process has used so far: see clock_getcpuclockid(3)."""
    return time.clock_gettime(~process << 3 | 2)


def read(asked: dict[str, Any], reader: int, barrier: Any, arrivals: Any) -> None:
    client = client_of(asked)
    client.head_object(Bucket=asked["bucket"], Key=key_of(asked, asked["count"]))  # it is there beside the samples
    for epoch in range(asked["epochs"]):
        order = order_of(asked, epoch)
        batches = [order[start : start + BATCH] for start in range(0, len(order), BATCH)]
        barrier.wait()
        arrived = []
        for batch in batches[reader :: asked["readers"]]:
            for index in batch:
                answer = client.get_object(Bucket=asked["bucket"], Key=key_of(asked, index))
                if len(answer["Body"].read()) != asked["size"]:
                    raise SystemExit(f"{index} has another size")
                arrived.append(time.perf_counter())
                time.sleep(asked["compute"])  # noqa: TID251 # the accelerator is at work, and the CPU is not
        barrier.wait()
        arrivals.put(arrived)


def main(asked: dict[str, Any]) -> list[dict[str, Any]]:
    barrier = multiprocessing.Barrier(asked["readers"] + 1)
    arrivals: Any = multiprocessing.SimpleQueue()
    client = client_of(asked)
    readers = [
        multiprocessing.Process(target=read, args=(asked, reader, barrier, arrivals), daemon=True)
        for reader in range(asked["readers"])
    ]
    for each in readers:
        each.start()
    epochs = []
    for epoch in range(asked["epochs"]):
        if epoch < asked["plans"]:
            lines = "".join(f"{key_of(asked, index)}\n" for index in order_of(asked, epoch))
            client.put_object(Bucket=asked["bucket"], Key=f".forebay/plans/epoch-{epoch}", Body=lines.encode())
        if begin := asked["begins"].get(str(epoch)):
            urlopen(begin).close()
        barrier.wait(asked["patience"])
        processes = [*asked["watched"], *(each.pid for each in readers)]
        before, started = [cpu_seconds_of(each) for each in processes], time.perf_counter()
        barrier.wait(asked["patience"])
        seconds = time.perf_counter() - started
        used = [cpu_seconds_of(each) - earlier for each, earlier in zip(processes, before, strict=True)]
        arrived = sorted(when - started for _ in readers for when in arrivals.get())
        cpu = {"watched": used[: len(asked["watched"])], "readers": sum(used[len(asked["watched"]) :])}
        epochs.append({"seconds": seconds, **cpu, "arrivals": arrived})
    for each in readers:
        each.join()
        if each.exitcode:
            raise SystemExit("a reader failed")
    return epochs


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))
