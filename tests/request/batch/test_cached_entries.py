"""What is prepared for batches counts as what it takes, and which bytes of an object are found. What a batch answers:
server/shared_memory/test_channel_batch.py."""

import tracemalloc
from pathlib import Path

from multidict import CIMultiDict

from forebay.core.byte_ranges import Span
from forebay.core.events import ObjectRead
from forebay.core.names import ObjectName
from forebay.core.read_stream import ReadBatch, ReadStream
from forebay.policy.grants import Grant, Principal
from forebay.policy.path_patterns import Pattern
from forebay.policy.rules import Rules
from forebay.protocol.batch.batch_request import BatchEntry
from forebay.protocol.operations import Access
from forebay.protocol.target import Target
from forebay.request.admission import AdmittedEntry, EntryAdmission, GatewayPolicy, admit_form
from forebay.request.authentication import Keyring
from forebay.request.batch.cached_entries import BatchLookup, CachedEntries, EntryInFiles, PreparedEntry
from forebay.storage.memory.head_attachments import HeadAttachments
from forebay.storage.memory.memory_tier import MemoryTier
from harness.clients import path_of
from harness.fake_origin import FakeOrigin
from harness.rig import Rig
from harness.ssd_rig import head_for

NUMBER = 2000
POLICY = GatewayPolicy(Keyring({}, {}), Rules(()), (), {})


def test_a_prepared_entry_is_counted_as_what_it_takes() -> None:
    """In the costlier case: the principal may not read the whole bucket, so each entry has a permit of its own."""
    reader = Principal("reader", (Grant(Pattern("bucket/open/**"), frozenset({Access.READ, Access.WRITE})),))
    batch = admit_form(POLICY, reader, Target("", "", "bucket", "open/batch", ()), CIMultiDict())
    admission, memory = EntryAdmission(batch), MemoryTier(1 << 30)
    table = HeadAttachments[PreparedEntry](memory)
    named = []
    tracemalloc.start()  # before the heads: a count that is replaced by an attachment was theirs
    for number in range(NUMBER):
        _, head = head_for(f"open/{number:05}")
        name = ObjectName("bucket", f"open/{number:05}")
        memory.put_head(name, head)
        named.append((name, head))
    bare = memory.used
    before = tracemalloc.get_traced_memory()[0]
    for name, head in named:
        key = f"open/{name.key.removeprefix('open/')}"  # a text of its own, as one that was parsed
        admitted = admission.admit(key)
        assert admitted is not None
        table.attach(name, head, f"reader\0bucket\0{key}".encode(), PreparedEntry(POLICY, admitted, head))
    taken = (tracemalloc.get_traced_memory()[0] - before) / NUMBER
    tracemalloc.stop()
    counted = (memory.used - bare) / NUMBER
    assert len(table.by_key) == NUMBER
    assert 0.85 * counted <= taken <= counted * 1.02, (taken, counted)


CONTENT = bytes(range(250)) * 800
"""200,000 bytes: four blocks, the last of which is short."""
BLOCK = 64 << 10
SMALL, SIZE = CONTENT[:1000], len(CONTENT)
FOUND_OF_SMALL = [
    (0, None),
    (0, 1),
    (0, 999),
    (0, 1000),
    (0, 5000),
    (7, None),
    (7, 8),
    (7, 300),
    (999, 1000),
    (999, 7000),
]
FOUND_OF_LARGE = [
    (0, 1),
    (0, BLOCK),
    (BLOCK - 1, BLOCK),
    (BLOCK, BLOCK + 1),
    (BLOCK + 3, 2 * BLOCK),
    (BLOCK + 3, BLOCK + 10),
    (3 * BLOCK, None),
    (3 * BLOCK + 5, SIZE),
    (SIZE - 1, SIZE + 9),
]
NOT_FOUND_OF_LARGE = [(0, None), (BLOCK - 1, BLOCK + 1), (0, BLOCK + 1), (BLOCK, None), (SIZE, None), (SIZE + 5, None)]


