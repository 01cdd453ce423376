"""Self-checks: would Forebay work with these settings on this machine? For `doctor` and `check-config --try`.

    origin         names resolve, a connection and TLS, clock, credential and region, credentials of auth.keys
    machine        directories: writable, space, speed; addresses; open files; versions

Nothing is changed: no directory is made, and a file for the measurement of speed has no name. A Forebay that runs with
the same settings isn't disturbed.
"""

import asyncio
import os
import platform
import shutil
import socket
import ssl
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from http.client import HTTPConnection, HTTPException
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final, Literal, TypeAlias

import forebay_client
from forebay.core.errors import AddressUnavailable, JournalUnusable, OriginCredentialFault, OriginError, SsdUnusable
from forebay.core.events import origin_suffix
from forebay.origin.credential_refusal import REGION_REFUSAL, refused_credential
from forebay.origin.dialects import DIALECTS
from forebay.origin.http.loopback_resolver import system_name
from forebay.origin.http.transport_errors import ConnectionFault
from forebay.origin.origin_client import OriginClient
from forebay.origin.origin_limits import OriginLimits
from forebay.origin.origin_server import OriginServer
from forebay.server.gateway_policy import credentials_of
from forebay.server.http.listening_sockets import bind
from forebay.server.resource_limits import capacity_warnings, raise_file_limit
from forebay.settings.addresses import ListenAddress
from forebay.settings.model import OriginSettings, Settings
from forebay.settings.own_credential import needs_own_credential, shared_key_warning
from forebay.storage.journal.journal import holds_journal
from forebay.storage.journal.journal_layout import JournalLayout
from forebay.storage.ssd.ssd_directory import check_content
from forebay_client.cli.human_format import format_size

State: TypeAlias = Literal["ok", "warning", "failed"]

MAX_CLOCK_DIFFERENCE: Final = 60.0
"""Seconds; S3 refuses signatures that are 15 minutes off."""
_MEASURED: Final = 64 << 20
"""Bytes that are written and read to measure a disk."""
_SLOW_DISK: Final = 200 << 20
"""Bytes per second below which an SSD is none."""
_PACKAGES: Final = ("aiohttp", "aiobotocore", "uvloop", "lmdb")


@dataclass(frozen=True, slots=True)
class SelfCheck:
    """The result of one check."""

    name: str
    state: State
    finding: str
    """A sentence, without a period."""


async def check_origins_of(settings: Settings) -> AsyncIterator[SelfCheck]:
    """The checks of each origin, with requests to it, each as it ends."""
    for origin in settings.all_origins:
        async for check in _check_origin(settings, origin):
            yield replace(check, finding=f"{check.finding}{origin_suffix(origin.name)}")


async def _check_origin(settings: Settings, origin: OriginSettings) -> AsyncIterator[SelfCheck]:
    client = OriginClient(
        OriginServer(origin.endpoint, origin.region, DIALECTS[origin.dialect], ca_file=origin.ca_file),
        credentials_of(origin.credentials),
        limits=OriginLimits(connect_timeout=origin.connect_timeout, answer_timeout=origin.answer_timeout),
    )
    async with client:
        server = client.endpoint.url_of(None, None, ()).server
        try:
            found = await asyncio.get_running_loop().getaddrinfo(
                system_name(server.host), server.port, type=socket.SOCK_STREAM
            )
        except OSError as error:
            yield SelfCheck("dns", "failed", f"{server.host} is not resolved ({error.strerror or error})")
            return
        yield SelfCheck("dns", "ok", f"{server.host} is {', '.join(sorted({str(each[4][0]) for each in found}))}")
        if not await client.probe():
            outage = client.breaker.outage
            cause = outage.cause if outage is not None else "no answer"
            name = "tls" if "TLS" in cause else "origin"
            yield SelfCheck(name, "failed", f"{origin.endpoint} can't be reached: {cause}")
            return
        if server.secure:
            yield SelfCheck("tls", "ok", "the certificate of the origin is verified")
        yield SelfCheck("origin", "ok", f"{origin.endpoint} answers")
        async for check in _check_credentials(client, settings, origin):
            yield check


