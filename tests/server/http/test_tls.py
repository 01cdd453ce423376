"""The listener's certificate by itself: files that are accepted and refused, with their messages, and what new
connections get."""

import os
import ssl
from pathlib import Path

import pytest

from forebay.core.errors import SettingsError
from forebay.server.http.tls import (
    Certificate,
    CertificateRefused,
    CertificateRenewed,
    CertificateUnchanged,
    PemFiles,
    expired_certificate_warning,
    exposed_key_warning,
    pem_files,
    server_context,
)
from forebay.settings import load_settings
from forebay.settings.model import ServerSettings
from harness.certificates import TestAuthority


@pytest.fixture
def authority(tmp_path: Path) -> TestAuthority:
    return TestAuthority(tmp_path)


@pytest.fixture
def files(tmp_path: Path) -> PemFiles:
    return PemFiles(tmp_path / "chain.pem", tmp_path / "key.pem")


def put(files: PemFiles, pair: tuple[bytes, bytes]) -> None:
    """Replace a file as certificate renewers do: another file gets its name."""
    for file, content in zip((files.certificate, files.key), pair, strict=True):
        fresh = file.with_suffix(".new")
        fresh.write_bytes(content)
        fresh.rename(file)


class Handshake:
    """A client and the server, connected in memory."""

    def __init__(self, server: ssl.SSLContext, client: ssl.SSLContext, name: str | None = "localhost") -> None:
        up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.client = client.wrap_bio(down, up, server_hostname=name)
        self.server = server.wrap_bio(up, down, server_side=True)

    def run(self) -> "Handshake":
        left = [self.client, self.server]
        while left:
            for side in tuple(left):
                try:
                    side.do_handshake()
                except ssl.SSLWantReadError:
                    continue
                left.remove(side)
        return self

    @property
    def shown(self) -> str:
        """The common name of the certificate that the client got."""
        certificate = self.client.getpeercert()
        assert certificate is not None
        return str(dict(pair[0] for pair in certificate["subject"])["commonName"])  # type: ignore[misc] # RDNs, which are pairs

    def echo(self, text: bytes) -> bytes:
        self.client.write(text)
        return self.server.read()


def trusting(authority: TestAuthority) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=authority.file)


def test_only_new_connections_get_the_new_certificate(authority: TestAuthority, files: PemFiles) -> None:
    put(files, authority.issue("first"))
    certificate = Certificate(files)
    old = Handshake(certificate.context, trusting(authority)).run()
    assert old.shown == "first"
    assert certificate.reload() == CertificateUnchanged()
    put(files, authority.issue("second"))
    assert certificate.reload() == CertificateRenewed()
    assert certificate.reload() == CertificateUnchanged()
    assert Handshake(certificate.context, trusting(authority)).run().shown == "second"
    assert old.echo(b"still here") == b"still here"


def test_a_client_without_sni_gets_the_new_certificate_too(authority: TestAuthority, files: PemFiles) -> None:
    put(files, authority.issue("first"))
    certificate = Certificate(files)
    put(files, authority.issue("second"))
    certificate.reload()
    nameless = trusting(authority)
    nameless.check_hostname = False
    assert Handshake(certificate.context, nameless, None).run().shown == "second"


def test_a_refused_pair_changes_nothing(authority: TestAuthority, files: PemFiles) -> None:
    put(files, authority.issue("first"))
    certificate = Certificate(files)
    chain, _ = authority.issue("half")
    put(files, (chain, files.key.read_bytes()))
    assert isinstance(certificate.reload(), CertificateRefused)
    assert Handshake(certificate.context, trusting(authority)).run().shown == "first"
    # Said once, and not every few seconds; unless somebody asks.
    assert certificate.reload() == CertificateUnchanged()
    assert isinstance(certificate.reload(force=True), CertificateRefused)
    # The other half arrives.
    put(files, authority.issue("second"))
    assert certificate.reload() == CertificateRenewed()
    assert Handshake(certificate.context, trusting(authority)).run().shown == "second"


def test_missing_files_are_refused_until_they_are_back(authority: TestAuthority, files: PemFiles) -> None:
    pair = authority.issue("first")
    put(files, pair)
    certificate = Certificate(files)
    files.certificate.unlink()
    refused = certificate.reload()
    assert isinstance(refused, CertificateRefused)
    assert "No such file" in refused.reason
    put(files, pair)
    assert certificate.reload() == CertificateRenewed()


def test_a_changed_link_is_a_change(authority: TestAuthority, tmp_path: Path) -> None:
    """As Kubernetes renews mounted files: `..data` is replaced, the files' own links never are."""
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        put(PemFiles(tmp_path / name / "chain", tmp_path / name / "key"), authority.issue(name))
    data = tmp_path / "data"
    data.symlink_to("first")
    certificate = Certificate(PemFiles(data / "chain", data / "key"))
    (tmp_path / "fresh").symlink_to("second")
    (tmp_path / "fresh").rename(data)
    assert certificate.reload() == CertificateRenewed()
    assert Handshake(certificate.context, trusting(authority)).run().shown == "second"


