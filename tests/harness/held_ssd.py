"""The heads of an SSD tier, in a dictionary, whose removals wait for a gate of the test's: the writer is held at will.

It keeps no blocks. Heads are found until their removal is committed, and not afterwards, as in the SSD tier.
"""

from forebay.core.heads import Head
from forebay.core.names import BlockId, Generation, ObjectName
from forebay.storage.tier_contract import MISS, Miss
from harness.fake.gate import Gate


class HeldSsd:
    """In place of an SsdTier. `gate`: removals wait for it; None: they are committed at once."""

    trusted_from = 0.0

    def __init__(self) -> None:
        self.heads: dict[ObjectName, Head] = {}
        self.gate: Gate | None = None
        self.removals = 0

    def head(self, name: ObjectName) -> Head | None:
        return self.heads.get(name)

    def put_head(self, name: ObjectName, head: Head) -> None:
        self.heads[name] = head

    async def forget(self, name: ObjectName, keep: Generation | None = None) -> None:
        self.removals += 1
        if self.gate is not None:
            await self.gate.wait_open()
        self.heads.pop(name, None)

    async def forget_bucket(self, bucket: str) -> None:
        for name in [name for name in self.heads if name.bucket == bucket]:
            await self.forget(name)

    def admit(self, block: BlockId, buffer: object, pool: object = None, head: Head | None = None) -> bool:
        return False

    def has(self, block: BlockId) -> bool:
        return False

    def read_nowait(self, block: BlockId, length: int, within: object) -> Miss:
        return MISS
