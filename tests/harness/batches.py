"""Batches as a test sends and reads them: JSON out, the TAR in by the standard library's tarfile."""

import io
import json
import tarfile
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

from harness.clients import Pairs
from harness.raw_connection import RawAnswer

_STATUS, _CODE, _KEY, _INDEX = "FOREBAY.status", "FOREBAY.code", "FOREBAY.key", "FOREBAY.index"


class Requesting(Protocol):
    """RawClient or OssClient."""

    async def request(self, method: str, target: str, headers: Pairs = (), body: bytes = b"") -> RawAnswer: ...


class ReadEntry(NamedTuple):
    """An entry of a TAR. A mark has a status and a code, and no body."""

    key: str
    body: bytes
    status: int = 200
    code: str = ""
    position: int | None = None


def batch_body(keys: Sequence[object], **fields: object) -> bytes:
    return json.dumps({"keys": list(keys), **fields}).encode()


async def send_batch(
    client: Requesting, bucket: str, keys: Sequence[object], headers: Pairs = (), **fields: object
) -> RawAnswer:
    return await client.request("POST", f"/{bucket}/.forebay/batch", headers, batch_body(keys, **fields))


async def read_batch(client: Requesting, bucket: str, keys: Sequence[object], **fields: Any) -> list[ReadEntry]:
    """Sends a batch, and reads all of its TAR."""
    answer = await send_batch(client, bucket, keys, **fields)
    assert (answer.status, answer.aborted) == (200, False), answer
    assert answer.headers["Content-Type"] == "application/x-tar"
    assert answer.headers["x-forebay-batch-entries"] == str(len(keys))
    return entries_in(answer.body)


def entries_in(tar: bytes) -> list[ReadEntry]:
    """The entries of a whole TAR."""
    assert tar.endswith(bytes(1024)), "the end of the TAR is missing"
    entries = []
    with tarfile.open(fileobj=io.BytesIO(tar)) as archive:
        for member in archive:
            file = archive.extractfile(member)
            assert file is not None, member
            records = member.pax_headers
            index = records.get(_INDEX)
            entries.append(
                ReadEntry(
                    records.get(_KEY, member.name),
                    file.read(),
                    int(records.get(_STATUS, "200")),
                    records.get(_CODE, ""),
                    None if index is None else int(index),
                )
            )
            assert member.name.startswith(".forebay/errors/") == (_STATUS in records), member
    return entries
