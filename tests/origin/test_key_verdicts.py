"""Verdicts on keys of principals: one probe for all who doubt a key, and none for each doubt."""

import asyncio

from forebay.core.errors import OriginBroken
from forebay.core.task_registry import TaskRegistry
from forebay.origin.credential_refusal import CredentialRefusal
from forebay.origin.key_verdicts import CAPACITY, DOUBT_INTERVAL, KeyVerdicts
from forebay.protocol.signatures.signing_key import SecretKey

ALICE, BOB = SecretKey("alicethere", "s"), SecretKey("bobthere", "s")
REFUSAL = CredentialRefusal("ExpiredToken")


class Judged:
    """An origin that refuses the keys in `refused`, and a clock."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.sent: list[SecretKey] = []
        self.refused = {ALICE}
        self.failure: Exception | None = None
        self.verdicts = KeyVerdicts(self.send, lambda: self.now, TaskRegistry())

    async def send(self, key: SecretKey) -> CredentialRefusal | None:
        self.sent.append(key)
        await asyncio.sleep(0)
        if self.failure is not None:
            raise self.failure
        return REFUSAL if key in self.refused else None


async def test_each_key_has_a_verdict_of_its_own() -> None:
    judged = Judged()
    assert [await judged.verdicts.refusal_of(key) for key in (ALICE, BOB, ALICE)] == [REFUSAL, None, REFUSAL]
    assert judged.sent == [ALICE, BOB]


async def test_doubts_of_one_moment_share_a_probe() -> None:
    judged = Judged()
    assert await asyncio.gather(*(judged.verdicts.refusal_of(ALICE) for _ in range(5))) == [REFUSAL] * 5
    assert judged.sent == [ALICE]


async def test_a_verdict_ends() -> None:
    judged = Judged()
    assert await judged.verdicts.refusal_of(ALICE) == REFUSAL
    judged.refused.clear()
    judged.now += DOUBT_INTERVAL
    assert await judged.verdicts.refusal_of(ALICE) is None


async def test_a_reader_that_leaves_ends_no_probe() -> None:
    judged = Judged()
    async with asyncio.TaskGroup() as readers:
        first, second = (readers.create_task(judged.verdicts.refusal_of(ALICE)) for _ in range(2))
        await asyncio.sleep(0)
        first.cancel()
    assert first.cancelled()
    assert (second.result(), judged.sent) == (REFUSAL, [ALICE])


async def test_no_answer_is_no_refusal() -> None:
    judged = Judged()
    judged.failure = OriginBroken("status 503")
    assert await judged.verdicts.refusal_of(ALICE) is None


async def test_the_keys_are_bounded() -> None:
    judged = Judged()
    for number in range(CAPACITY + 1):
        await judged.verdicts.refusal_of(SecretKey(f"key{number}", "s"))
    await judged.verdicts.refusal_of(SecretKey("key1", "s"))
    assert len(judged.sent) == CAPACITY + 1
    await judged.verdicts.refusal_of(SecretKey("key0", "s"))
    assert len(judged.sent) == CAPACITY + 2
