"""All pages: links lead somewhere, and what is named in code type is there: files, modules, targets of make, commands,
settings, metrics."""

import re
import shlex
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path
from typing import Final

import pytest

from forebay.server.telemetry.metric_table import CATALOGUE
from forebay.settings.setting_table import TABLE
from forebay_client.cli.argument_parser import make_parser

ROOT: Final = Path(__file__).parents[2]
PAGES: Final = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
NAMES: Final = [str(page.relative_to(ROOT)) for page in PAGES]
TEXTS: Final = {name: page.read_text() for name, page in zip(NAMES, PAGES, strict=True)}

TARGETS: Final = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
COMMANDS: Final = {
    command
    for name in NAMES
    if name.startswith("docs/cli/")
    for command in re.findall(r"^## forebay ([a-z-]+)$", TEXTS[name], re.MULTILINE)
}
SETTINGS: Final = {setting.path for setting in TABLE} | {"auth.keys"}
MODULES: Final = {
    file.name for folder in ("benchmarks", "client", "proxy", "tests") for file in (ROOT / folder).rglob("*.py")
}
METRICS: Final = {metric.name for metric in CATALOGUE}

_LINK: Final = re.compile(r"\]\(([^)\s]+)\)")
_CODE: Final = re.compile(r"`([^`\n]+)`")
_SETTING: Final = re.compile(r"(server|origin|memory|ssd|auth|limits|rules\[\])\.([a-z_\[\].]+)")
_SHELL: Final = re.compile(r"[|&;<>]+|2>.*")
_WORD: Final = re.compile(r"(?:`[^`]*`|\S)+")
"""What is not divided between two lines."""
LONGEST: Final = 124
"""Characters of a line of prose, which is wrapped at 120."""
_MADE: Final = re.compile(r"docs/(?:benchmarks.*|clients|faults|suites)\.md")
"""Pages that programs write, whose lines are theirs."""
_FILES: Final = ("benchmarks/", "client/", "config/", "docs/", "proxy/", "tests/", ".ci/")
_ROOMS: Final = (
    r"(?:core|settings|protocol|policy|storage|origin|peers|namespace|fetch|metadata|write|request|datasets|jobs|server"
    r"|workers)"
)


