"""The signed probe: which answers of the origin refuse a key, and what its clock says."""

import time
from collections.abc import AsyncIterator, Callable

import pytest

from forebay.core.errors import OriginBroken
from forebay.origin.credentials import ANONYMOUS
from forebay.origin.dialects import DIALECTS
from forebay.origin.origin_client import OriginClient
from forebay.origin.origin_server import OriginServer
from forebay.protocol.signatures.signing_key import SecretKey
from harness.fake.actions import SLOW_DOWN, Respond
from harness.fake_origin import FakeOrigin


@pytest.fixture
async def origin() -> AsyncIterator[FakeOrigin]:
    async with FakeOrigin() as found:
        yield found


def client_for(origin: FakeOrigin, clock: Callable[[], float] = time.time) -> OriginClient:
    server = OriginServer(origin.endpoint, origin.secret.region, DIALECTS["swift"])
    return OriginClient(server, ANONYMOUS, clock=clock)


def key_of(origin: FakeOrigin, secret: str | None = None) -> SecretKey:
    return SecretKey(origin.secret.access, secret or origin.secret.secret)


async def judged(origin: FakeOrigin, key: SecretKey) -> str | None:
    """The code of the refusal."""
    async with client_for(origin) as client:
        refusal = await client.credential_probe.judge(key)
        return refusal.code if refusal is not None else None


async def test_a_key_is_judged_by_listing_buckets(origin: FakeOrigin) -> None:
    assert await judged(origin, key_of(origin)) is None
    assert await judged(origin, key_of(origin, "another secret")) == "SignatureDoesNotMatch"
    assert [seen.operation for seen in origin.log.probes] == ["ListBuckets"] * 2


async def test_a_key_that_may_not_list_buckets_is_not_refused(origin: FakeOrigin) -> None:
    """AccessDenied is said of the operation; the key was known."""
    origin.faults.add(Respond(403, "AccessDenied"))
    assert await judged(origin, key_of(origin)) is None


async def test_an_overloaded_origin_says_nothing_of_the_key(origin: FakeOrigin) -> None:
    origin.faults.add(SLOW_DOWN)
    with pytest.raises(OriginBroken, match="status 503"):
        await judged(origin, key_of(origin))


async def test_the_difference_of_the_clocks_is_kept(origin: FakeOrigin) -> None:
    async with client_for(origin, lambda: time.time() + 60) as client:
        found = [client.credential_probe.clock_difference]
        assert await client.credential_probe.judge(key_of(origin)) is None
        found.append(client.credential_probe.clock_difference)
    before, after = found
    assert before is None
    assert after is not None
    assert 50 < after < 70
