"""docs/architecture.md: its listing of the rooms names each folder of the packages, and no other."""

import re

from structure.source_tree import PACKAGES, ROOT


def test_the_rooms_are_the_folders() -> None:
    section = (ROOT / "docs/architecture.md").read_text().partition("## The rooms\n")[2].partition("\n## ")[0]
    listing = "".join(re.findall(r"^    .*\n", section, re.MULTILINE))
    folders = {file.parent.relative_to(ROOT) for folder in PACKAGES.values() for file in (ROOT / folder).rglob("*.py")}
    assert set(re.findall(r"([a-z_]+)/", listing)) == {part for folder in folders for part in folder.parts}
