"""`forebay serve`: one worker under uvloop, or a supervisor and several, until a signal ends it.

SIGTERM, SIGINT    drain, close, end; a second one ends without waiting for requests in flight
SIGHUP             read the configuration and the TLS certificate again, reopen the access log's file
"""

import asyncio
import contextlib
import logging
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final, Protocol

from forebay.core.errors import SettingsError, StartError
from forebay.server.allocator import keep_freed_memory
from forebay.server.config_source import ConfigSource, set_log_level
from forebay.server.event_loop import loop_factory
from forebay.server.former_journals import former_journal_warnings
from forebay.server.http.tls import expired_certificate_warning, exposed_key_warning
from forebay.server.huge_pages import move_into_huge_pages
from forebay.server.resource_limits import capacity_warnings, raise_file_limit, usable_cores
from forebay.server.scheduling_slice import shorten_slice
from forebay.server.service_manager import READY, STOPPING, notify_service_manager
from forebay.server.startup import freeze_long_lived, import_aiohttp
from forebay.settings.loader import Loaded
from forebay.settings.model import OriginSettings, Settings

_log = logging.getLogger(__name__)
_ORIGINS: Final = "FOREBAY_ORIGINS"


def serve(source: ConfigSource, welcome: Callable[[Settings], str] | None = None) -> int:
    """Serves until a signal. Returns the exit code: 0 ended in order, 1 could not serve, 2 configuration refused.

    `welcome`: makes the text that is printed once requests are served, from the settings in effect; None logs the
    addresses.
    """
    try:
        text, mode = source.read()
        loaded = source.load_text(text, mode)
        set_log_level(loaded.settings)
        for warning in (
            *configuration_warnings(loaded),
            *capacity_warnings(loaded.settings),
            *former_journal_warnings(loaded.settings),
            raise_file_limit(loaded.settings),
        ):
            if warning is not None:
                _log.warning("%s", warning)
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            return runner.run(_serve(_server(loaded.settings, source, text, mode), loaded, welcome))
    except SettingsError as error:
        return fail(f"The configuration is refused:\n{error}", 2)
    except StartError as error:
        return fail(str(error), 1)
    except KeyboardInterrupt:
        return 0  # while starting; once it serves, signals are handled


def configuration_warnings(loaded: Loaded) -> Iterator[str]:
    """The warnings about a configuration, and about its files."""
    yield from loaded.warnings
    for look in (exposed_key_warning, expired_certificate_warning):
        if (warning := look(loaded.settings.server)) is not None:
            yield warning


FIRST_CHECK: Final = 2.0
"""Seconds that the line of the start waits to say whether the origin answers, and accepts Forebay's credential."""

MAX_DEFAULT_WORKERS: Final = 8
"""Workers where `server.workers` sets no number: eight fill a 100 Gbit/s link, and each further one shrinks the others'
shares of memory and has to be notified of every write."""


class NodeServer(Protocol):
    """The only worker, or the supervisor of several. The configured addresses are set once it has started."""

    address: Any
    """The address of the data port, as getsockname returns it; the other addresses have the same form."""
    tls_address: Any
    admin_address: Any

    async def start(self) -> None:
        """Starts; returns when requests are served."""

    async def origin_faults(self) -> Sequence[str]:
        """Returns the faults of the origin, as sentences, once they are known."""

    def schedule_reload(self) -> None:
        """Starts a reload of the configuration from a signal handler."""

    async def announce_shutdown(self) -> None:
        """Makes readiness fail while requests are still served. From here on writes go through."""

    async def stop(self, hurry: asyncio.Event) -> object:
        """Drains and closes. `hurry`, once set, ends the drain."""


def _server(settings: Settings, source: ConfigSource, text: str | None, mode: int) -> Callable[[], NodeServer]:
    """A factory of the server, to be called in the loop that will serve. Imports the server's modules."""
    workers = settings.server.workers or min(usable_cores(), MAX_DEFAULT_WORKERS)
    if workers == 1:
        import_aiohttp()
        from forebay.server.worker import Worker  # noqa: PLC0415 # a supervisor runs without a worker

        return lambda: Worker(settings, source)
    from forebay.workers.supervisor import Supervisor  # noqa: PLC0415 # a worker runs without a supervisor

    return lambda: Supervisor(settings, source, text, mode, workers)


async def _serve(make: Callable[[], NodeServer], loaded: Loaded, welcome: Callable[[Settings], str] | None) -> int:
    server = make()
    ending, hurry = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    def end() -> None:
        (hurry if ending.is_set() else ending).set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, end)
    await server.start()
    freeze_long_lived(loop)
    keep_freed_memory()
    shorten_slice()
    loop.add_signal_handler(signal.SIGHUP, server.schedule_reload)
    notify_service_manager(READY, os.environ)  # not behind the line of the start, which waits for the origin
    settings = _with_ports(loaded.settings, server)
    if welcome is not None:
        print(welcome(settings), flush=True)  # noqa: T201 # the command's output
    else:
        serving = f"serving {', '.join(map(_served, settings.all_origins))} on {' and '.join(_endpoints(settings))}"
        if faults := await _origin_faults(server):
            _log.warning("%s, not ready: %s", serving, " ".join(faults))
        else:
            _log.info("%s", serving)
        if settings.server.admin is not None:
            _log.info("metrics and control on http://%s", settings.server.admin)
    await asyncio.to_thread(move_into_huge_pages)
    await ending.wait()
    notify_service_manager(STOPPING, os.environ)
    await _wait_for_clients_to_leave(server, settings.server.shutdown_delay, hurry)
    await server.stop(hurry)
    return 0


async def _wait_for_clients_to_leave(server: NodeServer, delay: float, hurry: asyncio.Event) -> None:
    """Says that Forebay is not ready, and serves for `delay` seconds more: load balancers go on sending requests until
    they have learnt it."""
    await server.announce_shutdown()
    if delay:
        _log.info("ending: not ready any more, requests are accepted for %g s", delay)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(delay):
                await hurry.wait()


async def _origin_faults(server: NodeServer) -> Sequence[str]:
    """Returns the faults of the origin, if they are known soon: the log's line must not delay the clients."""
    try:
        async with asyncio.timeout(FIRST_CHECK):
            return await server.origin_faults()
    except TimeoutError:
        return ()


def _with_ports(settings: Settings, server: NodeServer) -> Settings:
    """The settings with the ports that the system chose in place of port 0."""
    configured = settings.server
    listen = replace(configured.listen, port=server.address[1])
    tls = configured.tls_listen and replace(configured.tls_listen, port=server.tls_address[1])
    admin = configured.admin and replace(configured.admin, port=server.admin_address[1])
    return replace(settings, server=replace(configured, listen=listen, tls_listen=tls, admin=admin))


def _endpoints(settings: Settings) -> Iterator[str]:
    yield f"http://{settings.server.listen}"
    if settings.server.tls_listen is not None:
        yield f"https://{settings.server.tls_listen}"


def _served(origin: OriginSettings) -> str:
    """An origin in the start line."""
    return origin.endpoint if not origin.buckets else f"{origin.endpoint} ({', '.join(origin.buckets)})"


def has_origin(source: ConfigSource) -> bool:
    """Whether a file, the environment or a flag configures an origin."""
    environ = source.environ
    named = source.flags.get("origin.endpoint") or environ.get("FOREBAY_ORIGIN__ENDPOINT") or environ.get(_ORIGINS)
    return source.file is not None or bool(named)


def fail(text: str, code: int) -> int:
    """Prints `text` on standard error; returns `code`, the exit code."""
    print(text, file=sys.stderr)  # noqa: T201 # the command's output
    return code
