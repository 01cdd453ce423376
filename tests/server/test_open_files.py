"""The limit of open files: raised as far as it goes, and warned of where that is not enough."""

import resource
from collections.abc import Iterator
from dataclasses import replace

import pytest

from forebay.server.open_files import raise_file_limit
from forebay.settings import Settings, load_settings


@pytest.fixture
def settings() -> Settings:
    return load_settings('[origin]\nendpoint = "http://h"\n[auth]\nmode = "open"\n', {}, {}, lambda path: "").settings


@pytest.fixture
def hard() -> Iterator[int]:
    """The soft limit is lowered for the test, and put back."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard == resource.RLIM_INFINITY or hard < 512:
        pytest.skip("the limit of open files is out of the ordinary here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 256), hard))
    yield hard
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_it_is_raised_as_far_as_it_goes(settings: Settings, hard: int) -> None:
    raise_file_limit(settings)
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == (min(hard, 1 << 20), hard)


def test_less_than_is_asked_for_is_warned_of(settings: Settings, hard: int) -> None:
    few = replace(
        settings, limits=replace(settings.limits, connections=1), origin=replace(settings.origin, concurrency=1)
    )
    assert raise_file_limit(few) is None or hard < 515
    many = replace(settings, limits=replace(settings.limits, connections=hard))
    assert f"the system allows {hard} open files" in (raise_file_limit(many) or "")
