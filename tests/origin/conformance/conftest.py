"""What the suite is run against: the fake, a real Swift, and Forebay in front of each, which must lose no case."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from harness.conformance import Subject
from harness.fake_origin import FakeOrigin
from harness.oss_origin import OssOrigin
from harness.quirks import QUIRKS
from harness.rig import TRAINER, Rig
from harness.swift import SwiftOrigin


@pytest.fixture(scope="session")
def swift_subject(swift: SwiftOrigin) -> Subject:
    return Subject(swift.endpoint, swift.secret, swift.fresh_bucket(), QUIRKS["swift"])


@pytest.fixture(scope="session")
def swift_behind(swift: SwiftOrigin) -> Subject:
    """The same, with a bucket of its own, for Forebay in front of it."""
    return Subject(swift.endpoint, swift.secret, swift.fresh_bucket(), QUIRKS["swift"])


@pytest.fixture(params=["fake", "swift", "forebay over fake", "forebay over swift", "forebay over oss"])
async def origin(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Subject]:
    async with AsyncExitStack() as running:
        if request.param.endswith("swift"):
            behind = request.param.startswith("forebay")
            subject: Subject = request.getfixturevalue("swift_behind" if behind else "swift_subject")
        else:
            oss = request.param.endswith("oss")
            fake = await running.enter_async_context(OssOrigin() if oss else FakeOrigin())
            fake.store.create_bucket("conformance")
            subject = Subject(fake.endpoint, fake.secret, "conformance", QUIRKS["fake"])
        if request.param.startswith("forebay"):
            dialect, ssd = ("oss", None) if request.param.endswith("oss") else ("swift", "64MiB")
            rig = await running.enter_async_context(
                Rig(subject.endpoint, subject.secret, tmp_path, dialect=dialect, ssd=ssd)
            )
            subject = Subject(rig.endpoint, TRAINER, subject.bucket, QUIRKS[request.param])
        yield subject
