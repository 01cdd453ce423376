"""A row of the table of commands (forebay_client.cli.commands), and the arguments that several rows have."""

import argparse
from collections.abc import Callable
from typing import Any, Final, NamedTuple, TypeAlias

from forebay_client.cli.admin_client import AdminClient
from forebay_client.cli.argument_types import location, positive
from forebay_client.cli.command_context import CommandContext

Argument: TypeAlias = tuple[str, dict[str, Any]]
"""The name, and the settings of argparse's `add_argument`."""


class ClientCommand(NamedTuple):
    """A row of the table."""

    run: Callable[[AdminClient, CommandContext, argparse.Namespace], int]
    help: str
    arguments: tuple[Argument, ...] = ()


class UsageError(Exception):
    """The command line is contradictory; the message is a sentence. Exit code 2."""


LOCATION: Final[Argument] = (
    "location",
    {"type": location, "metavar": "s3://bucket/prefix", "help": "which objects"},
)
"""Which objects a command is about."""
FILE: Final = {"metavar": "FILE"}
"""Settings of an argument that is a file."""
SIZE: Final = {"metavar": "SIZE"}
"""Likewise, a size."""
CONCURRENCY: Final = {"type": positive, "metavar": "N"}
"""Likewise, objects at once."""
