"""The commands that call the admin port, as a table: what runs each, its help, and its arguments beside --admin and
--json.

Imports nothing that a command runs with: the help, and the commands of the proxy, need the table alone.
"""

from typing import Any, Final, NamedTuple, TypeAlias

from forebay_client.cli.argument_types import interval, location, positive

Argument: TypeAlias = tuple[str, dict[str, Any]]
"""The name, and the settings of argparse's `add_argument`."""


class ClientCommand(NamedTuple):
    """A row of the table."""

    run: str
    """Module and function, `module:function` (client_command.Run)."""
    help: str
    arguments: tuple[Argument, ...] = ()


LOCATION: Final[Argument] = (
    "location",
    {"type": location, "metavar": "s3://bucket/prefix", "help": "which objects"},
)
"""The location of the objects of a command."""
FILE: Final = {"metavar": "FILE"}
"""Settings of an argument that is a file."""
SIZE: Final = {"metavar": "SIZE"}
"""Likewise, a size."""
CONCURRENCY: Final = {"type": positive, "metavar": "N"}
"""Likewise, objects at once."""
_PACKED: Final[Argument] = (
    "location",
    {"type": location, "metavar": "s3://bucket/prefix", "help": "the objects that are packed, or were"},
)
_INTO: Final[Argument] = (
    "--into",
    {"type": location, "metavar": "s3://bucket/packed/", "help": "where packs are (default: packed/ of the bucket)"},
)
_ONLY: Final[Argument] = (
    "--only",
    {"type": location, "metavar": "s3://bucket/prefix", "help": "the members that are taken out or written"},
)
_DETACH: Final[Argument] = ("--detach", {"action": "store_true", "help": "leave the job to itself"})
_FAILURES: Final[Argument] = (
    "--report",
    {"metavar": "FILE", "help": "write what failed to this file, a JSON object a line"},
)
_LOCATIONS: Final = {"type": location, "nargs": "*", "metavar": "s3://bucket/prefix"}
_INTERVAL: Final = {"type": interval, "default": 1.0, "metavar": "SECONDS"}
_ORDER: Final = {"choices": ("key", "size", "cached"), "default": "key", "metavar": "ORDER"}


def _action(help_: str, *choices: str) -> Argument:
    return "action", {"nargs": "?", "choices": choices, "default": "ls", "metavar": "ACTION", "help": help_}


