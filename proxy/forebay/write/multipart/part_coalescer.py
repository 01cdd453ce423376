"""Part coalescing: an OSS client's small parts at an S3 origin, which accepts none below 5 MiB but the last.

    UploadPart                forwarded under its own number, so that the origin has it and lists it; a small one is
                              spooled here as well
    CompleteMultipartUpload   small neighbours are joined (forebay.policy.part_coalescing), uploaded again under the
                              number of the first, and the completion names those

Only parts that the origin has confirmed are coalesced (multipart_registry), and their spooled bytes are compared with
their digests before the completion is sent. Where bytes are missing (the worker was restarted, or the upload was idle
for too long) a completion that needs them is refused: EntityTooSmall. The upload stays as it is, and the client may
upload those parts again.

A client of S3 may complete what one of OSS began: its completion is sent as it is, but for the spelling of ETags.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from hashlib import md5
from typing import Final, assert_never

from forebay.core.cooperative import CooperativeWork, run_cooperatively
from forebay.core.errors import OriginBroken, S3Error, SpoolFailed
from forebay.origin.origin_identity import request_credential
from forebay.origin.origin_request import UNSIGNED_PAYLOAD, OriginRequest
from forebay.origin.origins import Origins
from forebay.policy.part_coalescing import MIN_PART_SIZE, CandidatePart, CoalescedParts, PartTooSmall, coalesce_parts
from forebay.protocol.xml.s3_documents import UploadedPart, write_completion_cooperatively
from forebay.storage.spool import Spool
from forebay.storage.spool_space import spool_full
from forebay.storage.spooled_body import SpooledBody
from forebay.write.body_digest import BodyDigest, combine_digests, combining_digests
from forebay.write.forward_request import ForwardRequest
from forebay.write.multipart.multipart_registry import KnownPart, MultipartRegistry
from forebay.write.repeated_completion import completion_digest

PARALLEL_UPLOADS: Final = 4
"""Coalesced parts under way to the origin at a time, per completion."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class CoalescedCompletion:
    """A completion as the origin is sent it."""

    body: bytes
    digest: BodyDigest | None
    """The digest of the object; None where a part is unknown."""
    joined_from: str = ""
    """The `completion_digest` of the client's document, if parts were joined; else empty."""