async def _check_credentials(
    client: OriginClient, settings: Settings, origin: OriginSettings
) -> AsyncIterator[SelfCheck]:
    check = client.credential_check
    state = await check.check()
    if client.credential_probe.clock_difference is not None:
        yield _clock(client.credential_probe.clock_difference)
    used = "" if needs_own_credential(settings, origin) else ", which no client's request needs"
    match state:
        case "accepted":
            yield SelfCheck("credential", "ok", f"the origin accepts {check.access_key}{used}")
            yield SelfCheck("region", "ok", f"the origin accepts {client.region}")
        case "anonymous":
            yield SelfCheck("credential", "ok", "requests are unsigned (anonymous = true)")
        case "unknown":
            yield SelfCheck("credential", "warning", "the origin's answer does not say whether it is accepted")
        case _:
            reason = check.fault.reason if check.fault is not None else state
            name = "region" if REGION_REFUSAL in reason else "credential"
            yield SelfCheck(name, "failed" if not used else "warning", f"{reason}{used}")
    if (warning := shared_key_warning(settings, origin, check.access_key)) is not None:
        yield SelfCheck("credential", "warning", warning)
    for key in settings.auth.keys:
        if key.origin is None or not key.has_credential_at(origin.name):
            continue
        where = f"the origin credential of {key.id}"
        try:
            secret = await credentials_of(key.origin).current()
            refusal = await client.credential_probe.judge(secret) if secret is not None else None
        except OriginCredentialFault as missing:
            yield SelfCheck("credential", "failed", f"{where}: {missing.reason}")
        except (OriginError, ConnectionFault) as error:
            yield SelfCheck("credential", "warning", f"{where} can't be checked: {error}")
        else:
            if refusal is None or secret is None:
                yield SelfCheck("credential", "ok", f"the origin accepts {where}")
            else:
                why = refusal.explain(client.region, time.time())
                fault = refused_credential(refusal, secret.access_key, why, own=False)
                yield SelfCheck("credential", "failed", f"{fault.reason} ({key.id})")


def _clock(difference: float) -> SelfCheck:
    where = f"{abs(difference):.0f} s {'ahead of' if difference > 0 else 'behind'} the origin's"
    if abs(difference) <= MAX_CLOCK_DIFFERENCE:
        return SelfCheck("clock", "ok", f"Forebay's clock is {where}")
    return SelfCheck("clock", "failed", f"Forebay's clock is {where}: signatures expire by it")


def check_disks(settings: Settings) -> Iterator[SelfCheck]:
    """Whether the directories can be used, and have space."""
    if settings.ssd is not None:
        yield from _directory("ssd.path", Path(settings.ssd.path), settings.ssd.size)
        try:
            check_content(Path(settings.ssd.path))
        except SsdUnusable as refused:
            yield SelfCheck("disk", "failed", f"ssd.path: {refused}: name a directory of its own")
        except OSError:
            pass  # as for the journal
    if settings.journal is not None:
        yield from _directory("journal.path", Path(settings.journal.path), settings.journal.size)
        try:
            holds_journal(JournalLayout(settings.journal.path))
        except JournalUnusable as refused:
            yield SelfCheck("disk", "failed", str(refused))
        except OSError:
            pass  # it is made at the start; whether it can be is checked above
    if settings.server.state_dir is not None:
        yield from _directory("server.state_dir", Path(settings.server.state_dir), 0)
    if settings.limits.held_path is not None:
        yield from _directory("limits.held_path", Path(settings.limits.held_path), settings.limits.held)


