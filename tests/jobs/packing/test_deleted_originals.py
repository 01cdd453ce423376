"""Members and a listing side by side: whose originals are not there any more."""

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from forebay.jobs.packing.deleted_originals import PresentMembers, deleted_members
from forebay.origin.bucket_listing import ListedObject
from forebay.protocol.packs.packed_member import PackedMember, PackShard

KEYS = st.sets(st.text("ab/\u00e9\U0001f600", min_size=1, max_size=3))


@dataclass
class Source:
    keys: Sequence[str]
    shards: Sequence[PackShard] = field(default_factory=list)

    async def members(self) -> AsyncIterator[PackedMember]:
        for number, key in enumerate(self.keys):
            yield PackedMember(key, 0, 512 * number, 1, '"e"', 0, (), b"d" * 8)


async def listing(keys: set[str]) -> AsyncGenerator[ListedObject]:
    for key in sorted(keys, key=str.encode):
        yield ListedObject(key, 1, '"e"', 0.0)


@given(KEYS, KEYS, KEYS)
async def test_members_without_an_object_are_left_out(packed: set[str], there: set[str], pending: set[str]) -> None:
    source = Source(sorted(packed))
    present = PresentMembers(source)
    gone = set()
    async for number, member in deleted_members(source, listing(there), dict.fromkeys(pending)):
        present.leave_out(number)
        gone.add(member.key)
    assert gone == {key for key in packed if key not in there or key in pending}
    assert [member.key async for member in present.members()] == sorted(packed - gone)