class PartCoalescer:
    """Spools small parts and joins them. `least`: bytes of a part that an origin accepts anywhere; OSS accepts
    smaller ones."""

    def __init__(self, origins: Origins, spool: Spool, registry: MultipartRegistry, least: int = MIN_PART_SIZE) -> None:
        self._origins = origins
        self._spool = spool
        self._registry = registry
        self._least = least

    def spool(self, forward: ForwardRequest) -> SpooledBody | None:
        """Returns where the bytes of a part are spooled; None: nowhere. Raises SpoolFull where the spool has no space
        for the part: better now than when the upload can't be completed. Space and memory are reserved as the bytes
        arrive."""
        if forward.operation.name != "UploadPart" or not forward.speaks_oss:
            return None
        size = forward.length
        if size is None or not 0 < size < self._least_of(forward):
            return None
        if not self._spool.has_space(size):
            self._registry.expire()
        if not self._spool.has_space(size):
            raise spool_full()
        return self._spool.create()

    async def coalesce(
        self, forward: ForwardRequest, body: bytes, listed: Sequence[UploadedPart] | None
    ) -> CoalescedCompletion:
        """Returns the completion with its small parts joined. `listed`: the parts in its `body`, None where that is for
        the origin to judge. Raises S3Error EntityTooSmall where they can't be joined, InvalidPart, InvalidPartOrder,
        and what the origin fails with."""
        if listed is None:
            return CoalescedCompletion(body, None)
        known = self._registry.lookup(forward.upload, listed)
        digests = [part.digest for part in known if part is not None]
        digest = await run_cooperatively(combining_digests(digests)) if len(digests) == len(listed) else None
        least = self._least_of(forward)
        if not forward.speaks_oss:
            return CoalescedCompletion(await _as_the_origin_spells(body, listed, known), digest)
        if not least:
            return CoalescedCompletion(body, digest)
        numbers = [each.number for each in listed]
        if numbers != sorted(set(numbers)):  # which the origin could not see once they are joined
            raise S3Error("InvalidPartOrder")
        plan = await run_cooperatively(_planning(listed, known, least))
        match plan:
            case PartTooSmall() if self._registry.conflicts(forward.upload, listed):
                raise S3Error("InvalidPart")
            case PartTooSmall(part):
                raise S3Error(
                    "EntityTooSmall",
                    f"Part {part.number} is smaller than the 5 MiB that the origin takes, and can't be put together "
                    "with its neighbours: it is between large ones, or its bytes are not held here any more. Upload "
                    "the small parts again, or use parts of 5 MiB.",
                    PartNumber=str(part.number),
                )
            case CoalescedParts(runs):
                pass
            case _:
                assert_never(plan)
        if all(len(run) == 1 for run in runs):
            return CoalescedCompletion(body, digest)
        numbered = {each.number: part for each, part in zip(listed, known, strict=True) if part is not None}
        etags = {each.number: each.etag for each in listed}
        joined = [[numbered[each.number] for each in run] for run in runs if len(run) > 1]
        firsts = [run[0].number for run in runs if len(run) > 1]
        etags |= await self._upload_runs(forward, dict(zip(firsts, joined, strict=True)))
        final = [UploadedPart(run[0].number, etags[run[0].number]) for run in runs]
        document = await run_cooperatively(write_completion_cooperatively(final))
        return CoalescedCompletion(document, digest, completion_digest(body))

    def _least_of(self, forward: ForwardRequest) -> int:
        return 0 if self._origins.of(forward.target.bucket).dialect.speaks_oss else self._least

    async def _upload_runs(self, forward: ForwardRequest, runs: dict[int, list[KnownPart]]) -> dict[int, str]:
        """Uploads runs of small parts, each under its first number; returns the ETags under these numbers."""
        limit = asyncio.Semaphore(PARALLEL_UPLOADS)

        async def upload(number: int, parts: list[KnownPart]) -> tuple[int, str]:
            async with limit:
                return number, await self._upload_run(forward, number, parts)

        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(upload(number, parts)) for number, parts in runs.items()]
        except BaseExceptionGroup as failures:
            raise failures.exceptions[0] from None
        return dict(task.result() for task in tasks)

    async def _upload_run(self, forward: ForwardRequest, number: int, parts: list[KnownPart]) -> str:
        key, expected = forward.upload, combine_digests(part.digest for part in parts)
        if parts[0].coalesced == expected:  # by an earlier try
            return parts[0].coalesced_etag

        async def pieces() -> AsyncIterator[bytes]:
            sent = BodyDigest()
            for part in parts:
                if part.spooled is None:
                    raise S3Error("InternalError")
                try:
                    async for piece in part.spooled.pieces():
                        sent.update(piece)
                        yield piece
                except SpoolFailed as error:
                    _log.warning("a part of an upload to %s can't be coalesced: %s", key.name.path, error)
                    raise S3Error("EntityTooSmall", "The bytes of small parts are gone. Upload them again.") from error
            if sent != expected:
                _log.error("spooled parts of an upload to %s were damaged", key.name.path)
                raise S3Error("InternalError", "Bytes that were held here were damaged. Upload the parts again.")

        request = OriginRequest(
            "PUT",
            *key.name,
            query=(("partNumber", str(number)), ("uploadId", key.upload_id)),
            body=pieces(),
            content_length=expected.size,
            payload_hash=UNSIGNED_PAYLOAD,
            operation="UploadPart",
            credential=await request_credential(forward.identity),
        )
        async with await self._origins.send(request) as answer:
            etag = answer.headers.get("ETag", "")
            if answer.status == 404:  # the origin answers the completion: it may be a repeated one
                return await _etag_of(pieces())
            if answer.status != 200 or not etag:
                raise OriginBroken(f"a coalesced part was answered with {answer.status}")
        await self._registry.note_coalesced(key, number, etag, expected)
        return etag


async def _etag_of(pieces: AsyncIterator[bytes]) -> str:
    """Returns the ETag that a part of these bytes has at an origin."""
    digest = md5(usedforsecurity=False)
    async for piece in pieces:
        digest.update(piece)
    return f'"{digest.hexdigest()}"'


def _planning(
    listed: Sequence[UploadedPart], known: Sequence[KnownPart | None], least: int
) -> CooperativeWork[CoalescedParts | PartTooSmall]:
    """Plans how the parts of a completion are joined, cooperatively: there may be ten thousand."""
    parts = [
        CandidatePart(each.number, part.digest.size, part.spooled is not None)
        if part
        else CandidatePart(each.number, None, False)
        for each, part in zip(listed, known, strict=True)
    ]
    yield
    return coalesce_parts(parts, least)


async def _as_the_origin_spells(
    body: bytes, listed: Sequence[UploadedPart], known: Sequence[KnownPart | None]
) -> bytes:
    """Returns a completion with the ETags of its parts as the origin has answered them: an OSS client was sent them in
    upper case, and origins compare them as they are. `known`: the listed parts, as far as they are known.

    A part that was joined with the next ones is listed by the ETag of the joined bytes. Its own takes the place of
    that, so the origin refuses the completion: the bytes of the next parts would be in the object twice."""
    spelled = [
        each if part is None or each.etag.strip('"') == part.etag.strip('"') else each._replace(etag=part.etag)
        for each, part in zip(listed, known, strict=True)
    ]
    return body if spelled == list(listed) else await run_cooperatively(write_completion_cooperatively(spelled))
