"""What writes checkpoints, unmodified, and how long it is before the last byte is acknowledged: run by
benchmarks/checkpoints/checkpoint_writers.py.

    python checkpoint_writer.py '{"bucket": ..., "way": ..., "size": ..., "ranks": ...}'

Reads lines of JSON, `{"endpoint": ..., "key": ...}` or `{"directory": ...}`, writes one checkpoint of the same bytes
there, and prints the seconds that it took, and how many of a core's its processes used. Ways:

    put            boto3 put_object, from memory
    upload         boto3 upload_file: several parts, several threads, from a file in the page cache
    ranks          so many processes with upload_file, each its part of the size; then one object that says all is there
    torch          torch.save into s3torchconnector's writer
    dcp            torch.distributed.checkpoint with s3torchconnector's storage writer, one process
    oss            torch.save into osstorchconnector's writer

In a directory each way writes files, synced: put, upload and ranks with write and fsync, torch and oss with torch.save
and fsync, dcp with PyTorch's own FileSystemWriter, which syncs.

Nothing of Forebay is imported here: these are the unchanged clients.
"""

import json
import multiprocessing
import os
import random
import resource
import signal
import sys
import tempfile
import time
from importlib import import_module
from pathlib import Path
from typing import Any

import boto3
from botocore.config import Config

REGION = "us-east-1"
CREDENTIALS = {"aws_access_key_id": "writer", "aws_secret_access_key": "writer-secret", "region_name": REGION}
PIECE = 8 << 20


def client_of(endpoint: str) -> Any:
    return boto3.client("s3", endpoint_url=endpoint, config=Config(s3={"addressing_style": "path"}), **CREDENTIALS)