def test_another_modification_time_is_a_change(authority: TestAuthority, files: PemFiles) -> None:
    put(files, authority.issue("first"))
    certificate = Certificate(files)
    os.utime(files.key, ns=(1, 1))
    assert certificate.reload() == CertificateRenewed()


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1])
def test_tls_older_than_1_2_is_refused(authority: TestAuthority, files: PemFiles, version: ssl.TLSVersion) -> None:
    put(files, authority.issue("any"))
    context = server_context(files)
    assert context.minimum_version is ssl.TLSVersion.TLSv1_2
    # Even a server whose machine would allow it: the security level is what OpenSSL refuses it by otherwise.
    context.set_ciphers("DEFAULT:@SECLEVEL=0")
    client = trusting(authority)
    with pytest.warns(DeprecationWarning, match="TLS"):
        client.minimum_version = version
    with pytest.warns(DeprecationWarning, match="TLS"):
        client.maximum_version = version
    client.set_ciphers("DEFAULT:@SECLEVEL=0")
    with pytest.raises(ssl.SSLError, match=r"(?i)protocol|version"):
        Handshake(context, client).run()


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_tls_1_2_and_1_3_are_served(authority: TestAuthority, files: PemFiles, version: ssl.TLSVersion) -> None:
    """Over the renewed context as over the first."""
    put(files, authority.issue("first"))
    certificate = Certificate(files)
    client = trusting(authority)
    client.minimum_version = client.maximum_version = version
    client.set_alpn_protocols(["h2", "http/1.1"])
    for name in ("first", "second"):
        shaken = Handshake(certificate.context, client).run()
        assert (shaken.shown, shaken.client.selected_alpn_protocol()) == (name, "http/1.1")
        put(files, authority.issue("second"))
        certificate.reload()


CERTIFICATE, KEY = "server.tls_certificate", "server.tls_key"


def refusal(files: PemFiles) -> SettingsError:
    with pytest.raises(SettingsError) as error:
        server_context(files)
    return error.value


def test_an_unusable_file_is_named_with_the_reason(authority: TestAuthority, files: PemFiles) -> None:
    chain, key = authority.issue("one")
    _, other = authority.issue("two")
    _, locked = authority.issue("three", b"passphrase")
    broken = b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
    cases = [
        ((b"", key), CERTIFICATE, "PEM"),
        ((key, key), CERTIFICATE, "PEM"),
        ((broken, key), CERTIFICATE, "OpenSSL"),
        ((chain, b""), KEY, "private key"),
        ((chain, chain), KEY, "private key"),
        ((chain, other), KEY, "private key of the certificate"),
        ((chain, locked), KEY, "without a passphrase"),
    ]
    for pair, where, allowed in cases:
        put(files, pair)
        found = refusal(files)
        assert found.where == where
        assert found.value == str(files.certificate if where == CERTIFICATE else files.key)
        assert allowed in found.allowed


@pytest.mark.parametrize("missing", [CERTIFICATE, KEY])
def test_a_missing_file_is_named(authority: TestAuthority, files: PemFiles, missing: str) -> None:
    put(files, authority.issue("one"))
    (files.certificate if missing == CERTIFICATE else files.key).unlink()
    assert refusal(files).where == missing
    assert "No such file" in refusal(files).allowed


def settings_of(files: PemFiles) -> ServerSettings:
    text = (
        f'[server]\ntls_listen = "127.0.0.1:0"\ntls_certificate = "{files.certificate}"\ntls_key = "{files.key}"\n'
        '[origin]\nendpoint = "https://h"\n[auth]\nmode = "open"\n'
    )
    return load_settings(text, {}, {}, lambda path: "").settings.server


def test_a_key_that_everybody_can_read_is_warned_of(authority: TestAuthority, files: PemFiles) -> None:
    put(files, authority.issue("one"))
    server = settings_of(files)
    assert pem_files(server) == files
    for mode, warned in ((0o644, True), (0o640, False), (0o600, False)):
        files.key.chmod(mode)
        assert (exposed_key_warning(server) is not None) == warned
    files.key.unlink()
    assert exposed_key_warning(server) is None


@pytest.mark.parametrize(("begins", "said"), [(-1, None), (-3, "certificate has expired"), (1, "is not yet valid")])
def test_a_certificate_that_clients_refuse_is_warned_of(
    authority: TestAuthority, files: PemFiles, begins: int, said: str | None
) -> None:
    put(files, authority.issue("dated", begins=begins))
    server = settings_of(files)
    warning = expired_certificate_warning(server)
    assert (warning is None) if said is None else (said in (warning or ""))
    files.certificate.unlink()
    assert expired_certificate_warning(server) is None
