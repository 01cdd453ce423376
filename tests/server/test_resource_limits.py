"""Limits of the machine and of control groups: cores, memory, disk and open files, as on a host and in a container."""

import resource
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from forebay.server.resource_limits import (
    SOCKET_SHARE,
    capacity_warnings,
    raise_file_limit,
    tier_warning,
    usable_connections,
    usable_cores,
    usable_origin_requests,
)
from forebay.settings import Settings, load_settings
from forebay.settings.model import JournalSettings, SsdSettings

GIB = 1 << 30


@pytest.fixture
def settings() -> Settings:
    text = '[origin]\nendpoint = "http://h"\n[auth]\nmode = "open"\n[memory]\nsize = "3GiB"\nbuffers = "768MiB"\n'
    return load_settings(text, {}, {}, lambda path: "").settings


# Memory and disk


def machine(root: Path, gib: int, groups: str = "", **files: str) -> Path:
    """Files as in /proc and /sys."""
    contents = {"proc/meminfo": f"MemTotal: {gib << 20} kB\nMemFree: 1 kB\n", "proc/self/cgroup": groups}
    contents |= {f"sys/fs/cgroup/{name}": text for name, text in files.items()}
    for name, text in contents.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


@pytest.mark.parametrize(
    ("gib", "groups", "files", "limit"),
    [
        (4, "", {}, None),
        (3, "", {}, "3.0 GiB"),
        (64, "0::/a/b\n", {"a/b/memory.max": "max\n", "a/memory.max": f"{2 * GIB}\n"}, "2.0 GiB"),
        (64, "0::/a/b\n", {"a/b/memory.max": "max\n"}, None),
        (64, "0::/of/the/host\n", {"memory.max": f"{GIB}\n"}, "1.0 GiB"),
        (64, "2:cpu,memory:/a\n", {"memory/a/memory.limit_in_bytes": f"{GIB}\n"}, "1.0 GiB"),
        (64, "2:cpu,memory:/a\n", {"memory/a/memory.limit_in_bytes": f"{(1 << 63) - 4096}\n"}, None),
        (64, "2:cpu:/a\n", {"memory/a/memory.limit_in_bytes": f"{GIB}\n"}, None),
    ],
)
def test_a_memory_tier_above_the_memory_limit_is_warned_of(
    settings: Settings, tmp_path: Path, gib: int, groups: str, files: dict[str, str], limit: str | None
) -> None:
    warnings = list(capacity_warnings(settings, machine(tmp_path, gib, groups, **files)))
    if limit is None:
        assert warnings == []
    else:
        assert len(warnings) == 1
        assert f"make 4.0 GiB, and there is {limit} for this process" in warnings[0]


def test_unknown_limits_are_not_warned_of(settings: Settings, tmp_path: Path) -> None:
    assert list(capacity_warnings(settings, tmp_path)) == []


def test_an_ssd_tier_above_its_file_system_is_warned_of(settings: Settings, tmp_path: Path) -> None:
    path = str(tmp_path / "not" / "yet" / "there")
    assert list(capacity_warnings(replace(settings, ssd=SsdSettings(path, 1 << 20)), tmp_path)) == []
    [warning] = capacity_warnings(replace(settings, ssd=SsdSettings(path, 1 << 60)), tmp_path)
    assert warning.startswith("ssd.size is 1.0 EiB, the file system of ssd.path has ")


def test_one_tier_is_warned_of(settings: Settings, tmp_path: Path) -> None:
    large = replace(settings, ssd=SsdSettings(str(tmp_path), 1 << 60))
    assert (tier_warning("memory", large, machine(tmp_path, 4)), tier_warning("ssd", settings)) == (None, None)
    assert "make 4.0 GiB" in (tier_warning("memory", large, machine(tmp_path, 3)) or "")
    assert "ssd.size is 1.0 EiB" in (tier_warning("ssd", large) or "")


def test_a_journal_above_its_file_system_is_warned_of(settings: Settings, tmp_path: Path) -> None:
    journals = [JournalSettings(str(tmp_path / "new"), size, 60.0, 60.0) for size in (1 << 20, 1 << 60)]
    assert list(capacity_warnings(replace(settings, journal=journals[0]), tmp_path)) == []
    [warning] = capacity_warnings(replace(settings, journal=journals[1]), tmp_path)
    assert warning.startswith("journal.size is 1.0 EiB, the file system of journal.path has ")


