"""A source package of Debian has two archives; the second belongs into the tree that the first one makes."""

import tarfile
from pathlib import Path

from suites.debian import extract_source


def test_debians_part_is_extracted_into_the_upstream_tree(tmp_path: Path) -> None:
    _pack(tmp_path / "tool_1.0-1.debian.tar.xz", tmp_path, "debian/patches/series", "fix.patch\n")
    _pack(tmp_path / "tool_1.0.orig.tar.gz", tmp_path, "tool-1.0/main.go", "package main\n")
    (tmp_path / "tool_1.0.orig.tar.gz.asc").write_text("a signature")

    tree = extract_source(tmp_path)

    assert (tree / "main.go").read_text() == "package main\n"
    assert (tree / "debian/patches/series").read_text() == "fix.patch\n"


def _pack(archive: Path, home: Path, name: str, content: str) -> None:
    file = home / "content" / name
    file.parent.mkdir(parents=True)
    file.write_text(content)
    with tarfile.open(archive, "w:xz" if archive.suffix == ".xz" else "w:gz") as packed:
        packed.add(file, name)
