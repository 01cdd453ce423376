"""Tiers that are larger than what they are in are warned of."""

from dataclasses import replace
from pathlib import Path

import pytest

from forebay.server.capacity_check import capacity_warnings
from forebay.settings import Settings, load_settings
from forebay.settings.model import SsdSettings

GIB = 1 << 30


@pytest.fixture
def settings() -> Settings:
    text = '[origin]\nendpoint = "http://h"\n[auth]\nmode = "open"\n[memory]\nsize = "3GiB"\nbuffers = "1GiB"\n'
    return load_settings(text, {}, {}, lambda path: "").settings


def machine(root: Path, gib: int, groups: str = "", **files: str) -> Path:
    """A /proc and a /sys."""
    told = {"proc/meminfo": f"MemTotal: {gib << 20} kB\nMemFree: 1 kB\n", "proc/self/cgroup": groups}
    told |= {f"sys/fs/cgroup/{name}": text for name, text in files.items()}
    for name, text in told.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


@pytest.mark.parametrize(
    ("gib", "groups", "files", "told"),
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
def test_memory(
    settings: Settings, tmp_path: Path, gib: int, groups: str, files: dict[str, str], told: str | None
) -> None:
    warnings = list(capacity_warnings(settings, machine(tmp_path, gib, groups, **files)))
    if told is None:
        assert warnings == []
    else:
        assert len(warnings) == 1
        assert f"make 4.0 GiB, and there is {told} for this process" in warnings[0]


def test_what_is_not_told_is_not_warned_of(settings: Settings, tmp_path: Path) -> None:
    assert list(capacity_warnings(settings, tmp_path)) == []


def test_the_disk(settings: Settings, tmp_path: Path) -> None:
    path = str(tmp_path / "not" / "yet" / "there")
    assert list(capacity_warnings(replace(settings, ssd=SsdSettings(path, 1 << 20)), tmp_path)) == []
    [warning] = capacity_warnings(replace(settings, ssd=SsdSettings(path, 1 << 60)), tmp_path)
    assert warning.startswith("ssd.size is 1073741824.0 GiB, the file system of ssd.path has ")
