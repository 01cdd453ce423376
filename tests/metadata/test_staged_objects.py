"""Staged objects: installed once the origin confirms their facts, and waited for meanwhile."""

import asyncio

from forebay.core.byte_ranges import Span
from forebay.core.names import Generation
from forebay.metadata.lookup_request import LookupRequest
from forebay.metadata.staged_objects import StagedBody, decode_staged, encode_staged
from forebay.origin.reads.read_outcomes import ErrorResponse
from harness.fake import actions
from harness.fake.gate import Gate
from harness.fetch_rig import BLOCK, DECISION, NAME, fetch_rig

GENERATION = Generation(bytes(range(8)))


async def test_a_staged_body_becomes_the_object_the_origin_confirms() -> None:
    async with fetch_rig() as rig:
        etag = rig.origin.store.put(*NAME, b"content").etag
        rig.staged.install(NAME, StagedBody(GENERATION, BLOCK, 7, etag))
        await rig.staged.wait_installed(NAME)
        head = rig.heads.current(NAME)
        assert head is not None
        assert (head.generation, head.size, head.version.etag) == (GENERATION, 7, etag)


async def test_a_staged_body_with_other_facts_is_not_installed() -> None:
    async with fetch_rig() as rig:
        etag = rig.origin.store.put(*NAME, b"content").etag
        for staged in (StagedBody(GENERATION, BLOCK, 8, etag), StagedBody(GENERATION, BLOCK, 7, '"other"')):
            rig.staged.install(NAME, staged)
            await rig.staged.wait_installed(NAME)
            assert rig.heads.current(NAME) is None


async def test_an_origin_that_refuses_leaves_nothing_installed() -> None:
    async with fetch_rig() as rig:
        rig.origin.store.create_bucket(NAME.bucket)
        rig.staged.install(NAME, StagedBody(GENERATION, BLOCK, 7, '"etag"'))
        await rig.staged.wait_installed(NAME)
        assert rig.heads.current(NAME) is None


async def test_a_write_ends_the_wait_for_an_installation() -> None:
    async with fetch_rig() as rig:
        etag = rig.origin.store.put(*NAME, b"content").etag
        rig.origin.faults.add(actions.HoldHead(gate := Gate()))
        rig.staged.install(NAME, StagedBody(GENERATION, BLOCK, 7, etag))
        async with asyncio.TaskGroup() as group:
            before = group.create_task(rig.staged.wait_installed(NAME))
            await gate.reached()
            rig.fences.raise_object(NAME)
            rig.staged.fence(NAME)
            await rig.staged.wait_installed(NAME)
            assert not before.done()
            gate.open()
        assert rig.heads.current(NAME) is None


async def test_an_object_that_was_found_deleted_meanwhile_is_not_installed() -> None:
    async with fetch_rig() as rig:
        etag = rig.origin.store.put(*NAME, b"content").etag
        rig.origin.faults.add(actions.HoldHead(gate := Gate()), times=1)
        rig.staged.install(NAME, StagedBody(GENERATION, BLOCK, 7, etag))
        await gate.reached()
        rig.origin.store.delete(*NAME)
        read = LookupRequest(NAME, DECISION, Span(0, BLOCK))
        assert isinstance(await rig.versions.fetch(read, None, strict=False), ErrorResponse)
        gate.open()
        await rig.staged.wait_installed(NAME)
        assert rig.heads.current(NAME) is None


def test_a_staged_body_decodes_to_what_was_encoded() -> None:
    staged = StagedBody(GENERATION, BLOCK, 7, '"etag"')
    assert decode_staged(encode_staged(staged)) == staged