# Cores


def groups(root: Path, ours: str, files: dict[str, str]) -> tuple[Path, Path]:
    mount = root / "cgroup"
    mount.mkdir()
    for name, text in files.items():
        file = mount / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    membership = root / "membership"
    membership.write_text(ours)
    return mount, membership


V2 = "0::/\n"
V1 = "12:pids:/docker/abc\n4:cpu,cpuacct:/docker/abc\n0::/docker/abc\n"


@pytest.mark.parametrize(
    ("ours", "files", "expected"),
    [
        (V2, {}, 8),
        (V2, {"cpu.max": "max 100000\n"}, 8),
        (V2, {"cpu.max": "200000 100000\n"}, 2),
        (V2, {"cpu.max": "250000 100000\n"}, 2),
        (V2, {"cpu.max": "50000 100000\n"}, 1),
        (V2, {"cpu.max": "1600000 100000\n"}, 8),
        (V2, {"cpu.max": "nonsense"}, 8),
        (V2, {"cpu.max": "100000 0\n"}, 8),
        ("0::/a/b\n", {"cpu.max": "max 100000", "a/cpu.max": "300000 100000", "a/b/cpu.max": "500000 100000"}, 3),
        ("0::/a/b\n", {"a/cpu.max": "500000 100000", "a/b/cpu.max": "max 100000"}, 5),
        ("0::/../host\n", {"cpu.max": "400000 100000"}, 4),
        (V1, {"cpu,cpuacct/cpu.cfs_quota_us": "300000", "cpu,cpuacct/cpu.cfs_period_us": "100000"}, 3),
        (V1, {"cpu/cpu.cfs_quota_us": "150000", "cpu/cpu.cfs_period_us": "50000"}, 3),
        (V1, {"cpu/docker/abc/cpu.cfs_quota_us": "-1", "cpu/docker/abc/cpu.cfs_period_us": "100000"}, 8),
        (V1, {"pids/cpu.cfs_quota_us": "100000", "pids/cpu.cfs_period_us": "100000"}, 8),
        ("", {"cpu.max": "100000 100000"}, 8),
    ],
)
def test_the_lowest_cpu_quota_counts(tmp_path: Path, ours: str, files: dict[str, str], expected: int) -> None:
    mount, membership = groups(tmp_path, ours, files)
    assert usable_cores(8, mount, membership) == expected


def test_unreadable_quotas_limit_nothing(tmp_path: Path) -> None:
    assert usable_cores(8, tmp_path / "none", tmp_path / "none") == 8
    assert usable_cores() >= 1


# Open files


@pytest.fixture
def hard() -> Iterator[int]:
    """The hard limit of open files. The soft limit is lowered for the test."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard == resource.RLIM_INFINITY or hard < 512:
        pytest.skip("the limit of open files is out of the ordinary here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 256), hard))
    yield hard
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_the_file_limit_is_raised_to_the_hard_limit(settings: Settings, hard: int) -> None:
    raise_file_limit(settings)
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == (min(hard, 1 << 20), hard)


def test_a_file_limit_below_the_need_is_warned_of(settings: Settings, hard: int) -> None:
    few = replace(
        settings, limits=replace(settings.limits, connections=1), origin=replace(settings.all_origins[0], concurrency=1)
    )
    assert (raise_file_limit(few), usable_connections(few), usable_origin_requests(few)) == (None, 1, [1])
    many = replace(few, limits=replace(settings.limits, connections=hard))
    assert f"the system allows {hard} open files" in (raise_file_limit(many) or "")
    assert usable_connections(many) == (hard - min(514, hard // 2)) // 2
    beside = usable_connections(replace(many, server=replace(many.server, socket="/run/forebay.sock")))
    assert 2 * beside + 3 * (beside // SOCKET_SHARE) <= hard - min(514, hard // 2)
    assert beside > hard // 6
    parallel = replace(few, origin=replace(settings.all_origins[0], concurrency=hard))
    assert usable_origin_requests(parallel) == [hard // 8]
