"""What a worker knows, as the supervisor has it told: its shelf of what is cached, and its jobs.

It imports nothing that a worker is made of: the supervisor starts without.
"""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from forebay.core.heads import Head
from forebay.core.names import ObjectName
from forebay.peers.frames import Document
from forebay.peers.peer_client import Peer
from forebay.peers.peer_codec import decode, decode_head, encode_head, encode_name
from forebay.server.admin.admin_schema import Job, WarmFailure
from forebay.server.admin.cached_objects import CacheView, ResidentBlocks, SsdEntry


class RemoteCacheView(CacheView):
    """A worker's view of what is cached, asked of it."""

    def __init__(self, peer: Peer) -> None:
        self._peer = peer

    async def memory_heads(self, bucket: str, prefix: str, after: str, limit: int) -> dict[str, Head]:
        question = {"kind": "in memory", "bucket": bucket, "prefix": prefix, "after": after, "limit": limit}
        answer = await self._peer.call(question)
        return decode(lambda: {key: decode_head(head) for key, head in answer["found"]})

    async def ssd_entries(self, bucket: str, prefix: str, cursor: bytes, limit: int) -> list[SsdEntry]:
        question = {"kind": "on ssd", "bucket": bucket, "prefix": prefix, "cursor": cursor.hex(), "limit": limit}
        answer = await self._peer.call(question)
        return decode(
            lambda: [SsdEntry(key, decode_head(head), bytes.fromhex(at)) for key, head, at in answer["found"]]
        )

    async def resident_blocks(self, named: Sequence[tuple[ObjectName, Head]]) -> list[ResidentBlocks]:
        documents = [[encode_name(name), encode_head(head)] for name, head in named]
        answer = await self._peer.call({"kind": "held", "named": documents})
        return decode(
            lambda: [ResidentBlocks(int(memory, 16), int(ssd, 16), size) for memory, ssd, size in answer["held"]]
        )


def job_document(job: Job) -> Document:
    return asdict(job)


def read_job(document: Any) -> Job:
    """Raises PeerUnavailable if it is none."""
    return decode(lambda: _job_of(document))


def _job_of(document: Any) -> Job:
    failures = tuple(WarmFailure(**failure) for failure in document["failures"])
    return Job(**{**{name: document[name] for name in Job.__dataclass_fields__}, "failures": failures})
