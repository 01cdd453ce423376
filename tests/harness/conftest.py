"""What the tests of the harness itself share."""

from collections.abc import AsyncIterator

import pytest

from harness.clients import RawClient
from harness.fake_origin import FakeOrigin


@pytest.fixture
async def fake() -> AsyncIterator[FakeOrigin]:
    async with FakeOrigin() as origin:
        yield origin


@pytest.fixture
def client(fake: FakeOrigin) -> RawClient:
    return RawClient(fake.endpoint, fake.secret)
