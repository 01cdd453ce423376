"""The check of Forebay's own credential: its states, when it probes, and what it logs."""

import asyncio
import logging

import pytest

from forebay.core.errors import OriginBroken, OriginCredentialFault
from forebay.origin.credential_check import CHECK_INTERVAL, RETRY_INTERVAL, CredentialCheck
from forebay.origin.credential_refusal import CredentialRefusal, missing_credential
from forebay.origin.credentials import ANONYMOUS, StaticCredentials
from forebay.origin.key_verdicts import DOUBT_INTERVAL
from forebay.protocol.signatures.signing_key import SecretKey
from harness.inspection import run_loop_until

KEY = SecretKey("AKIAOURS", "secret")
REFUSAL = CredentialRefusal("InvalidAccessKeyId")
REFUSED = "the origin refuses Forebay's key AKIAOURS: InvalidAccessKeyId"


class Checked:
    """An origin that judges the key as `result` says, and a clock."""

    def __init__(self, credentials: StaticCredentials | None = None) -> None:
        self.now = 1000.0
        self.sent: list[SecretKey] = []
        self.result: CredentialRefusal | Exception | None = None
        self.check = CredentialCheck(
            credentials or StaticCredentials(KEY), self.send, "r", clock=lambda: self.now, monotonic=lambda: self.now
        )

    async def send(self, key: SecretKey) -> CredentialRefusal | None:
        self.sent.append(key)
        if isinstance(self.result, Exception):
            raise self.result
        return self.result


class NoCredentials(StaticCredentials):
    def __init__(self) -> None:
        super().__init__(None)

    async def current(self) -> SecretKey | None:
        raise missing_credential("nothing found")


async def test_the_states() -> None:
    checked = Checked()
    assert await checked.check.check() == "accepted"
    checked.result = REFUSAL
    assert await checked.check.check() == "refused"
    assert checked.check.fault is not None
    assert checked.check.fault.reason == REFUSED
    checked.result = OriginBroken("status 503")  # says nothing of the key
    assert await checked.check.check() == "refused"
    checked.result = None
    assert await checked.check.check() == "accepted"
    assert checked.sent == [KEY] * 4


async def test_nothing_is_sent_without_a_key() -> None:
    anonymous, missing = Checked(ANONYMOUS), Checked(NoCredentials())
    assert await anonymous.check.check() == "anonymous"
    assert await missing.check.check() == "missing"
    assert missing.check.fault is not None
    assert missing.check.fault.reason == "Forebay has no credential for the origin: nothing found"
    assert anonymous.sent == missing.sent == []


async def test_probes_are_due_by_the_news_of_the_key() -> None:
    checked = Checked()
    await checked.check.check_if_due()
    await checked.check.check_if_due()
    assert len(checked.sent) == 1
    checked.now += CHECK_INTERVAL - 1
    checked.check.succeeded(checked.now)  # a request's success is news as well
    checked.now += CHECK_INTERVAL - 1
    await checked.check.check_if_due()
    assert len(checked.sent) == 1
    checked.now += 1
    checked.result = REFUSAL
    assert await checked.check.check_if_due() == "refused"
    checked.now += RETRY_INTERVAL
    checked.result = None
    assert await checked.check.check_if_due() == "accepted"
    assert len(checked.sent) == 3


async def test_changes_are_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    checked = Checked()
    with caplog.at_level(logging.INFO, "forebay"):
        checked.result = REFUSAL
        await checked.check.check()
        await checked.check.check()
        checked.check.refused(REFUSAL, KEY, own=True)
        checked.result = None
        await checked.check.check()
    assert [record.getMessage() for record in caplog.records] == [REFUSED, "the origin accepts Forebay's key AKIAOURS"]


async def test_refused_requests_raise_a_suspicion_only() -> None:
    """A bucket of another region is refused under any key, and any client may name one."""
    checked = Checked()
    await checked.check.check()
    checked.now += RETRY_INTERVAL
    fault = checked.check.refused(REFUSAL, KEY, own=True)
    assert fault.reason == REFUSED
    await run_loop_until(lambda: len(checked.sent) == 2)
    await checked.check.check()
    assert (checked.check.state, checked.check.fault) == ("accepted", None)
    checked.check.refused(REFUSAL, KEY, own=True)
    await asyncio.sleep(0)
    assert len(checked.sent) == 3  # none for each refused request


async def test_a_principals_key_says_nothing_of_our_own() -> None:
    checked = Checked()
    await checked.check.check()
    checked.now += RETRY_INTERVAL
    fault = checked.check.refused(REFUSAL, SecretKey("alicethere", "s"), own=False)
    assert fault.reason.startswith("the origin refuses alicethere, the origin credential of a key of auth.keys: ")
    await asyncio.sleep(0)
    assert (checked.check.state, len(checked.sent)) == ("accepted", 1)


async def test_a_doubtful_response_waits_for_the_verdict() -> None:
    checked = Checked()
    checked.result = REFUSAL
    assert isinstance(await checked.check.check_if_doubtful(), OriginCredentialFault)
    checked.result = None
    assert isinstance(await checked.check.check_if_doubtful(), OriginCredentialFault)  # by the news of just now
    checked.now += RETRY_INTERVAL
    assert await checked.check.check_if_doubtful() is None


async def test_a_success_before_does_not_settle_the_doubt() -> None:
    """A key may expire a moment after it was accepted."""
    checked = Checked()
    await checked.check.check()
    checked.now += DOUBT_INTERVAL
    checked.check.succeeded(checked.now)
    checked.result = REFUSAL
    assert isinstance(await checked.check.check_if_doubtful(), OriginCredentialFault)


async def test_doubtful_responses_cause_few_probes() -> None:
    """Most are denials: of a key that may not read, or not list."""
    checked = Checked()
    for _ in range(40):
        assert await checked.check.check_if_doubtful() is None
        checked.now += DOUBT_INTERVAL / 4
    assert len(checked.sent) == 10


async def test_a_doubt_about_a_principals_key() -> None:
    checked, alice = Checked(), SecretKey("alicethere", "s")
    assert await checked.check.check_if_doubtful(alice) is None
    checked.now += DOUBT_INTERVAL
    checked.result = REFUSAL
    fault = await checked.check.check_if_doubtful(alice)
    assert fault is not None
    assert fault.reason.startswith("the origin refuses alicethere, the origin credential of a key of auth.keys: ")
    assert (checked.check.state, checked.sent) == ("unknown", [alice, alice])


async def test_another_credential_is_judged_anew() -> None:
    checked = Checked()
    checked.result = REFUSAL
    await checked.check.check()
    checked.check.use(StaticCredentials(SecretKey("AKIAOTHER", "s")))
    assert (checked.check.state, checked.check.fault) == ("unknown", None)
    checked.result = None
    assert await checked.check.check_if_due() == "accepted"
    assert checked.sent[-1].access_key == "AKIAOTHER"
