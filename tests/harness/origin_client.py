"""An origin client for tests, which must leave nothing behind; and requests to send with it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from forebay.core.events import Observe, unobserved
from forebay.core.timers import Timers
from forebay.origin.credentials import ANONYMOUS, StaticCredentials
from forebay.origin.dialects import DIALECTS
from forebay.origin.origin_client import OriginClient
from forebay.origin.origin_limits import OriginLimits
from forebay.origin.origin_request import UNSIGNED_PAYLOAD, OriginRequest
from forebay.origin.origin_server import OriginServer
from forebay.origin.reads.read_outcomes import BodySource, ReadBody
from forebay.origin.turns.body_turns import BodyTurns
from forebay.protocol.signatures.signing_key import SecretKey

KEY = SecretKey("AKID", "hush", "session")
NOW = 1_800_000_000.0
SHORT = OriginLimits(reads=2, writes=1, wait=0.0, connect_timeout=1.0, answer_timeout=0.05, stall_timeout=0.05)
LONG = OriginLimits(reads=2, writes=1, wait=0.0)


@asynccontextmanager
async def client_of(
    url: str,
    limits: OriginLimits = LONG,
    observe: Observe = unobserved,
    timers: Timers | None = None,
    *,
    body_turns: BodyTurns | None = None,
    anonymous: bool = False,
) -> AsyncIterator[OriginClient]:
    """A client whose turns must be back, and whose connections gone or idle, when the test is over."""
    credentials = ANONYMOUS if anonymous else StaticCredentials(KEY)
    async with OriginClient(
        OriginServer(url, "eu-west-1", DIALECTS["minio"]),
        credentials,
        limits=limits,
        observe=observe,
        clock=lambda: NOW,
        timers=timers,
        body_turns=body_turns,
    ) as client:
        yield client
        assert (client.reads.in_use, client.writes.in_use) == (0, 0)


async def pieces(*parts: bytes) -> AsyncIterator[bytes]:
    for part in parts:
        yield part


async def some_of(body: BodySource | ReadBody, most: int = 1 << 16) -> bytes:
    """What has come of a read's body, at most so many bytes; b"" at its end."""
    room = bytearray(most)
    return bytes(room[: await body.read_into(memoryview(room))])


def get(key: str = "k") -> OriginRequest:
    return OriginRequest("GET", "bucket", key, operation="GetObject")


def put(body: AsyncIterator[bytes] | bytes, length: int | None, *, paced: bool = False) -> OriginRequest:
    return OriginRequest(
        "PUT",
        "bucket",
        "k",
        body=body,
        content_length=length,
        payload_hash=UNSIGNED_PAYLOAD,
        operation="PutObject",
        paced_by="body" if paced else None,
    )
