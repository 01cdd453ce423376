"""The origins that the suite is run against: the fake, and a real Swift."""

from collections.abc import AsyncIterator

import pytest

from harness.conformance import Subject
from harness.fake_origin import FakeOrigin
from harness.quirks import QUIRKS
from harness.swift import SwiftOrigin


@pytest.fixture(scope="session")
def swift_subject(swift: SwiftOrigin) -> Subject:
    return Subject(swift.endpoint, swift.secret, swift.fresh_bucket(), QUIRKS["swift"])


@pytest.fixture(params=["fake", "swift"])
async def origin(request: pytest.FixtureRequest) -> AsyncIterator[Subject]:
    if request.param == "swift":
        yield request.getfixturevalue("swift_subject")
        return
    async with FakeOrigin() as fake:
        fake.store.create_bucket("conformance")
        yield Subject(fake.endpoint, fake.secret, "conformance", QUIRKS["fake"])
