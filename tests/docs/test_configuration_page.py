"""docs/configuration.md and its pages against the table of settings: each has its row, and there are no others."""

import json
import re
import tomllib
from pathlib import Path
from typing import Final

import pytest

from forebay.settings import load_settings
from forebay.settings.setting import REQUIRED, UNSET, Setting
from forebay.settings.setting_table import TABLE

ROOT: Final = Path(__file__).parents[2]
DOCS: Final = ROOT / "docs"
PAGES: Final = [DOCS / "configuration.md", *sorted((DOCS / "configuration").glob("*.md"))]
PAGE: Final = "".join(page.read_text() for page in PAGES)
ROWS: Final = re.findall(r"^\| `([^`]+)` \|.*\|$", PAGE, re.MULTILINE)
EXAMPLES: Final = re.findall(r"^```toml\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def row_of(setting: Setting) -> str:
    """The row that the page has to have."""
    if setting.default is REQUIRED:
        default = "**required**"
    elif setting.default is UNSET:
        default = "not set"
    else:
        # As TOML writes them, which JSON does too; the one list that is a default is empty.
        default = f"`{json.dumps(setting.default)}`"
    show = setting.value_type.format
    bounds = ""
    if setting.low is not None and setting.high is not None:
        bounds = f", {show(setting.low)} to {show(setting.high)}"
    elif setting.low is not None:
        bounds = f", at least {show(setting.low)}"
    change = "at once" if setting.live else "restart"
    return f"| `{setting.path}` | {setting.value_type.name}{bounds} | {default} | {change} | {setting.meaning} |"


@pytest.mark.parametrize("setting", TABLE, ids=lambda setting: setting.path)
def test_every_setting_has_its_row(setting: Setting) -> None:
    assert row_of(setting) in PAGE.splitlines()


def test_every_row_is_a_setting_once() -> None:
    assert sorted(ROWS) == sorted(setting.path for setting in TABLE)


def test_there_are_examples() -> None:
    assert len(EXAMPLES) >= 3


@pytest.mark.parametrize("example", EXAMPLES)
def test_examples_are_valid(example: str) -> None:
    # An example shows one matter; what else a configuration needs is added.
    if "[origin]" not in example:
        example += '\n[origin]\nendpoint = "https://s3.eu-west-1.amazonaws.com"\n'
    if "auth" not in tomllib.loads(example):
        example += '\n[[auth.keys]]\nid = "trainer"\nsecret_env = "TRAINER_SECRET"\n'
    environment = dict.fromkeys(("TRAINER_SECRET", "OSS_ACCESS_KEY_SECRET"), "s")
    load_settings(example, environment, {}, lambda path: f"secret of {path}")


@pytest.mark.parametrize("name", ["minimal.toml", "sidecar.toml", "node-daemon.toml"])
def test_the_example_files_are_mentioned(name: str) -> None:
    assert f"config/{name}" in PAGE
    assert (ROOT / "config" / name).is_file()
