"""What is prepared for batches counts as what it takes. What it answers: server/shared_memory/test_channel_batch.py."""

import tracemalloc

from multidict import CIMultiDict

from forebay.core.names import ObjectName
from forebay.policy.access import Grant, Principal
from forebay.policy.path_patterns import Pattern
from forebay.policy.rules import Rules
from forebay.protocol.operations import Access
from forebay.protocol.target import Target
from forebay.request.admission import EntryAdmission, GatewayPolicy, admit_form
from forebay.request.authentication import Keyring
from forebay.request.batch.cached_entries import PreparedEntry
from forebay.storage.memory.head_attachments import HeadAttachments
from forebay.storage.memory.memory_tier import MemoryTier
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
