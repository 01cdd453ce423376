"""The commands that run the proxy itself, handed over by forebay_client: `serve`, `check-config`, `demo`."""

import argparse
import logging
import os
import sys
from pathlib import Path
from typing import Final

from forebay.shell.configuration import ConfigSource

CONFIG_VARIABLE: Final = "FOREBAY_CONFIG"

# Command-line option -> path of the setting.
_FLAGS: Final = {
    "origin": "origin.endpoint",
    "region": "origin.region",
    "listen": "server.listen",
    "admin": "server.admin",
    "memory": "memory.size",
    "ssd": "ssd.path",
    "ssd_size": "ssd.size",
    "workers": "server.workers",
}


def run(command: str, args: argparse.Namespace) -> int:
    """Run a command; its exit code. The heavy imports wait until it is known which."""
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
            from forebay.shell.serve import serve  # noqa: PLC0415 # see run

            return serve(_source(args))
        case "check-config":
            from forebay.shell.serve import check_config  # noqa: PLC0415 # see run

            return check_config(ConfigSource(Path(args.file), os.environ, {}))
        case "demo":
            from forebay.shell.demo.run import run as run_demo  # noqa: PLC0415 # see run

            return run_demo()
        case _:
            raise ValueError(f"no such command: {command}")


def _source(args: argparse.Namespace) -> ConfigSource:
    flags: dict[str, object] = {path: getattr(args, option) for option, path in _FLAGS.items()}
    if args.open:
        flags["auth.mode"] = "open"
    file = args.config or os.environ.get(CONFIG_VARIABLE)
    return ConfigSource(Path(file) if file else None, os.environ, flags)
