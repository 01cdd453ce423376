"""Options stand where they like between the arguments of a command."""

import argparse

import pytest

from forebay_client.cli.command_parser import CommandParser


def _parser() -> CommandParser:
    parser = CommandParser(allow_abbrev=False)
    parser.add_argument("action", nargs="?", choices=("ls", "show"), default="ls")
    parser.add_argument("where", nargs="?")
    parser.add_argument("file", nargs="?")
    parser.add_argument("--state")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--timeout", type=int)
    return parser


@pytest.mark.parametrize(
    "typed",
    [
        "ls s3://b/k file --state stuck --json",
        "--state stuck --json ls s3://b/k file",
        "ls --state stuck s3://b/k --json file",
        "ls s3://b/k --state=stuck --json file",
        "ls s3://b/k --json --state stuck -- file",
    ],
)
def test_options_stand_anywhere(typed: str) -> None:
    found = _parser().parse_args(typed.split())
    assert (found.action, found.where, found.file, found.state, found.json) == ("ls", "s3://b/k", "file", "stuck", True)


def test_what_is_behind_two_dashes_is_no_option() -> None:
    assert _parser().parse_args(["show", "--json", "--", "--state"]).where == "--state"


def test_a_value_may_look_like_a_number_below_zero() -> None:
    assert _parser().parse_args(["ls", "--timeout", "-1", "place"]).timeout == -1


@pytest.mark.parametrize("typed", ["ls --state", "ls --none s3://b", "bogus --json", "ls a b c --json"])
def test_what_is_no_command_is_refused(typed: str) -> None:
    with pytest.raises(SystemExit):
        _parser().parse_args(typed.split())


def _program_parser() -> CommandParser:
    parser = CommandParser(allow_abbrev=False)
    parser.add_argument("--name")
    parser.add_argument("program", nargs=argparse.REMAINDER)
    return parser


@pytest.mark.parametrize("options", ["", "--name job", "--name=job", "--"])
def test_the_arguments_of_a_program_are_its_own(options: str) -> None:
    program = ["python", "-X", "dev", "x.py", "--name", "y", "--nam"]
    found = _program_parser().parse_args([*options.split(), *program])
    assert (found.program[-len(program) :], found.name) == (program, "job" if "job" in options else None)


@pytest.mark.parametrize(
    ("typed", "complaint"),
    [
        ("ls --stat stuck s3://b/k", "--stat; did you mean --state?"),
        ("ls s3://b/k --stat=stuck", "--stat; did you mean --state?"),
        ("ls --stat", "--stat; did you mean --state?"),
        ("ls -l s3://b/k", "-l"),
    ],
)
def test_an_unknown_option_is_named_with_the_nearest(
    typed: str, complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        _parser().parse_args(typed.split())
    assert capsys.readouterr().err.endswith(f"error: there is no option {complaint}\n")


def test_a_dash_is_a_programs_name() -> None:
    assert _program_parser().parse_args(["-"]).program == ["-"]


@pytest.mark.parametrize("typed", ["--nam job python", "--nam=job python", "--name job --nam python"])
def test_an_unknown_option_before_a_program_is_named(typed: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        _program_parser().parse_args(typed.split())
    assert capsys.readouterr().err.endswith("error: there is no option --nam; did you mean --name?\n")
