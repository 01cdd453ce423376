"""What the clients do: read all of an object, ranges and heads of it, write, delete, upload in parts, read what was
written by its version id, read as principals that have credentials of their own at the origin, leave in the middle.

Any answer may be broken off while the origin fails or a worker is ended; what may never come is a wrong one.
"""

import asyncio
import random
import time
from dataclasses import dataclass, field
from typing import Final, Protocol

from harness.clients import RawClient, path_of
from harness.fake.multipart import SMALLEST
from harness.raw_connection import RawAnswer
from harness.reference_sigv4 import Secret
from harness.rig import TRAINER
from soak.cells import CELL, content
from soak.truth import NOTHING, Truth

CLIENTS: Final = 24
KEYS_EACH: Final = 4
SIZES: Final = (CELL, 4096, 65536, 65536 * 3 + CELL, 1 << 20, 3 << 20)
BUCKET: Final = "soak"
VERSIONED: Final = "soak-versions"
VERSIONS_KEPT: Final = 40
"""Of those that a client has written by name, it reads the last so many."""

ALICE, ALICE_THERE = Secret("alice", "alice-secret"), Secret("alicethere", "alices-own")
"""Asks the origin in her own name, which lets her."""
BOB, BOB_THERE = Secret("bob", "bob-secret"), Secret("bobthere", "bobs-own")
"""Does too, and the origin refuses him everything."""

RULES: Final = """
[[rules]]
path = "*/warmed*"
warm_on_write = true

[[rules]]
path = "*/asked*"
freshness = "always"
block = "64KiB"

[[rules]]
path = "**"
freshness = "immutable"
block = "64KiB"
""" + "".join(
    f'[[auth.keys]]\nid = "{here.access}"\nsecret = "{here.secret}"\norigin_access_key = "{there.access}"\n'
    f'origin_secret_key = "{there.secret}"\ngrants = [{{ path = "**", allow = ["read"] }}]\n'
    for here, there in ((ALICE, ALICE_THERE), (BOB, BOB_THERE))
)

_BROKEN: Final = RawAnswer(0, (), aborted=True)
_READ: Final = frozenset({200, 206})


class Door(Protocol):
    """Where clients go in."""

    def client(self, chance: random.Random, secret: Secret = TRAINER) -> RawClient: ...

    def took(self, client: RawClient, what: str, seconds: float) -> None:
        """A request of a kind has been answered, or broken off, after so long. AssertionError if that is too long."""
        ...


