"""`forebay serve`, `check-config` and `demo`: handed over to the proxy, which the base install has no libraries for.

The proxy is imported only here and only then, so that every other command starts fast and runs without it.
"""

import argparse

from forebay_client.command_context import Screen

_EXTRAS = {"demo": "demo"}


def run_proxy_command(command: str, args: argparse.Namespace, screen: Screen) -> int:
    """Runs the command in the proxy's code; gives its exit code."""
    try:
        from forebay.main import run  # noqa: PLC0415 - lazily: see the module
    except ModuleNotFoundError as error:
        return _not_installed(command, error, screen)
    try:
        return run(command, args)
    except ModuleNotFoundError as error:
        # The demo's own libraries are imported when it runs. A module of Forebay that is missing is another matter.
        if (error.name or "forebay").partition(".")[0] == "forebay":
            raise
        return _not_installed(command, error, screen)


def _not_installed(command: str, error: ModuleNotFoundError, screen: Screen) -> int:
    extra = _EXTRAS.get(command, "proxy")
    screen.write_error(
        f"`forebay {command}` needs the proxy, which is not installed (there is no {error.name}): "
        f'pip install "forebay[{extra}]"'
    )
    return 1
