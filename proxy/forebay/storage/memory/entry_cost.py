"""What the memory tier counts blocks and heads as beside their bytes: the objects that Python keeps for them."""

from typing import Final

from forebay.core.heads import Head
from forebay.core.names import ObjectName

# What a block costs beside its bytes: BlockId, ObjectName-sharing aside, its place in the LRU order and in the object's
# table, the memoryview and the bytes object's own header; and one block that is remembered without being kept. Measured
# with tracemalloc over 100,000 blocks: see tests/storage/memory/test_memory_tier.py, which fails when the constant has
# become a lie.
BLOCK_OVERHEAD: Final = 850
# What one costs on top that lies in a file (forebay.storage.memory.arenas).
SHARED_OVERHEAD: Final = 250
# The same for a head: its objects and its place; the texts are counted by length on top.
HEAD_OVERHEAD: Final = 1300
PAIR_OVERHEAD: Final = 130
# And for what is kept ready beside a head (forebay.server.fastpath.prepared_response). The key it is found by is
# counted on top, and
# so are the texts of the head's headers, as they stand in it once more.
READY_OVERHEAD: Final = 2100


def head_cost(name: ObjectName, head: Head) -> int:
    facts = head.facts
    texts = len(name.bucket) + len(name.key) + len(facts.version.etag) + len(facts.last_modified)
    texts += sum(len(field_name) + len(value) + PAIR_OVERHEAD for field_name, value in facts.headers)
    return HEAD_OVERHEAD + texts


def ready_cost(name: ObjectName, head: Head, key: bytes) -> int:
    return READY_OVERHEAD + len(key) + head_cost(name, head) - HEAD_OVERHEAD