@dataclass
class Client:
    """One of many, with keys of its own to write; it reads everybody's."""

    door: Door
    truth: Truth
    number: int
    chance: random.Random
    versions: list[tuple[str, str, int]] = field(default_factory=list)
    """Key, version id and number of what was written to the bucket that keeps them."""
    _written: int = 0

    def __post_init__(self) -> None:
        kinds = ("warmed", "plain", "asked", "warmed")
        self.own = [f"{kinds[turn]}-{self.number}-{turn}" for turn in range(KEYS_EACH)]
        self.everybodys = everybodys()

    async def go_on(self, deadline: float) -> None:
        while time.monotonic() < deadline:
            await self._something()

    async def _something(self) -> None:
        roll = self.chance.random()
        if roll < 0.12:
            await self._write(self.chance.choice(self.own))
        elif roll < 0.15:
            await self._delete(self.chance.choice(self.own))
        elif roll < 0.16:
            await self._upload(self.chance.choice(self.own))
        elif roll < 0.19:
            await self._write_version()
        elif roll < 0.22:
            await self._read_version()
        elif roll < 0.30:
            await self._leave(self.chance.choice(self.everybodys))
        elif roll < 0.35:
            await self._refused(self.chance.choice(self.everybodys))
        elif roll < 0.45:
            await self._read(self.chance.choice(self.everybodys), ALICE)
        else:
            await self._read(self.chance.choice(self.everybodys), TRAINER)

    async def _ask(
        self,
        method: str,
        target: str,
        headers: list[tuple[str, str]] | None = None,
        body: bytes = b"",
        secret: Secret = TRAINER,
    ) -> RawAnswer:
        client = self.door.client(self.chance, secret)
        began = time.monotonic()
        try:
            answer = await client.request(method, target, headers or [], body)
        except OSError:
            answer = _BROKEN
        took = time.monotonic() - began
        self.door.took(client, method, took)
        self.truth.done[f"{method} {'broken off' if answer.aborted else answer.status}"] += 1
        if answer.aborted and not answer.status:
            await asyncio.sleep(0.02)  # its worker is not there: as any client, not again at once
        return answer

    # Writing

    async def _write(self, key: str) -> None:
        body = self.truth.begin(key, self.chance.choice(SIZES))
        version = self.truth.keys[key].begun
        answer = await self._ask("PUT", path_of(BUCKET, key), body=body)
        if self._succeeded(answer):
            self.truth.acknowledge(key, version)

    async def _delete(self, key: str) -> None:
        answer = await self._ask("DELETE", path_of(BUCKET, key))
        if self._succeeded(answer):
            self.truth.acknowledge(key, NOTHING)

    async def _upload(self, key: str) -> None:
        """In two parts, each through whichever worker it meets."""
        body = self.truth.begin(key, SMALLEST + self.chance.choice(SIZES))
        version, target = self.truth.keys[key].begun, path_of(BUCKET, key)
        answer = await self._ask("POST", f"{target}?uploads")
        if not self._succeeded(answer):
            return
        upload = answer.body.partition(b"<UploadId>")[2].partition(b"</UploadId>")[0].decode()
        listed = ""
        for number, part in enumerate((body[:SMALLEST], body[SMALLEST:]), 1):
            answer = await self._ask("PUT", f"{target}?partNumber={number}&uploadId={upload}", body=part)
            if not self._succeeded(answer):
                return
            listed += f"<Part><PartNumber>{number}</PartNumber><ETag>{answer.headers['ETag']}</ETag></Part>"
        document = f"<CompleteMultipartUpload>{listed}</CompleteMultipartUpload>".encode()
        answer = await self._ask("POST", f"{target}?uploadId={upload}", body=document)
        if self._succeeded(answer) and b"<CompleteMultipartUploadResult" in answer.body:
            self.truth.done["uploads in parts"] += 1
            self.truth.acknowledge(key, version)

    @staticmethod
    def _succeeded(answer: RawAnswer) -> bool:
        assert answer.status in {0, 200, 204, 503}, answer
        return answer.status in {200, 204} and not answer.aborted

    # Reading

    async def _read(self, key: str, secret: Secret) -> None:
        since = self.truth.since(key)
        if self.chance.random() < 0.1:
            answer = await self._ask("HEAD", path_of(BUCKET, key), secret=secret)
            if self._has_answer(key, since, answer):
                self.truth.judge_head(key, since, answer)
            return
        first = self.chance.randrange(0, 2048) * CELL
        ranged = self.chance.random() < 0.5
        headers = [("Range", f"bytes={first}-{first + self.chance.randrange(1, 4096) * CELL - 1}")] if ranged else []
        answer = await self._ask("GET", path_of(BUCKET, key), headers, secret=secret)
        if self._has_answer(key, since, answer):
            self.truth.judge_body(key, since, answer, first)
            self.truth.done[answer.headers["x-forebay-cache"]] += 1

    def _has_answer(self, key: str, since: int, answer: RawAnswer) -> bool:
        if answer.aborted or answer.status == 503:
            return False
        if answer.status == 404:
            self.truth.judge(key, since, NOTHING)
            return False
        assert answer.status in {*_READ, 416}, answer
        return answer.status in _READ

    async def _refused(self, key: str) -> None:
        """Whatever Forebay has of it, the origin has refused it to this principal."""
        answer = await self._ask(self.chance.choice(("GET", "HEAD")), path_of(BUCKET, key), secret=BOB)
        assert answer.aborted or answer.status in {403, 503}, answer

    async def _leave(self, key: str) -> None:
        """Ask, take a little, and go."""
        requests = self.door.client(self.chance)
        try:
            connection = await requests.open()
        except OSError:
            return
        try:
            await connection.send(requests.sign("GET", path_of(BUCKET, key)).wire)
            head = await connection.read_head("GET")
            if head.status == 200:
                await connection.read(self.chance.randrange(1, 100_000))
            connection.reset()
        except (ConnectionError, AttributeError):  # it was gone before we could go: there is no socket to reset
            return

    # Versions by their id

    async def _write_version(self) -> None:
        self._written += 1
        key, number = f"kept-{self.number}-{self._written % 3}", self._written
        body = content(key, number, 4096 if number % 2 else 65536 * 2 + CELL)
        answer = await self._ask("PUT", path_of(VERSIONED, key), body=body)
        if self._succeeded(answer):
            self.versions.append((key, answer.headers["x-amz-version-id"], number))

    async def _read_version(self) -> None:
        if not self.versions:
            return
        key, version_id, number = self.chance.choice(self.versions[-VERSIONS_KEPT:])
        answer = await self._ask("GET", f"{path_of(VERSIONED, key)}?versionId={version_id}")
        if answer.aborted or answer.status == 503:
            return
        assert answer.status == 200, answer
        expected = content(key, number, 4096 if number % 2 else 65536 * 2 + CELL)
        assert answer.body == expected, f"{key}: another version than the one asked for by its id"
        self.truth.done["versions by their id"] += 1


def everybodys() -> list[str]:
    """All keys that are written to."""
    kinds = ("warmed", "plain", "asked", "warmed")
    return [f"{kinds[turn]}-{number}-{turn}" for number in range(CLIENTS) for turn in range(KEYS_EACH)]
