"""A batch of reads through Forebay, and the same reads one by one straight from the origin: each entry is the same."""

import json
from typing import TypeAlias

from differential.compared_answers import code_of
from differential.program import Batch, BatchEntry, Call
from differential.sides import Fields, Side
from harness.batches import ReadEntry, entries_in
from harness.raw_connection import RawAnswer

Outcome: TypeAlias = tuple[Fields, RawAnswer]
_FAILED = 300
_CODES_OF_S3 = {"InvalidObjectName": "InvalidArgument"}
"""What a mark names by S3's code for clients of OSS, too (docs/batches.md)."""


async def read_alone(side: Side, batch: Batch) -> Outcome:
    """Each entry by a GET. The last answer is for people."""
    fields: dict[str, str | bytes] = {}
    for number, entry in enumerate(batch.entries):
        answer = await side.send(Call(batch.number, "GET", batch.bucket, entry.key, headers=_range(entry)))
        status = str(answer.status) if answer.status >= _FAILED else "200"
        fields[f"status {number}"], fields[f"key {number}"] = status, entry.key
        if answer.status >= _FAILED:
            code = code_of(answer)
            fields[f"code {number}"] = _CODES_OF_S3.get(code, code)
        else:
            fields[f"body {number}"] = answer.body
    return fields, answer


async def read_together(side: Side, batch: Batch) -> Outcome:
    """All by one POST."""
    keys = [_document(entry) for entry in batch.entries]
    body = json.dumps({"keys": keys, "order": "arrival" if batch.by_arrival else "listed"})
    answer = await side.send(Call(batch.number, "POST", batch.bucket, ".forebay/batch", body=body))
    if answer.status != 200 or answer.aborted:
        return {"status": str(answer.status), "aborted": str(answer.aborted)}, answer
    fields: dict[str, str | bytes] = {}
    for at, read in enumerate(entries_in(answer.body)):
        number = at if read.position is None else read.position
        fields |= _fields(number, read)
    return fields, answer


def _fields(number: int, read: ReadEntry) -> Fields:
    last = ("code", read.code) if read.status >= _FAILED else ("body", read.body)
    return {f"status {number}": str(read.status), f"key {number}": read.key, f"{last[0]} {number}": last[1]}


def _range(entry: BatchEntry) -> tuple[tuple[str, str], ...]:
    if not entry.start and entry.stop is None:
        return ()
    span = f"bytes={entry.start}-{'' if entry.stop is None else entry.stop - 1}"
    return (("Range", span), ("x-oss-range-behavior", "standard"))  # else OSS sends all where a range ends behind it


def _document(entry: BatchEntry) -> object:
    if not entry.start and entry.stop is None:
        return entry.key
    bounds = {"start": entry.start, "end": entry.stop}
    return {"key": entry.key, **{name: bound for name, bound in bounds.items() if bound is not None}}