def anchors(text: str) -> set[str]:
    """What headings are linked by: as GitHub makes it."""
    headings = re.findall(r"^#+ (.*)$", re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def missing(text: str) -> Iterator[str]:
    """What a page names in code type and nobody would find."""
    for code in _CODE.findall(text):
        if code.startswith(_FILES) and not re.search(r"[*<{ ]", code) and not (ROOT / code.partition("::")[0]).exists():
            yield code
        if re.fullmatch(_ROOMS + r"/[\w/]+(?:\.py|/)", code) and not (ROOT / "proxy" / "forebay" / code).exists():
            yield code
        dotted = re.fullmatch(r"(?:forebay\.)?" + _ROOMS + r"(?:\.\w+)+", code)
        if dotted and not _SETTING.fullmatch(code) and not is_module(code):
            yield code
        if re.fullmatch(r"\w+\.py", code) and code not in MODULES | {"train.py"}:  # a user's
            yield code
        if (setting := _SETTING.fullmatch(code)) and setting[0] not in SETTINGS and not is_module(code):
            yield code
        if re.fullmatch(r"forebay_\w+", code) and code not in METRICS | {"forebay_client"}:
            yield code
        if (target := re.match(r"make ([a-z-]+)", code)) and target[1] not in TARGETS:
            yield code
        if (command := re.match(r"(?:\.venv/bin/)?forebay ([a-z-]+)", code)) and command[1] not in COMMANDS:
            yield code


def is_module(dotted: str) -> bool:
    """Whether a dotted name is a module or a folder of the proxy, or something in one."""
    path = ROOT / "proxy" / "forebay" / dotted.removeprefix("forebay.").replace(".", "/")
    inside = path.parent.with_suffix(".py")
    return path.is_dir() or path.with_suffix(".py").exists() or (inside.exists() and path.name in inside.read_text())


@pytest.mark.parametrize("name", NAMES)
def test_links_lead_somewhere(name: str) -> None:
    page = ROOT / name
    for target in _LINK.findall(TEXTS[name]):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        found = (page.parent / path).resolve() if path else page
        assert found.exists(), target
        assert not anchor or anchor in anchors(found.read_text()), target


@pytest.mark.parametrize("name", NAMES)
def test_named_things_exist(name: str) -> None:
    assert list(missing(TEXTS[name])) == []


def typed_commands(text: str) -> Iterator[list[str]]:
    """The arguments of each `forebay` in an indented or fenced block, up to the end of its part of a shell's line."""
    fenced = "".join(re.findall(r"^ *```\w*\n(.*?)^ *```$", text, re.MULTILINE | re.DOTALL))
    indented = "\n".join(re.findall(r"^    +(.*)$", text, re.MULTILINE))
    for line in f"{fenced}\n{indented}".replace("\\\n", " ").splitlines():
        if found := re.match(r" *(?:\$ )?(?:\w+=\S+ )*(?:\.venv/bin/)?forebay ((?:[a-z]+|-).*)", line):
            yield list(takewhile(lambda each: not _SHELL.fullmatch(each), shlex.split(found[1], comments=True)))


@pytest.mark.parametrize("name", NAMES)
def test_commands_in_blocks_are_there(name: str) -> None:
    for target in re.findall(r"^    (?:\$ )?make ([a-z-]+)", TEXTS[name], re.MULTILINE):
        assert target in TARGETS
    for arguments in typed_commands(TEXTS[name]):
        make_parser().parse_args(arguments)  # else SystemExit


def test_typed_commands_are_found() -> None:
    block = "    $ forebay ls --all | head\n\n```sh\nKEY=x .venv/bin/forebay warm \\\n  s3://b # all of it\n```\n"
    assert sorted(typed_commands(block)) == [["ls", "--all"], ["warm", "s3://b"]]


@pytest.mark.parametrize(
    "gone",
    [
        "`tests/fetch/test_gone.py`",
        "`fetch/gone.py`",
        "`server.http.gone`",
        "`test_gone.py`",
        "`gone.py`",
        "`ssd.segment`",
        "`forebay_gone_total`",
        "`make gone`",
        "`forebay gone`",
        "`config/gone.toml`",
    ],
)
def test_missing_names_are_detected(gone: str) -> None:
    assert list(missing(f"See {gone}.")) != []


def test_existing_names_are_not_reported() -> None:
    files = "`tests/fetch/`, `core/fences.py`, `core.task_registry.TaskRegistry`"
    assert list(missing(f"{files}, `server.listen`, `make test`, `forebay ls`")) == []


def test_every_page_is_in_the_index() -> None:
    for folder in ("docs", "docs/decisions", "docs/notes"):
        index = set(_LINK.findall(TEXTS[f"{folder}/README.md"]))
        pages = {page.name for page in (ROOT / folder).glob("*.md")} - {"README.md"}
        assert pages <= index
    for front in ("architecture", "cli", "configuration", "semantics"):
        index = set(_LINK.findall(TEXTS[f"docs/{front}.md"]))
        assert {f"{front}/{page.name}" for page in (ROOT / "docs" / front).glob("*.md")} <= index


def overlong(text: str) -> list[str]:
    """The lines of prose that are to be wrapped: not those of code and tables, nor of a single long word or link."""
    prose = re.sub(r"^ *```.*?^ *```$", "", text, flags=re.MULTILINE | re.DOTALL).splitlines()
    long = (line for line in prose if len(line) > LONGEST and not line.startswith(("    ", "|", "#", "<!--")))
    return [line for line in long if max(map(len, _WORD.findall(line))) < LONGEST]


@pytest.mark.parametrize("name", [name for name in NAMES if not _MADE.fullmatch(name)])
def test_paragraphs_are_wrapped(name: str) -> None:
    assert overlong(TEXTS[name]) == []


def test_a_long_line_is_found_in_prose_alone() -> None:
    words, link = "word " * 30, f"[page]({'x' * 130})"
    assert overlong(f"short\n- {words}\n") == [f"- {words}"]
    assert overlong(f"| {words} |\n\n    {words}\n\n```\n{words}\n```\n\n## {words}\n{link}\n") == []


@pytest.mark.parametrize("name", NAMES)
def test_no_merge_conflict_is_left(name: str) -> None:
    assert not re.search(r"^(<<<<<<<|>>>>>>>) ", TEXTS[name], re.MULTILINE)
