"""The key lists of plans: whose they are, and when one goes that no plan uses."""

from collections.abc import AsyncIterator
from hashlib import sha256
from pathlib import Path

import pytest

from forebay.jobs.plans.plan_files import plan_id
from forebay.jobs.plans.plan_key_lists import KEPT_SECONDS, MAX_UNUSED
from forebay.jobs.plans.plan_store import PlanRecord, PlanStore
from forebay.policy.grants import Grant, Principal
from forebay.policy.path_patterns import Pattern
from forebay.protocol.operations import Access

ALL = Principal("p", (Grant(Pattern("**"), frozenset({Access.READ})),))


class KeyListTest:
    """A store whose clock the test sets."""

    def __init__(self, directory: Path) -> None:
        self.now, self.clock = 100.0, 1e9
        self.directory = directory
        self.store = self.restarted()

    def restarted(self) -> PlanStore:
        return PlanStore(self.directory, lambda: self.clock, lambda: self.now)

    async def send(self, number: int, principal: str = "p") -> str:
        """Returns the digest of a list that is sent."""
        digest = sha256(body := f"key-{number}\n".encode()).hexdigest()
        await self.store.receive_keys("b", principal, digest, _pieces(body))
        self.now += 1.0
        self.clock += 1.0
        return digest

    async def plan(self, digest: str, name: str = "order") -> PlanRecord:
        """Sends a plan over a list."""
        body = b"FBPLAN1\n" + bytes.fromhex(digest) + bytes(4) + (1).to_bytes(4, "little") + bytes(4)
        record = PlanRecord(plan_id("b", "p", name), "b", "p", name, self.clock, 0, 0)
        return await self.store.receive(record, ALL, _pieces(body))

    async def digests(self, principal: str = "p") -> list[str]:
        return sorted([each.digest for each in await self.store.key_lists.of("b", principal)])


def names_in(directory: Path) -> list[str]:
    return [each.name for each in directory.iterdir() if not each.name.startswith(".")]


async def _pieces(content: bytes) -> AsyncIterator[bytes]:
    yield content


async def test_lists_are_their_senders_alone(tmp_path: Path) -> None:
    test = KeyListTest(tmp_path)
    digest = await test.send(0)
    assert await test.digests() == [digest]
    assert await test.digests("q") == []
    await test.store.key_lists.remove("b", "q", digest)
    assert await test.store.key_lists.find("b", "q", digest) is None
    await test.store.key_lists.remove("b", "p", digest)
    assert await test.digests() == []


async def test_a_list_is_removed_a_day_after_its_last_use(tmp_path: Path) -> None:
    test = KeyListTest(tmp_path)
    unused, used = await test.send(0), await test.send(1)
    test.now += KEPT_SECONDS - 100.0
    await test.store.remove(await test.plan(used))
    assert await test.digests() == sorted([unused, used])
    test.now += 200.0
    assert await test.digests() == [used]
    test.now += KEPT_SECONDS
    assert await test.store.plans() == []
    assert names_in(tmp_path) == []


@pytest.mark.parametrize("step", [10 * KEPT_SECONDS, -10 * KEPT_SECONDS])
async def test_a_clock_that_is_set_removes_no_list(tmp_path: Path, step: float) -> None:
    test = KeyListTest(tmp_path)
    digest = await test.send(0)
    assert await test.digests() == [digest]
    test.clock += step
    assert await test.digests() == [digest]
    test.store = test.restarted()
    assert await test.digests() == [digest]
    test.now += KEPT_SECONDS + 1.0
    assert await test.digests() == []


async def test_a_use_by_another_worker_counts(tmp_path: Path) -> None:
    test = KeyListTest(tmp_path)
    digest, other = await test.send(0), test.restarted()
    assert await test.digests() == [digest]
    test.now += KEPT_SECONDS - 10.0
    test.clock -= 5.0
    found = await other.key_lists.open("b", "p", digest)
    assert found is not None
    found[1].close()
    assert await test.digests() == [digest]
    test.now += 20.0
    assert await test.digests() == [digest]


async def test_a_list_stays_as_long_as_a_plan_uses_it(tmp_path: Path) -> None:
    test = KeyListTest(tmp_path)
    digest = await test.send(0)
    record = await test.plan(digest)
    test.now += 10 * KEPT_SECONDS
    assert await test.digests() == [digest]
    await test.store.remove(record)
    assert await test.digests() == [digest]
    test.now += KEPT_SECONDS + 1.0
    assert await test.digests() == []


async def test_lists_of_one_key_push_out_no_other_keys(tmp_path: Path) -> None:
    test = KeyListTest(tmp_path)
    other = await test.send(0, "q")
    sent = [await test.send(number) for number in range(MAX_UNUSED + 10)]
    assert await test.digests("q") == [other]
    assert await test.digests() == sorted(sent[-(MAX_UNUSED - 1) :])


async def test_a_list_is_kept_beside_many_that_are_used(tmp_path: Path) -> None:
    """It is about to be named by a plan."""
    test = KeyListTest(tmp_path)
    for number in range(MAX_UNUSED):
        await test.plan(await test.send(number), f"order-{number}")
    latest = await test.send(MAX_UNUSED)
    assert latest in await test.digests()
