"""Copies of what one request does not copy, as parts."""

import asyncio
from concurrent.futures import ThreadPoolExecutor

import pytest

from forebay_client import Client, ConditionNotMet, InvalidRequest
from forebay_client.object_copies import copy_object
from harness.fake.actions import Respond
from harness.fake_origin import FakeOrigin

PART = 5 << 20
CONTENT = bytes(range(256)) * (12 << 12)
TOO_LARGE = Respond(400, "InvalidRequest", "The specified copy source is larger than the maximum allowable size")


def client_of(origin: FakeOrigin) -> Client:
    secret = origin.secret
    return Client(origin.endpoint, access_key=secret.access, secret_key=secret.secret, retries=0)


async def test_a_large_source_is_copied_in_parts() -> None:
    async with FakeOrigin() as origin:
        origin.store.put("b", "a b+%", CONTENT, content_type="text/x", x_amz_meta_label="cat")
        origin.faults.add(TOO_LARGE, operation="CopyObject")

        def dialogue() -> None:
            with client_of(origin) as client, ThreadPoolExecutor(2) as executor:
                source, target = ("b", "a b+%"), ("b", "copy")
                with pytest.raises(InvalidRequest, match="larger than"):
                    copy_object(client.send_request, source, target, executor)
                copy_object(client.send_request, source, target, executor, largest=1 << 20, part_size=PART)
                assert bytes(client.get("b", "copy")) == CONTENT
                found = client.head("b", "copy")
                assert (found.content_type, found.metadata) == ("text/x", {"label": "cat"})

        await asyncio.to_thread(dialogue)
        assert origin.log.count(operation="UploadPartCopy") == 3


async def test_a_source_that_changes_makes_no_copy() -> None:
    async with FakeOrigin() as origin:
        origin.store.put("b", "source", CONTENT)
        origin.faults.add(TOO_LARGE, operation="CopyObject")
        origin.faults.add(Respond(412, "PreconditionFailed"), operation="UploadPartCopy", skip=1)

        def dialogue() -> None:
            with (
                client_of(origin) as client,
                ThreadPoolExecutor(1) as executor,
                pytest.raises(ConditionNotMet),
            ):
                copy_object(client.send_request, ("b", "source"), ("b", "copy"), executor, largest=1, part_size=PART)

        await asyncio.to_thread(dialogue)
        assert origin.store.current("b", "copy") is None
        assert not origin.store.bucket("b").uploads
