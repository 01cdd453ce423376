"""Batches on their way between workers: the same reads arrive, and objects are named once."""

import json
from typing import Any

import pytest

from forebay.core.byte_ranges import Span
from forebay.core.events import ObjectRead
from forebay.core.names import ObjectName
from forebay.core.read_log import NO_LOG, LogContext
from forebay.core.read_stream import BATCH_SECONDS, ReadBatch, ReadStream
from forebay.peers.read_codec import BatchDecoder, BatchEncoder, UnknownReads
from harness.manual_timers import ManualTimers

CONTEXT = LogContext("bucket", "user", "rule", "track")


def read(key: str, span: Span, cached: float = 0.5) -> ObjectRead:
    return ObjectRead(ObjectName("bucket", key), span, 9, "user", "set", "partial", cached, "set")


class SenderRig:
    """A worker's stream, its encoder, and the collector's decoder."""

    def __init__(self) -> None:
        self.timers = ManualTimers()
        self.stream = ReadStream(self.timers, 3)
        self.batches: list[ReadBatch] = []
        self.stream.subscribe(self.batches.append)
        self.encoder, self.decoder = BatchEncoder(), BatchDecoder()
        self.known: dict[str, Any] = {}

    def hit(self, *keys: str) -> ReadBatch:
        for key in keys:
            log, code = self.known.get(key, (NO_LOG, 0))
            self.known[key] = self.stream.add_whole(CONTEXT, key, 5, log, code)
        self.timers.advance(BATCH_SECONDS)
        return self.batches.pop()

    def send(self, batch: ReadBatch, *, answered: bool = True) -> tuple[ReadBatch, list[str | None]]:
        """What arrives, and the names on the wire."""
        document, sent = self.encoder.encode(batch)
        found = self.decoder.decode(json.loads(json.dumps(document)))
        if answered:
            self.encoder.confirm(sent)
        return found, [each["keys"] for each in document["groups"]]


@pytest.mark.parametrize(
    "reads",
    [
        [read("a", Span(2, 5), 1.0), read("b", Span(2, 5)), read("a", Span(2, 5))],
        [read("a", Span(0, 9)), read("line\nfeed", Span(0, 9)), read("\u00e4", Span(0, 9))],
    ],
)
def test_transient_reads_arrive_as_they_are(reads: list[ObjectRead]) -> None:
    document, _ = BatchEncoder().encode(ReadBatch.of(reads, 1, 4))
    found = BatchDecoder().decode(json.loads(json.dumps(document)))
    assert (found.reads, found.worker, found.dropped) == (reads, 1, 4)


def test_objects_are_named_once() -> None:
    rig = SenderRig()
    for keys, names in (("ab", "a\0b"), ("ba", None), ("cab", "c")):
        batch = rig.hit(*keys)
        found, sent = rig.send(batch)
        assert (found.reads, sent) == (batch.reads, [names])
        assert [read.name.key for read in found.reads] == list(keys)


def test_a_batch_whose_answer_was_lost_may_come_again() -> None:
    rig = SenderRig()
    first = rig.hit("a", "b")
    rig.send(first, answered=False)
    assert rig.send(first)[0].reads == first.reads
    second = rig.hit("c", "a")
    assert rig.send(second)[0].reads == second.reads


def test_a_collector_that_was_restarted_knows_no_names() -> None:
    rig = SenderRig()
    rig.send(rig.hit("a"))
    rig.decoder = BatchDecoder()
    batch = rig.hit("a")
    with pytest.raises(UnknownReads):
        rig.send(batch)
    rig.encoder.forget()
    assert rig.send(batch)[0].reads == batch.reads


def test_a_new_log_of_a_context_takes_the_place_of_the_old_one() -> None:
    rig = SenderRig()
    rig.send(rig.hit("a"))
    rig.stream = ReadStream(rig.timers, 3)
    rig.stream.subscribe(rig.batches.append)
    rig.known.clear()
    batch = rig.hit("z", "a")
    found, sent = rig.send(batch)
    assert (found.reads, sent) == (batch.reads, ["z\0a"])


def test_a_read_that_nothing_names_does_not_fit() -> None:
    rig = SenderRig()
    document, _ = rig.encoder.encode(rig.hit("a", "b"))
    document["groups"][0] |= {"keys": "a", "extents": [11]}
    with pytest.raises(ValueError, match="without a name"):
        rig.decoder.decode(document)


def test_a_transient_read_that_is_not_there_does_not_fit() -> None:
    reads = [read("a", Span(2, 5)), read("b", Span(2, 5))]
    document, _ = BatchEncoder().encode(ReadBatch.of(reads))
    columns = document["groups"][0]["transient"]
    document["groups"][0]["transient"] = {**columns, "keys": "a"} | {
        name: columns[name][:1] for name in ("spans", "sizes", "caches", "shares")
    }
    with pytest.raises(ValueError, match="without a name"):
        BatchDecoder().decode(document)


def test_a_group_arrives_with_the_time_of_its_reads() -> None:
    rig = SenderRig()
    sent = rig.hit("a", "b")
    found, _ = rig.send(sent)
    assert [each.drained_at for each in found.groups] == [BATCH_SECONDS] == [each.drained_at for each in sent.groups]
