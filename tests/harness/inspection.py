"""Compares responses and reads Forebay's own metrics, for tests."""

import asyncio
import re
from collections.abc import Callable
from typing import NamedTuple

from harness.clients import RawClient
from harness.raw_connection import RawAnswer
from harness.rig import TRAINER, Rig

_OF_THE_OBJECT = frozenset(
    {
        "accept-ranges",
        "cache-control",
        "content-disposition",
        "content-encoding",
        "content-language",
        "content-length",
        "content-range",
        "content-type",
        "etag",
        "expires",
        "last-modified",
        "x-amz-storage-class",
        "x-amz-version-id",
    }
)


class ObjectResponse(NamedTuple):
    """The part of a response that describes the object; equal for two responses that agree."""

    status: int
    headers: dict[str, str]
    body: bytes


def object_response(answer: RawAnswer) -> ObjectResponse:
    """The object fields of a complete response. AssertionError if it was aborted."""
    assert not answer.aborted
    lower = ((name.lower(), value) for name, value in answer.pairs)
    kept = {name: value for name, value in lower if name in _OF_THE_OBJECT or name.startswith("x-amz-meta-")}
    return ObjectResponse(answer.status, kept, answer.body)


def error_code(answer: RawAnswer) -> str:
    """The S3 code of an error; empty if it is none."""
    found = re.search(rb"<Code>(\w+)</Code>", answer.body)
    return found[1].decode() if found else ""


def lost_clients(rig: Rig) -> int:
    """Connections whose client has gone while its request is still being answered."""
    return sum(each.transport is None for each in rig.worker.listener.server.connections)


def cache_status(answer: RawAnswer) -> tuple[int, str | None]:
    """The status, and where the answer came from."""
    return answer.status, answer.headers.get("x-forebay-cache")


async def metric_value(rig: Rig, name: str) -> float:
    """A metric as Prometheus reads it, labels included in `name`; 0 where there is none."""
    answer = await RawClient(rig.admin, TRAINER).unsigned("GET", "/metrics")
    for line in answer.body.decode().splitlines():
        if line.startswith(f"{name} "):
            return float(line.rpartition(" ")[2])
    return 0.0


async def run_loop_until(condition: Callable[[], object]) -> None:
    """Runs the loop until `condition()` is true, for changes that need no time to pass."""
    while not condition():  # noqa: ASYNC110 # what is looked at has no event, and no time passes
        await asyncio.sleep(0)
