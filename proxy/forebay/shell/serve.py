"""`forebay serve`: one worker under uvloop, until it is told to end.

With no origin configured, the embedded one is started first (forebay.shell.embedded): it works out of the box.

    SIGTERM, SIGINT    drain, close, end; said again: end without waiting for open requests
    SIGHUP             read the configuration again
"""

import asyncio
import logging
import signal
import sys
from contextlib import ExitStack

import uvloop

from forebay.shell.configuration import ConfigSource
from forebay.shell.demo.child import DemoUnavailable
from forebay.shell.embedded import EmbeddedOrigin, embedded_origin
from forebay.shell.worker import PortTaken, Worker
from forebay.words.errors import SettingsError
from forebay.words.settings.load import Loaded

_log = logging.getLogger(__name__)


def serve(source: ConfigSource) -> int:
    """Run until told to end. The exit code: 0 ended in order, 1 could not serve, 2 the configuration is refused."""
    try:
        with ExitStack() as running:
            embedded = None
            if not _names_an_origin(source):
                print("Starting the embedded origin ...", file=sys.stderr, flush=True)  # noqa: T201 # the command's output
                embedded = running.enter_context(embedded_origin())
                source = ConfigSource(None, source.environ, source.flags, embedded.configuration)
            loaded = source.load()
            for warning in loaded.warnings:
                _log.warning("%s", warning)
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                return runner.run(_serve(loaded, source, embedded))
    except SettingsError as error:
        return _complain(f"The configuration is refused:\n{error}", 2)
    except (PortTaken, DemoUnavailable) as error:
        return _complain(str(error), 1)
    except KeyboardInterrupt:
        return 0  # while starting; once it serves, signals are handled


def check_config(source: ConfigSource) -> int:
    """Say whether the configuration would be accepted. 0 yes, 2 no."""
    try:
        loaded = source.load()
    except SettingsError as error:
        return _complain(str(error), 2)
    for warning in loaded.warnings:
        print(f"warning: {warning}", file=sys.stderr)  # noqa: T201 # the command's output
    print(f"{source.file} is accepted.")  # noqa: T201 # likewise
    return 0


async def _serve(loaded: Loaded, source: ConfigSource, embedded: EmbeddedOrigin | None) -> int:
    worker = Worker(loaded.settings, source)
    await worker.start()
    if embedded is not None:
        print(embedded.welcome(loaded.settings), flush=True)  # noqa: T201 # the command's output
    else:
        _log.info("serving %s on http://%s", loaded.settings.origin.endpoint, loaded.settings.server.listen)
    ending, hurry = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    def end() -> None:
        (hurry if ending.is_set() else ending).set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, end)
    loop.add_signal_handler(signal.SIGHUP, worker.reload_soon)
    await ending.wait()
    _log.info("ending: requests under way have %g s", loaded.settings.server.drain_timeout)
    await worker.stop(hurry)
    return 0


def _names_an_origin(source: ConfigSource) -> bool:
    given = source.flags.get("origin.endpoint") or source.environ.get("FOREBAY_ORIGIN__ENDPOINT")
    return source.file is not None or bool(given)


def _complain(text: str, code: int) -> int:
    print(text, file=sys.stderr)  # noqa: T201 # the command's output
    return code