def _directory(setting: str, path: Path, size: int) -> Iterator[SelfCheck]:
    existing = _existing(path)
    if not existing.is_dir() or not os.access(existing, os.W_OK | os.X_OK):
        yield SelfCheck("disk", "failed", f"{setting}: {existing} is no directory that this user may write to")
        return
    free = shutil.disk_usage(existing).free
    used = _used(path)
    state: State = "ok" if free + used >= size else "warning"
    wanted = f", of {format_size(size)} configured" if size else ""
    yield SelfCheck("disk", state, f"{setting}: {path} has {format_size(free + used)} for it{wanted}")


def _used(path: Path) -> int:
    """Bytes that the files below a directory take. Files may go meanwhile."""
    used = 0
    for directory, _, names in os.walk(path):
        for name in names:
            with suppress(OSError):
                used += Path(directory, name).stat().st_blocks * 512
    return used


def measure_ssd(settings: Settings) -> Iterator[SelfCheck]:
    """Measures the speed of the SSD tier's disk. Takes seconds on a slow one."""
    if settings.ssd is None:
        return
    directory = _existing(Path(settings.ssd.path))
    try:
        written = _write_rate(directory)
    except OSError as error:
        yield SelfCheck("disk", "failed", f"ssd.path: {directory} can't be written to ({error.strerror})")
        return
    yield check_write_rate(written)


def check_write_rate(written: float) -> SelfCheck:
    """The check of an SSD to which so many bytes a second were written."""
    found = f"ssd.path: {format_size(written)}/s written and synced"
    if written >= _SLOW_DISK:
        return SelfCheck("disk", "ok", found)
    return SelfCheck("disk", "warning", f"{found}, less than the {format_size(_SLOW_DISK)}/s of a slow SSD")


def _write_rate(directory: Path) -> float:
    piece = os.urandom(1 << 20)
    with tempfile.TemporaryFile(dir=directory) as file:
        started = time.monotonic()
        for _ in range(_MEASURED // len(piece)):
            file.write(piece)
        file.flush()
        os.fsync(file.fileno())
        return _MEASURED / max(time.monotonic() - started, 1e-6)


def check_machine(settings: Settings) -> Iterator[SelfCheck]:
    """The addresses, the descriptors, the memory, and the versions."""
    server = settings.server
    addresses = (
        ("server.listen", server.listen),
        ("server.tls_listen", server.tls_listen),
        ("server.admin", server.admin),
    )
    for setting, address in addresses:
        if address is None:
            continue
        try:
            bind(address, setting).close()
        except AddressUnavailable as error:
            if server.admin is not None and _is_forebay(server.admin):
                yield SelfCheck("port", "ok", f"{setting}: {address} is in use; a Forebay runs here")
            else:
                yield SelfCheck("port", "failed", str(error).rstrip("."))
        else:
            yield SelfCheck("port", "ok", f"{setting}: {address} is free")
    limit = raise_file_limit(settings)
    yield SelfCheck("descriptors", "warning", limit) if limit else SelfCheck("descriptors", "ok", "enough open files")
    for warning in capacity_warnings(settings):
        yield SelfCheck("capacity", "warning", warning)
    versions = [f"forebay {forebay_client.__version__}", f"Python {platform.python_version()}", ssl.OPENSSL_VERSION]
    for package in _PACKAGES:
        try:
            versions.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            versions.append(f"no {package}")
    yield SelfCheck("versions", "ok", ", ".join((*versions, f"{sys.platform} {platform.release()}")))


def _is_forebay(admin: ListenAddress) -> bool:
    """Whether a Forebay answers at the address of the admin port."""
    connection = HTTPConnection(admin.host, admin.port, timeout=2)
    try:
        connection.request("GET", "/healthz")
        return connection.getresponse().status == 200
    except (OSError, HTTPException):
        return False
    finally:
        connection.close()


def _existing(path: Path) -> Path:
    """The path, or the nearest directory above it that exists."""
    while not path.exists() and path != path.parent:
        path = path.parent
    return path
