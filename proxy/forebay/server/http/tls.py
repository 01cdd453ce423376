"""TLS on the listener: the certificate, and how it is replaced while serving.

TLS to the origin is in forebay.origin. This module knows nothing of HTTP.

- TLS 1.2 at least, and otherwise Python's defaults for a server (`ssl.create_default_context`); clients need no
  certificate, since S3 signs each request.
- A new pair of files becomes a context of its own, made and verified before anything changes. The context that the
  server listens with switches every new connection to the newest one; open connections keep theirs.
- A refused pair changes nothing: the one in use stays.
- OpenSSL never asks a terminal: a key with a passphrase is refused.

https://docs.python.org/3/library/ssl.html#ssl.SSLContext.sni_callback (called whether or not the client names a server)
"""

import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

from forebay.core.errors import SettingsError
from forebay.settings.model import ServerSettings

_CERTIFICATE: Final = b"-----BEGIN CERTIFICATE-----"
_KEY: Final = b"PRIVATE KEY-----"
_ENCRYPTED: Final = (b"-----BEGIN ENCRYPTED PRIVATE KEY-----", b"Proc-Type: 4,ENCRYPTED")
_OTHER_USERS: Final = 0o007
_DATES: Final = (9, 10)
"""X509_V_ERR_CERT_NOT_YET_VALID and X509_V_ERR_CERT_HAS_EXPIRED."""


@dataclass(frozen=True, slots=True)
class PemFiles:
    """The files of a certificate with its chain, and of its key."""

    certificate: Path
    key: Path

    def stamp(self) -> tuple[object, ...]:
        """A value that changes when the content of either file may have changed. Links are followed: Kubernetes renews
        mounted files by pointing a link elsewhere."""
        return tuple(_stamp(file) for file in (self.certificate, self.key))


@dataclass(frozen=True, slots=True)
class CertificateUnchanged:
    """The files have not changed since the last reload."""


@dataclass(frozen=True, slots=True)
class CertificateRenewed:
    """New connections get the certificate that the files hold now."""


@dataclass(frozen=True, slots=True)
class CertificateRefused:
    """The files are unusable; the certificate in use stays."""

    reason: str


CertificateReload: TypeAlias = CertificateUnchanged | CertificateRenewed | CertificateRefused


def pem_files(server: ServerSettings) -> PemFiles | None:
    """The files that the settings name; None if TLS is not served."""
    if server.tls_listen is None or server.tls_certificate is None or server.tls_key is None:
        return None
    return PemFiles(Path(server.tls_certificate), Path(server.tls_key))


class Certificate:
    """The certificate in use. `context` is the one to listen with, from start to end."""

    def __init__(self, files: PemFiles) -> None:
        """Reads the files. Raises SettingsError if they are unusable."""
        self._files = files
        self._stamp = files.stamp()
        self.context = self._current = server_context(files)
        self.context.sni_callback = self._select_context

    def reload(self, *, force: bool = False) -> CertificateReload:
        """Loads the files if they changed since the last reload; `force`: in any case. Blocks on the files."""
        # Before they are read: a change in between is seen by the next reload.
        stamp = self._files.stamp()
        if stamp == self._stamp and not force:
            return CertificateUnchanged()
        self._stamp = stamp
        try:
            self._current = server_context(self._files)
        except SettingsError as error:
            return CertificateRefused(str(error))
        return CertificateRenewed()

    def _select_context(self, connection: ssl.SSLObject, _name: str | None, _context: ssl.SSLContext) -> None:
        connection.context = self._current


def server_context(files: PemFiles) -> ssl.SSLContext:
    """A server's context with this certificate. Raises SettingsError that names the file and the reason."""
    certificate = _read(files.certificate, "server.tls_certificate")
    if _CERTIFICATE not in certificate:
        allowed = "a PEM file that begins with the server's certificate, then its chain"
        raise SettingsError("server.tls_certificate", str(files.certificate), allowed)
    key = _read(files.key, "server.tls_key")
    if _KEY not in key:
        raise SettingsError("server.tls_key", str(files.key), "a PEM file with the certificate's private key")
    if any(mark in key for mark in _ENCRYPTED):
        allowed = "a private key without a passphrase, since nobody is there to type one"
        raise SettingsError("server.tls_key", str(files.key), allowed)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    try:
        context.load_cert_chain(files.certificate, files.key, password=_no_passphrase)
    except (ssl.SSLError, OSError, ValueError) as error:
        reason = error.reason if isinstance(error, ssl.SSLError) else str(error)
        if reason == "KEY_VALUES_MISMATCH":
            allowed = f"the private key of the certificate in {files.certificate}, and not another's"
            raise SettingsError("server.tls_key", str(files.key), allowed) from None
        allowed = f"a certificate and a key (server.tls_key, {files.key}) that OpenSSL can read ({reason or error})"
        raise SettingsError("server.tls_certificate", str(files.certificate), allowed) from None
    return context


def exposed_key_warning(server: ServerSettings) -> str | None:
    """A warning if every user of this machine can read the key, else None."""
    files = pem_files(server)
    try:
        if files is None or not files.key.stat().st_mode & _OTHER_USERS:
            return None
    except OSError:
        return None  # reported when it is read
    return f"server.tls_key: everybody on this machine can use {files.key}: chmod o-rwx"


def expired_certificate_warning(server: ServerSettings) -> str | None:
    """A warning if clients refuse the certificate, as it has expired or is not valid yet, else None."""
    if (files := pem_files(server)) is None:
        return None
    try:
        error = _validity_error(files)
    except (SettingsError, OSError, ssl.SSLError):
        return None  # reported when it is read
    if error is None:
        return None
    return (
        f"server.tls_certificate: clients refuse {files.certificate}: {error}; renew it, it is reread when it changes"
    )


def _validity_error(files: PemFiles) -> str | None:
    """OpenSSL's error about the certificate's dates; None: they are valid. A handshake in memory finds it, with a
    client that trusts this certificate, as Python does not show the dates of a server's own."""
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname = False
    client.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    client.load_verify_locations(files.certificate)
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = client.wrap_bio(down, up), server_context(files).wrap_bio(up, down, server_side=True)
    for side in sides * 2:  # a message of each, and the answer to it
        try:
            side.do_handshake()
        except ssl.SSLWantReadError:
            continue
        except ssl.SSLCertVerificationError as error:
            return error.verify_message if error.verify_code in _DATES else None
    return None


def _no_passphrase() -> str:
    """Answers a request for a passphrase that the check of the key missed. Without it OpenSSL asks the terminal."""
    return ""


def _read(file: Path, where: str) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise SettingsError(where, str(file), f"a file that can be read ({error.strerror or error})") from None


def _stamp(file: Path) -> tuple[int, ...] | None:
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns
