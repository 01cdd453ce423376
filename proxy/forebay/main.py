"""The commands that run the proxy itself, handed over by forebay_client: `serve`, `check-config`,
`check-journal`, `doctor`, `demo`.

Each command imports its own modules when it runs, and the others' never.
"""

import argparse
import logging
import os
import sys
from pathlib import Path

from forebay.server.startup import pause_collector


def run(command: str, args: argparse.Namespace) -> int:
    """Runs a command. Returns its exit code."""
    logging.basicConfig(
        stream=sys.stderr,
        level=logging.INFO,  # of Forebay's own: server.log_level, once the configuration is read
        format="%(levelname)s %(name)s: %(message)s",
    )
    logging.getLogger("aiohttp").setLevel(logging.WARNING)
    logging.getLogger("botocore").setLevel(logging.WARNING)
    logging.getLogger("aiobotocore").setLevel(logging.WARNING)
    match command:
        case "serve":
            pause_collector()
            from forebay.serve import has_origin, serve
            from forebay.server.config_source import source_from_args

            source = source_from_args(args, os.environ)
            if has_origin(source):
                return serve(source)
            from forebay_demo.embedded_origin import serve_embedded

            return serve_embedded(source)
        case "check-config":
            from forebay.check_commands import check_config
            from forebay.server.config_source import ConfigSource

            return check_config(
                ConfigSource(Path(args.file), os.environ, {}),
                strict=args.strict,
                without_secrets=args.without_secrets,
                try_out=args.try_out,
            )
        case "check-journal":
            from forebay.journal_commands import check_journal_command

            export = Path(args.export) if args.export is not None else None
            return check_journal_command(Path(args.directory), export, args.export_to, force=args.force)
        case "doctor":
            from forebay.check_commands import doctor
            from forebay.server.config_source import source_from_args

            return doctor(source_from_args(args, os.environ))
        case "demo":
            from forebay_demo.demo_run import run as run_demo

            return run_demo()
        case _:
            raise ValueError(f"no such command: {command}")
