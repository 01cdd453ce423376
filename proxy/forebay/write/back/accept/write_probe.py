"""Write probes: requests that prove the right to write and leave nothing behind, so that no write waits for the proof.

    put      an upload of the object is created, and aborted again
    delete   an object that nobody has made is deleted, in a bucket that keeps no versions (there it leaves no trace)
    both     whether the bucket keeps versions: its writes go through then, as their answers name them
    put      whether the bucket encrypts with KMS: its writes go through then, as nobody knows their ETags beforehand

A probe that the origin refuses proves nothing, also not that the write would be refused: that write goes through, and
gets the origin's own answer. Probes of one kind and folder are shared, and pause after a refusal.

A probe that gets no answer goes on for as long as any request does (origin.answer_timeout), and whoever waits for it is
refused before that: SDKs give up after 60 s, and a write that goes through would wait for the same silence once more.
"""

import asyncio
import logging
import secrets
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from cachetools import TTLCache

from forebay.core.errors import ForebayError, OriginUnreachable
from forebay.core.names import ObjectName
from forebay.core.task_registry import TaskRegistry
from forebay.origin.origin_request import OriginRequest
from forebay.origin.origins import Origins
from forebay.protocol.xml.s3_documents import upload_id, versioning_status
from forebay.write.back.accept.write_proofs import MAX_PROOFS, WriteProof, WriteProofs

WAIT: Final = 15.0
"""Seconds from its beginning for which a probe is waited for."""
PAUSE: Final = 10.0
"""Seconds between two probes of one kind and folder, after a refusal."""
LAST_SECONDS: Final = 300.0
"""The last seconds of a temporary credential, in which no write is acknowledged: it may be too late to carry it out."""
ABORTS: Final = 3
"""Attempts to abort the upload of a probe; then only the origin's own rules for unfinished uploads remove it."""
LONGEST_KEY: Final = 900
"""Bytes of a key that a probe's own key may be derived from; S3 allows 1024."""
_DOCUMENT: Final = 64 << 10

_log = logging.getLogger(__name__)


class WriteProbe:
    """Probes of one worker. `clock`: seconds from any origin."""

    def __init__(self, origins: Origins, proofs: WriteProofs, tasks: TaskRegistry, clock: Callable[[], float]) -> None:
        self._origins = origins
        self._proofs = proofs
        self._tasks = tasks
        self._clock = clock
        self.wait_seconds = WAIT
        self._under_way: dict[WriteProof, tuple[asyncio.Task[bool], float]] = {}
        """The probes under way, and the times at which they began."""
        self._refused: TTLCache[WriteProof, bool] = TTLCache(MAX_PROOFS, PAUSE, clock)

    async def prove(self, proof: WriteProof, name: ObjectName) -> None:
        """Probes the origin with this object, and adds the proof on success. Raises OriginUnreachable if the origin is
        silent."""
        if proof in self._refused:
            return
        if proof not in self._under_way:
            task = self._tasks.spawn(self._probe(proof, name), f"probe {proof.folder}")
            self._under_way[proof] = task, self._clock()
            task.add_done_callback(lambda _: self._under_way.pop(proof))
        task, began = self._under_way[proof]
        await asyncio.wait([task], timeout=max(0.0, began + self.wait_seconds - self._clock()))
        if not task.done():
            raise OriginUnreachable("no answer in time to whether it would take such a write")

    def credential_obstacle(self, bucket: str) -> str | None:
        """Returns the reason why Forebay's credential may fail to carry out an acknowledged write; None: none is known.
        Raises S3Error NoSuchBucket."""
        client = self._origins.of(bucket)
        if client.credential_check.fault is not None:
            return "the origin refuses the credential"
        return "the credential is about to end" if client.credentials.ends_within(LAST_SECONDS) else None

    async def _probe(self, proof: WriteProof, name: ObjectName) -> bool:
        try:
            is_proven = await self._learn_versioning(name.bucket) and await (
                self._delete(name) if proof.kind == "delete" else self._create(name)
            )
        except ForebayError as error:
            _log.info("%s can't be probed for writes: %s", proof.folder, error)
            return False
        if is_proven:
            self._proofs.add(proof)
        else:
            self._refused[proof] = True
        return is_proven

    async def _learn_versioning(self, bucket: str) -> bool:
        """Returns whether the bucket keeps no versions, for certain."""
        if self._proofs.is_versioned(bucket) is None:
            request = OriginRequest("GET", bucket, query=(("versioning", ""),), operation="GetBucketVersioning")
            async with await self._origins.send(request) as answer:
                document = await answer.read(_DOCUMENT)
            status = versioning_status(document) if answer.status == 200 else None
            if status is None:
                return False
            self._proofs.set_versioned(bucket, versioned=status != "")
        return self._proofs.is_versioned(bucket) is False

    async def _create(self, name: ObjectName) -> bool:
        created = OriginRequest("POST", *name, query=(("uploads", ""),), operation="CreateMultipartUpload")
        async with await self._origins.send(created) as answer:
            found = upload_id(await answer.read(_DOCUMENT)) if answer.status == 200 else None
            self._proofs.learn(name.bucket, answer.headers)
        if not found:
            return False
        self._tasks.spawn(self._abort(name, found), f"abort a probe of {name.path}")
        return True

    async def _abort(self, name: ObjectName, found: str) -> None:
        aborted = OriginRequest("DELETE", *name, query=(("uploadId", found),), operation="AbortMultipartUpload")
        for _ in range(ABORTS):
            with suppress(ForebayError):
                async with await self._origins.send(aborted) as answer:
                    await answer.read(_DOCUMENT)
                    if answer.status in {200, 204, 404}:  # 404: by an attempt whose answer was lost
                        return
        _log.warning("the upload %s of %s, which was a probe, can't be aborted", found, name.path)

    async def _delete(self, name: ObjectName) -> bool:
        if len(name.key.encode()) > LONGEST_KEY:
            return False
        key = f"{name.key}.forebay-probe-{secrets.token_hex(16)}"
        async with await self._origins.send(
            OriginRequest("DELETE", name.bucket, key, operation="DeleteObject")
        ) as answer:
            await answer.read(_DOCUMENT)
            return answer.status in {200, 204}