def cpu_seconds() -> float:
    """What all threads of this process have used so far, the kernel's part included."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


class Writer:
    """One way to write, with clients that stay connected."""

    others = 0.0
    """Seconds of a core that other processes than this one have used for it."""

    def __init__(self, asked: dict[str, Any], source: Path) -> None:
        self.bucket, self.source = asked["bucket"], source
        self.body = source.read_bytes()
        self.clients: dict[str, Any] = {}

    def client(self, endpoint: str) -> Any:
        if endpoint not in self.clients:
            self.clients[endpoint] = client_of(endpoint)
        return self.clients[endpoint]

    def write(self, endpoint: str, key: str) -> None:
        raise NotImplementedError

    def store(self, directory: Path) -> None:
        synced(directory / "checkpoint", self.body)


def synced(path: Path, body: bytes) -> None:
    """Pieces as large as a part, then one fsync: whole, a body of a gigabyte would be one system call."""
    view = memoryview(body)
    with path.open("wb", buffering=0) as file:
        for start in range(0, len(view), PIECE):
            file.write(view[start : start + PIECE])
        os.fsync(file.fileno())


class Put(Writer):
    def write(self, endpoint: str, key: str) -> None:
        self.client(endpoint).put_object(Bucket=self.bucket, Key=key, Body=self.body)


class Upload(Writer):
    def write(self, endpoint: str, key: str) -> None:
        self.client(endpoint).upload_file(str(self.source), self.bucket, key)


class Ranks(Writer):
    """Processes that live as long as this one."""

    def __init__(self, asked: dict[str, Any], source: Path) -> None:
        super().__init__(asked, source)
        self.ranks: int = asked["ranks"]
        self.pool = multiprocessing.Pool(self.ranks, initializer=become_rank, initargs=(self.bucket, source))

    def write(self, endpoint: str, key: str) -> None:
        parts = [(endpoint, f"{key}/__{rank}_0.distcp") for rank in range(self.ranks)]
        self.others += sum(self.pool.map(upload_rank, parts, chunksize=1))
        self.client(endpoint).put_object(Bucket=self.bucket, Key=f"{key}/.metadata", Body=bytes(10_000))

    def store(self, directory: Path) -> None:
        parts = [directory / f"__{rank}_0.distcp" for rank in range(self.ranks)]
        self.others += sum(self.pool.map(store_rank, parts, chunksize=1))
        synced(directory / ".metadata", bytes(10_000))


RANK: dict[str, Any] = {}
"""Of a process of the pool: its bucket, its source, its body, its clients."""


def become_rank(bucket: str, source: Path) -> None:
    RANK.update(bucket=bucket, source=source, body=source.read_bytes())


def upload_rank(where: tuple[str, str]) -> float:
    """Returns the seconds of a core that it used, as `store_rank` does."""
    endpoint, key = where
    if endpoint not in RANK:
        RANK[endpoint] = client_of(endpoint)
    before = cpu_seconds()
    RANK[endpoint].upload_file(str(RANK["source"]), RANK["bucket"], key)
    return cpu_seconds() - before


def store_rank(path: Path) -> float:
    before = cpu_seconds()
    synced(path, RANK["body"])
    return cpu_seconds() - before


class Torch(Writer):
    """With what is installed in an environment of its own (make clients-torch)."""

    def __init__(self, asked: dict[str, Any], source: Path) -> None:
        super().__init__(asked, source)
        self.torch: Any = import_module("torch")
        self.connector: Any = import_module("s3torchconnector")
        self.state = {"weights": self.torch.frombuffer(bytearray(self.body), dtype=self.torch.float32)}
        os.environ.update(AWS_ACCESS_KEY_ID="writer", AWS_SECRET_ACCESS_KEY="writer-secret")

    def write(self, endpoint: str, key: str) -> None:
        if endpoint not in self.clients:
            config = self.connector.S3ClientConfig(force_path_style=True)
            self.clients[endpoint] = self.connector.S3Checkpoint(
                region=REGION, endpoint=endpoint, s3client_config=config
            )
        with self.clients[endpoint].writer(f"s3://{self.bucket}/{key}") as file:
            self.torch.save(self.state, file)

    def store(self, directory: Path) -> None:
        with (directory / "checkpoint").open("wb") as file:
            self.torch.save(self.state, file)
            file.flush()
            os.fsync(file.fileno())


class Oss(Torch):
    """Its credentials and configuration are files; the values are those that its makers have people write."""

    def __init__(self, asked: dict[str, Any], source: Path) -> None:
        super().__init__(asked, source)
        self.connector = import_module("osstorchconnector")
        place = source.parent
        credentials = {"AccessKeyId": "writer", "AccessKeySecret": "writer-secret"}
        logs = {"logLevel": 2, "logPath": str(place / "connector.log"), "auditPath": str(place / "audit.log")}
        upload = {"checkpointConfig": {"prefetchConcurrency": 24, "prefetchWorker": 4, "uploadConcurrency": 64}}
        self.files = {"cred_path": str(place / "credentials"), "config_path": str(place / "config.json")}
        Path(self.files["cred_path"]).write_text(json.dumps(credentials))
        Path(self.files["config_path"]).write_text(json.dumps(logs | upload))

    def write(self, endpoint: str, key: str) -> None:
        if endpoint not in self.clients:
            self.clients[endpoint] = self.connector.OssCheckpoint(endpoint=endpoint, region="cn-hangzhou", **self.files)
        with self.clients[endpoint].writer(f"oss://{self.bucket}/{key}") as file:
            self.torch.save(self.state, file)


class Dcp(Torch):
    def __init__(self, asked: dict[str, Any], source: Path) -> None:
        super().__init__(asked, source)
        self.dcp: Any = import_module("torch.distributed.checkpoint")
        self.storage: Any = import_module("s3torchconnector.dcp")

    def write(self, endpoint: str, key: str) -> None:
        os.environ["AWS_ENDPOINT_URL"] = endpoint
        config = self.connector.S3ClientConfig(force_path_style=True)
        path = f"s3://{self.bucket}/{key}/"
        writer = self.storage.S3StorageWriter(region=REGION, path=path, s3client_config=config)
        self.dcp.save(self.state, storage_writer=writer, no_dist=True)

    def store(self, directory: Path) -> None:
        writer = self.dcp.FileSystemWriter(directory, sync_files=True)
        self.dcp.save(self.state, storage_writer=writer, no_dist=True)


WAYS = {"put": Put, "upload": Upload, "ranks": Ranks, "torch": Torch, "dcp": Dcp, "oss": Oss}


def main(asked: dict[str, Any]) -> None:
    size = asked["size"] // asked["ranks"]
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # osstorchconnector writes its first log lines to standard output
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())  # which removes the scratch directory
    with tempfile.TemporaryDirectory() as scratch:
        source = Path(scratch, "source")
        source.write_bytes(random.Random(size).randbytes(1 << 20) * (size >> 20))
        writer = WAYS[asked["way"]](asked, source)
        print("ready", file=answers)
        for line in sys.stdin:
            where = json.loads(line)
            started, used = time.perf_counter(), cpu_seconds() + writer.others
            if "directory" in where:
                writer.store(Path(where["directory"]))
            else:
                writer.write(where["endpoint"], where["key"])
            ended = time.perf_counter()
            print(ended - started, cpu_seconds() + writer.others - used, file=answers)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
