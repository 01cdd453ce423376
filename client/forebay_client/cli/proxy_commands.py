"""`forebay serve`, `check-config`, `doctor` and `demo`: commands of the proxy, whose libraries the base install lacks.

The proxy is imported only here and only then, so that every other command starts fast and runs without it.
"""

import argparse
from importlib.util import find_spec

from forebay_client.cli.command_context import Screen

_EXTRAS = {"demo": "demo"}
_INSTALL = "install it from a checkout of Forebay: pip install '.[{extra}]'"
_LIBRARY = "aiohttp"  # of the [proxy] extra: absent, the proxy's code is there (it is one package) but can't run


def run_proxy_command(command: str, args: argparse.Namespace, screen: Screen) -> int:
    """Runs a command of the proxy. Returns its exit code."""
    if find_spec(_LIBRARY) is None:
        return _not_installed(command, _LIBRARY, screen)
    try:
        from forebay.main import run  # noqa: PLC0415 - lazily: see the module

        return run(command, args)
    except ModuleNotFoundError as error:
        # The demo's own libraries are imported when it runs. A missing module of Forebay is a defect, unless all are.
        missing = error.name or "forebay"
        if missing.partition(".")[0] == "forebay" and missing != "forebay":
            raise
        return _not_installed(command, missing, screen)


def _not_installed(command: str, missing: str, screen: Screen) -> int:
    extra = _EXTRAS.get(command, "proxy")
    screen.write_error(
        f"`forebay {command}` needs the proxy, which is not installed (there is no {missing}): "
        + _INSTALL.format(extra=extra)
    )
    return 1
