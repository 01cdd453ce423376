"""How many cores may be kept busy, by the files of control groups as they are on a host and in a container."""

from pathlib import Path

import pytest

from forebay.server.cpu_count import usable_cores


def groups(root: Path, ours: str, files: dict[str, str]) -> tuple[Path, Path]:
    mount = root / "cgroup"
    mount.mkdir()
    for name, text in files.items():
        file = mount / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    told = root / "ours"
    told.write_text(ours)
    return mount, told


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
def test_the_least_of_what_is_allowed(tmp_path: Path, ours: str, files: dict[str, str], expected: int) -> None:
    mount, told = groups(tmp_path, ours, files)
    assert usable_cores(8, mount, told) == expected


def test_what_can_not_be_read_limits_nothing(tmp_path: Path) -> None:
    assert usable_cores(8, tmp_path / "none", tmp_path / "none") == 8
    assert usable_cores() >= 1