async def test_what_is_found_are_the_bytes_of_the_range(tmp_path: Path) -> None:
    """Twice: what the first look prepares answers the second."""
    rest = '[[rules]]\npath = "**"\nfreshness = "immutable"\nblock = "64KiB"\n'
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, rest=rest) as rig:
        for key, content in (("small", SMALL), ("large", CONTENT), ("empty", b"")):
            origin.store.put("b", key, content)
            assert (await rig.client().request("GET", path_of("b", key))).body == content
        parts, policy = rig.parts, rig.parts.context.policy()
        reads = parts.requests.gateway.reader.reads
        cached = CachedEntries(parts.metadata.resolver, parts.metadata.packed, parts.storage.tiers, reads)
        principal = policy.keyring.principal("trainer")
        assert principal is not None
        admission = admit_form(policy, principal, Target("", "", "b", "batch", ()), CIMultiDict())
        for _ in range(2):
            lookup = BatchLookup(cached, admission, no_cache=False)
            for key, content, ranges in (
                ("small", SMALL, FOUND_OF_SMALL),
                ("large", CONTENT, FOUND_OF_LARGE),
                ("empty", b"", [(0, None)]),
            ):
                for start, end in ranges:
                    found = lookup.find(BatchEntry(key, start, end))
                    assert found is not None, (key, start, end)
                    assert not isinstance(found, EntryInFiles | AdmittedEntry), (key, start, end)
                    _, span, buffer, source = found
                    assert (bytes(buffer), source) == (content[start:end], "memory"), (key, start, end)
                    assert (span or Span(0, len(content))) == Span(start, min(end or len(content), len(content)))
            for start, end in NOT_FOUND_OF_LARGE:
                assert isinstance(lookup.find(BatchEntry("large", start, end)), AdmittedEntry), (start, end)
            assert isinstance(lookup.find(BatchEntry("small", 1000, None)), AdmittedEntry)


async def test_a_repeated_read_of_all_of_an_object_is_a_number(tmp_path: Path) -> None:
    """As a read of the fast lane is, so that plans, recordings and statistics count both alike."""
    rest = '[[rules]]\npath = "**"\nfreshness = "immutable"\n'
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, rest=rest) as rig:
        origin.store.put("b", "small", SMALL)
        assert (await rig.client().request("GET", path_of("b", "small"))).body == SMALL
        parts, policy, batches = rig.parts, rig.parts.context.policy(), list[ReadBatch]()
        reads = ReadStream(parts.context.timers)
        cached = CachedEntries(parts.metadata.resolver, parts.metadata.packed, parts.storage.tiers, reads)
        principal = policy.keyring.principal("trainer")
        assert principal is not None
        admission = admit_form(policy, principal, Target("", "", "b", "batch", ()), CIMultiDict())
        lookup = BatchLookup(cached, admission, no_cache=False)

        def read(start: int = 0, end: int | None = None) -> None:
            found = lookup.find(BatchEntry("small", start, end))
            assert found is not None
            assert not isinstance(found, EntryInFiles | AdmittedEntry)
            lookup.report(found[0], found[1], found[3])

        read()
        assert reads.deliver() == 0, "nobody subscribes"
        end = reads.subscribe(batches.append)
        read(0, 1)
        for _ in range(3):
            read()
        assert reads.deliver() == 4
        [group] = batches.pop().groups
        assert (len(group.transient), group.known.keys) == (1, ["small"])
        name, whole = ObjectName("b", "small"), Span(0, len(SMALL))
        expected = ObjectRead(name, whole, len(SMALL), "trainer", "**", "hit-memory", 1.0, "")
        assert list(group.reads()) == [expected._replace(span=Span(0, 1)), expected, expected, expected]
        end()
        read()
        end = reads.subscribe(batches.append)
        read()
        assert reads.deliver() == 1, "what was read while nobody subscribed is left out"
        end()
