"""docs/cli.md and the pages of docs/cli against the parser: every command, every option, and every example;
docs/admin-port.md against the routes."""

import argparse
import re
import shlex
from pathlib import Path

import pytest

from forebay.server.admin.admin_gate import AdminGate
from forebay.server.admin.admin_server import admin_application
from forebay_client.cli.argument_parser import make_parser
from harness.admin_control import FakeControl

DOCS = Path(__file__).parents[2] / "docs"
FRONT = (DOCS / "cli.md").read_text(encoding="utf-8")
PAGES = {page.name: page.read_text(encoding="utf-8") for page in (DOCS / "cli").glob("*.md")}
ADMIN_PORT = (DOCS / "admin-port.md").read_text(encoding="utf-8")


def parsers() -> dict[str, argparse.ArgumentParser]:
    for action in make_parser()._actions:  # noqa: SLF001 - argparse has no public way to list what a parser takes
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001 - as above
            return dict(action.choices)
    raise AssertionError("the parser has no commands")


def typed(action: argparse.Action) -> str:
    """An option as the page writes it: `--keys FILE`."""
    name = action.option_strings[-1] if action.option_strings else ""
    metavar = "" if action.nargs == 0 else str(action.metavar)
    return f"{name} {metavar}".strip()


def sections() -> dict[str, str]:
    """What the pages say of each command."""
    found = [re.split(r"^## forebay (\S+)$", page, flags=re.MULTILINE) for page in PAGES.values()]
    return {command: text for page in found for command, text in zip(page[1::2], page[2::2], strict=True)}


def test_every_command_has_a_section() -> None:
    assert sections().keys() == parsers().keys()


def test_every_command_is_in_the_table_of_the_front_page() -> None:
    linked = re.findall(r"\[`(\S+)`\]\(cli/\S+\.md#forebay-(\S+)\)", FRONT)
    assert sorted(linked) == sorted((command, command) for command in parsers())


@pytest.mark.parametrize("command", parsers())
def test_every_option_is_documented(command: str) -> None:
    documented = re.findall(r"^\| `([^`]+)` \|", sections()[command], flags=re.MULTILINE)
    options = [typed(action) for action in parsers()[command]._actions]  # noqa: SLF001 - as above
    assert sorted(documented) == sorted(set(options) - {"--help"})


@pytest.mark.parametrize("command", parsers())
def test_every_command_has_an_example_that_parses(command: str) -> None:
    examples = re.findall(r"^    \$ forebay (.+)$", sections()[command], flags=re.MULTILINE)
    assert examples
    for example in examples:
        found = make_parser().parse_args(shlex.split(example))
        assert found.command == command
        assert make_parser(command).parse_args(shlex.split(example)) == found


def test_every_route_is_documented() -> None:
    documented = set(re.findall(r"^\| `((?:GET|PUT|POST|DELETE) [^`]+)` \|", ADMIN_PORT, flags=re.MULTILINE))
    routes = admin_application(FakeControl().verbs, AdminGate()).router.routes()
    assert documented == {
        f"{route.method} {route.resource.canonical}" for route in routes if route.resource and route.method != "HEAD"
    }
