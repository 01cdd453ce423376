"""The parser of one command, which takes options anywhere: `forebay writes ls --state stuck s3://bucket/`.

argparse fills positional arguments that may be left out by what stands before an option, so the location there would be
left over. Options are moved in front of the others, each with its value, before argparse reads them.

An option that the command does not have is refused here, with the nearest one: argparse would take its value for a
location. So are too many arguments: argparse would show the usage of `forebay`.

https://docs.python.org/3/library/argparse.html#intermixed-parsing (which has no subcommands)
"""

import argparse
from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any


class CommandParser(argparse.ArgumentParser):
    """See the module."""

    def parse_known_args(  # type: ignore[override] # as argparse calls it for a subcommand
        self, args: Sequence[str] | None = None, namespace: Any = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Parses a command's arguments."""
        found, surplus = super().parse_known_args(self._options_first(args or ()), namespace)
        if surplus:
            self.error(f"too many arguments: {' '.join(map(repr, surplus))}")
        return found, surplus

    def _options_first(self, args: Sequence[str]) -> Sequence[str]:
        if any(action.nargs == argparse.REMAINDER for action in self._actions):
            self._check_options_before_program(args)
            return args
        options: list[str] = []
        others: list[str] = []
        rest = iter(args)
        for each in rest:
            if each == "--":
                others += [each, *rest]
            elif len(each) == 1 or not each.startswith("-"):
                others.append(each)
            elif not self._takes_value(self._known(each)):
                options.append(each)
            elif (value := next(rest, None)) is not None:
                options += [each, value]
            else:
                others.append(each)  # at the end, where argparse misses the value
        return [*options, *others]

    def _check_options_before_program(self, args: Sequence[str]) -> None:
        """Refuses an unknown option in front of a program's name; what stands behind that is the program's."""
        rest = iter(args)
        for each in rest:
            if each in {"-", "--"} or not each.startswith("-"):
                return
            if self._takes_value(self._known(each)):
                next(rest, None)

    def _known(self, option: str) -> str:
        """Returns the option. Ends the process, with the nearest one, if the command does not have it."""
        name = option.partition("=")[0]
        if name not in self._option_string_actions:
            close = get_close_matches(name, self._option_string_actions, n=1)
            self.error(f"there is no option {name}{f'; did you mean {close[0]}?' if close else ''}")
        return option

    def _takes_value(self, option: str) -> bool:
        action = self._option_string_actions.get(option)
        return action is not None and action.nargs is None
