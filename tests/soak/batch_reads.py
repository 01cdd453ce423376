"""Batches over HTTP, compared entry by entry: ordered or as they arrive, several on one connection, by clients that
read late or leave in the middle. Entries that came before an answer broke off are compared as well."""

import asyncio
import io
import json
import random
import tarfile
from dataclasses import dataclass
from typing import Final

from harness.raw_connection import RawAnswer
from soak.cell_content import CELL
from soak.client_requests import ClientRequest, RequestSender
from soak.data_bucket import DATA, data_keys
from soak.write_history import Since, WriteHistory

_LARGEST: Final = 48
_MISSING: Final = "back/never-written"


@dataclass(frozen=True, slots=True)
class BatchEntry:
    """What is asked for."""

    key: str
    start: int
    end: int | None
    since: Since

    @property
    def document(self) -> object:
        if self.end is None:
            return self.key
        return {"key": self.key, "start": self.start, "end": self.end}


class BatchReads:
    """See the module."""

    def __init__(self, sender: RequestSender, history: WriteHistory, rng: random.Random) -> None:
        self._sender, self._history, self._rng = sender, history, rng
        self._keys = [*data_keys(), _MISSING]

    async def act(self) -> None:
        roll = self._rng.random()
        if roll < 0.15:
            await self._sender.send_and_disconnect(self._request(self._entries(), is_ordered=True))
        elif roll < 0.3:
            entries, is_ordered = self._entries(), self._rng.random() < 0.5
            answer = await self._sender.send_reading_late(
                self._request(entries, is_ordered=is_ordered), self._rng.random() * 3
            )
            self._verify(entries, answer, is_ordered=is_ordered)
        else:
            batches = [self._entries() for _ in range(self._rng.randrange(1, 4))]
            is_ordered = self._rng.random() < 0.5
            requests = [self._request(entries, is_ordered=is_ordered) for entries in batches]
            for entries, answer in zip(batches, await self._sender.send_pipelined(requests), strict=True):
                self._verify(entries, answer, is_ordered=is_ordered)
        await asyncio.sleep(self._rng.random() * 0.1)

    def _entries(self) -> list[BatchEntry]:
        return [self._entry(self._rng.choice(self._keys)) for _ in range(self._rng.randrange(1, _LARGEST))]

    def _entry(self, key: str) -> BatchEntry:
        since = self._history.since(key)
        if self._rng.random() < 0.7:
            return BatchEntry(key, 0, None, since)
        start = self._rng.randrange(0, 1024) * CELL
        return BatchEntry(key, start, start + self._rng.randrange(1, 2048) * CELL, since)

    def _request(self, entries: list[BatchEntry], *, is_ordered: bool) -> ClientRequest:
        document = {"keys": [entry.document for entry in entries], "order": "listed" if is_ordered else "arrival"}
        return ClientRequest("POST", f"/{DATA}/.forebay/batch", body=json.dumps(document).encode())

    def _verify(self, entries: list[BatchEntry], answer: RawAnswer, *, is_ordered: bool) -> None:
        if answer.status in {0, 503}:
            return
        assert answer.status == 200, answer
        found = entries_in(answer.body, is_whole=not answer.aborted)
        if not answer.aborted:
            self._history.done["batches"] += 1
            assert len(found) == len(entries), f"{len(found)} of {len(entries)} entries"
        places = [int(records.get("FOREBAY.index", number)) for number, (_, records, _) in enumerate(found)]
        assert len({*places}) == len(places), f"an entry twice: {places}"
        assert not is_ordered or places == [*range(len(places))], places
        for place, (name, records, body) in zip(places, found, strict=True):
            entry = entries[place]
            assert records.get("FOREBAY.key", name) == entry.key, f"{name} in the place of {entry}"
            self._verify_entry(entry, records, body)

    def _verify_entry(self, entry: BatchEntry, records: dict[str, str], body: bytes) -> None:
        status = int(records.get("FOREBAY.status", "200"))
        if status == 404:
            self._history.verify_absent(entry.key, entry.since, "an entry of a batch")
        elif status == 416:
            self._history.verify_range_refused(entry.key, entry.since, entry.start, "an entry of a batch")
        elif status == 200:
            self._history.verify_body(entry.key, entry.since, body, "read in a batch", entry.start, entry.end)
        else:
            assert status in {500, 502, 503, 504}, (entry, records)


def entries_in(tar: bytes, *, is_whole: bool) -> list[tuple[str, dict[str, str], bytes]]:
    """Name, records and bytes of each whole entry."""
    assert not is_whole or tar.endswith(bytes(1024)), "the end of the TAR is missing"
    found: list[tuple[str, dict[str, str], bytes]] = []
    try:
        with tarfile.open(fileobj=io.BytesIO(tar)) as archive:
            for member in archive:
                file = archive.extractfile(member)
                body = file.read() if file is not None else b""
                if len(body) == member.size:
                    found.append((member.name, dict(member.pax_headers), body))
    except tarfile.ReadError:
        if is_whole:
            raise
    return found
