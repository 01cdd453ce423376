"""`forebay check-config` and `forebay doctor`: whether a configuration is accepted, and would work on this machine."""

import asyncio
import logging
import sys
from collections.abc import Iterable, Iterator

from forebay.core.errors import SettingsError
from forebay.serve import configuration_warnings, fail, has_origin
from forebay.server.config_source import ConfigSource
from forebay.server.http.tls import pem_files, server_context
from forebay.server.self_checks import (
    SelfCheck,
    check_disks,
    check_machine,
    check_origins_of,
    measure_ssd,
)
from forebay.settings.model import Settings

PASSED, FAILED, REFUSED = 0, 1, 2
"""The exit codes."""


def check_config(
    source: ConfigSource, *, strict: bool = False, without_secrets: bool = False, try_out: bool = False
) -> int:
    """Prints whether the configuration would be accepted. Returns the exit code.

    `strict`: warnings fail. `without_secrets`: secrets named by a variable or a file, and the files of TLS, may be
    missing. `try_out`: also try the origin and the directories.
    """
    try:
        loaded = source.load(without_secrets=without_secrets)
        _check_tls(loaded.settings, without_secrets=without_secrets)
    except SettingsError as error:
        return fail(str(error), REFUSED)
    warnings = [*configuration_warnings(loaded)]
    for warning in warnings:
        print(f"warning: {warning}", file=sys.stderr)  # noqa: T201 # the command's output
    if warnings and strict:
        return fail(f"{source.file} has warnings, which --strict refuses.", FAILED)
    print(f"{source.file} is accepted.")  # noqa: T201 # likewise
    if not try_out:
        return PASSED
    return asyncio.run(_report(loaded.settings, check_disks(loaded.settings), strict=strict))


def doctor(source: ConfigSource) -> int:
    """Checks the configuration and the machine, and prints the results. Returns the exit code."""
    if not has_origin(source):
        return fail("No origin is configured: name a file with --config, or an origin with --origin.", REFUSED)
    try:
        loaded = source.load()
        _check_tls(loaded.settings, without_secrets=False)
    except SettingsError as error:
        return fail(f"The configuration is refused:\n{error}", REFUSED)
    settings = loaded.settings

    def machine() -> Iterator[SelfCheck]:
        for warning in configuration_warnings(loaded):
            yield SelfCheck("configuration", "warning", warning)
        yield from check_disks(settings)
        yield from measure_ssd(settings)
        yield from check_machine(settings)

    return asyncio.run(_report(settings, machine(), strict=False))


def _check_tls(settings: Settings, *, without_secrets: bool) -> None:
    """Raises SettingsError for a certificate that can't be used."""
    files = pem_files(settings.server)
    if files is None or (without_secrets and not (files.certificate.exists() and files.key.exists())):
        return
    server_context(files)


async def _report(settings: Settings, machine: Iterable[SelfCheck], *, strict: bool) -> int:
    """Prints each check as it ends. Returns the exit code."""
    logging.getLogger("forebay").setLevel(logging.CRITICAL)  # the checks say all of it
    states = set()

    def show(check: SelfCheck) -> None:
        states.add(check.state)
        print(f"{check.state:8} {check.name:13} {check.finding}", flush=True)  # noqa: T201 # the command's output

    async for check in check_origins_of(settings):
        show(check)
    for check in machine:
        show(check)
    return FAILED if "failed" in states or (strict and "warning" in states) else PASSED