COMMANDS: Final[dict[str, ClientCommand]] = {
    "stats": ClientCommand(
        "commands:stats", "Show the traffic of a running Forebay since its start, and the fill level of its tiers."
    ),
    "top": ClientCommand(
        "top_command:top",
        "Show the current traffic of a running Forebay, live, until Ctrl-C.",
        (("--interval", {**_INTERVAL, "help": "time between two updates (default: 1)"}),),
    ),
    "warm": ClientCommand(
        "warm_command:warm",
        "Bring objects into the cache before they are read.",
        (
            ("location", {**_LOCATIONS, "help": "which objects; `*`, `**` and `?` are wildcards"}),
            ("--wait", {"action": "store_true", "help": "stay and show progress; Ctrl-C cancels the job"}),
            ("--concurrency", {**CONCURRENCY, "help": "objects at once, up to 256 (default: the server's)"}),
            ("--keys", {**FILE, "help": "warm the keys in this file, one a line; '-' is standard input"}),
            ("--manifest", {**FILE, "help": "warm the objects of a CSV, JSONL or inventory file; '-' likewise"}),
            ("--recording", {"metavar": "NAME", "help": "warm what was read, in the recorded order"}),
            (
                "--plan",
                {"metavar": "NAME", "help": "warm what a plan has, in its order; a name, s3://bucket/name or an ID"},
            ),
            (
                "--format",
                {
                    "choices": ("keys", "jsonl", "csv", "s3-inventory"),
                    "metavar": "FORMAT",
                    "help": "keys, jsonl, csv, s3-inventory (default: by name)",
                },
            ),
            ("--columns", {"metavar": "NAMES", "help": "of an inventory, as its fileSchema (default: Bucket,Key)"}),
            ("--literal", {"action": "store_true", "help": "`*` and `?` stand for themselves"}),
            ("--newer-than", {"metavar": "WHEN", "help": "leave out what was modified before: 7d, or 2026-11-01"}),
            ("--rate", {**SIZE, "help": "bytes a second to fetch at most, e.g. 200MiB"}),
            ("--until", {"metavar": "SHARE", "help": "end when its objects have this share of the cache, or a size"}),
            ("--report", {**FILE, "help": "write what could not be warmed to this file, a JSON object a line"}),
            ("--check", {"action": "store_true", "help": "fetch nothing, and say what is cached"}),
            ("--if-fits", {"action": "store_true", "help": "fetch nothing unless all of it fits into the cache"}),
            ("--pin", {"action": "store_true", "help": "pin the prefixes first, so that what is warmed stays"}),
        ),
    ),
    "pack": ClientCommand(
        "pack_command:pack",
        "Write small objects into a few large TAR objects, with an index by which they are read.",
        (
            _PACKED,
            ("--shard-size", {**SIZE, "help": "bytes after which a TAR object ends (default: 1GiB)"}),
            _INTO,
            ("--check", {"action": "store_true", "help": "verify each member of the pack that is there"}),
            ("--delete", {"action": "store_true", "help": "take the members of --only out of the index"}),
            _ONLY,
            _DETACH,
            _FAILURES,
        ),
    ),
    "unpack": ClientCommand(
        "pack_command:unpack",
        "Write the members of a pack as objects, and take them out of it.",
        (_PACKED, _INTO, _ONLY, _DETACH, _FAILURES),
    ),
    "jobs": ClientCommand(
        "jobs_command:jobs",
        "List the warm-ups that run, and the latest that ended; show, follow or cancel one.",
        (
            _action("ls (default), show, wait or cancel", "ls", "show", "wait", "cancel"),
            ("id", {"nargs": "?", "metavar": "ID", "help": "the job that is shown, followed or cancelled"}),
            ("--report", {**FILE, "help": "write what it could not warm to this file, a JSON object a line"}),
        ),
    ),
    "plans": ClientCommand(
        "plans_command:plans",
        "List the plans that clients have sent, and how far ahead of its reader each is; show, cancel or send one.",
        (
            _action("ls (default), show, cancel or send", "ls", "show", "cancel", "send"),
            (
                "id",
                {
                    "nargs": "?",
                    "metavar": "ID",
                    "help": "the plan to show or cancel, or its s3://bucket/name, by which send names it",
                },
            ),
            ("file", {**FILE, "nargs": "?", "help": "with send: the keys in the order in which they will be read"}),
            (
                "--key",
                {"metavar": "ID", "help": "with send: the access key that will read them (default: the only one)"},
            ),
        ),
    ),
    "recordings": ClientCommand(
        "recordings_command:recordings",
        "List the recordings of what was read; save, export, import, replay or remove one.",
        (
            _action(
                "ls (default), save, export, import, replay or rm", "ls", "save", "export", "import", "replay", "rm"
            ),
            ("location", {**LOCATION[1], "nargs": "?", "metavar": "s3://bucket/name", "help": "the recording"}),
            ("file", {**FILE, "nargs": "?", "help": "of export and import"}),
            ("--force", {"action": "store_true", "help": "with export: write over a file that exists"}),
            ("--from", {"dest": "source", "metavar": "NAME", "help": "save this one (default: the latest)"}),
            ("--shared", {"action": "store_true", "help": "save it for all keys, each with what it may read"}),
            ("--rate", {**SIZE, "help": "bytes a second to replay at most, e.g. 200MiB"}),
            ("--concurrency", {**CONCURRENCY, "help": "objects at once, up to 256 (default: the server's)"}),
            ("--wait", {"action": "store_true", "help": "stay and show progress; Ctrl-C cancels the job"}),
        ),
    ),
    "ls": ClientCommand(
        "ls_command:ls",
        "List what is cached: how much of each object, and in which tier.",
        (
            LOCATION,
            ("--sort", {**_ORDER, "help": "key (default), or the largest first: size, cached"}),
            ("--limit", {"type": positive, "metavar": "N", "help": "show so many objects at most"}),
        ),
    ),
    "writes": ClientCommand(
        "writes_command:writes",
        "List the writes that are acknowledged and not at the origin; show, retry, export or discard one.",
        (
            _action("ls (default), show, retry, export or discard", "ls", "show", "retry", "export", "discard"),
            ("write", {"nargs": "?", "metavar": "ID", "help": "the write; with ls: s3://bucket/prefix"}),
            (
                "file",
                {
                    **FILE,
                    "nargs": "?",
                    "help": "with export: the file to write; with discard: s3://bucket/key, the object",
                },
            ),
            ("--force", {"action": "store_true", "help": "with export: write over a file that exists"}),
            (
                "--state",
                {
                    "choices": ("waiting", "sending", "failing", "stuck", "conflict"),
                    "metavar": "STATE",
                    "help": "list those in this state",
                },
            ),
        ),
    ),
    "flush": ClientCommand(
        "flush_command:flush",
        "Wait until the acknowledged writes under a prefix are at the origin.",
        (
            LOCATION,
            ("--timeout", {"type": positive, "metavar": "SECONDS", "help": "the longest wait (default: none)"}),
        ),
    ),
    "datasets": ClientCommand(
        "datasets_command:datasets", "List the data sets: their size, what is cached of them, and their epochs."
    ),
    "advise": ClientCommand(
        "advise_command:advise",
        "Estimate each data set's hit share under other tier sizes and evictions, and recommend settings.",
        (
            ("data_set", {"nargs": "?", "metavar": "DATA-SET", "help": "a data set's name (default: all)"}),
            (
                "--recordings",
                {"action": "store_true", "help": "use the recorded epochs, not the reads since the start"},
            ),
        ),
    ),
    "pin": ClientCommand(
        "pins_command:pin", "Pin a prefix: its objects stay on the SSD once they are there.", (LOCATION,)
    ),
    "unpin": ClientCommand("pins_command:unpin", "Unpin a prefix: its objects may be evicted again.", (LOCATION,)),
    "pins": ClientCommand("pins_command:pins", "List the pinned prefixes, and the bytes on the SSD of each."),
    "explain": ClientCommand(
        "explain_command:explain",
        "Explain which rules and grants apply to an object, what is cached of it, and what a read would do now.",
        (
            ("location", {"type": location, "metavar": "s3://bucket/key", "help": "the object"}),
            ("--key", {"metavar": "ID", "help": "the access key that would read it"}),
        ),
    ),
    "purge": ClientCommand("commands:purge", "Drop objects from the cache. The origin's are not touched.", (LOCATION,)),
    "resize": ClientCommand(
        "commands:resize",
        "Change the size of the tiers while Forebay serves.",
        (
            ("--memory", {**SIZE, "help": "of the memory tier, e.g. 8GiB"}),
            ("--ssd", {**SIZE, "help": "of the SSD tier, e.g. 500GiB"}),
        ),
    ),
    "reload": ClientCommand(
        "commands:reload",
        "Reload the configuration, or load another file.",
        (("file", {**FILE, "nargs": "?", "help": "a TOML file to take instead of the server's own"}),),
    ),
    "version": ClientCommand("commands:version", "Show the version of this command, and of the Forebay that runs."),
}
