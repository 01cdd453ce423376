"""Certificates for tests: an authority that lasts as long as the test, and what it vouches for."""

import datetime
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

_DAY = datetime.timedelta(days=1)


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


class TestAuthority:
    """`file`: its own certificate, for `verify=`."""

    __test__ = False  # not a test, whatever its name begins with

    def __init__(self, directory: Path) -> None:
        self.file = directory / "authority.pem"
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._certificate = self._sign(
            "test authority", self._key.public_key(), x509.BasicConstraints(ca=True, path_length=None)
        )
        self.file.write_bytes(_pem(self._certificate))

    def issue(self, common: str, passphrase: bytes | None = None, *, begins: int = -1) -> tuple[bytes, bytes]:
        """The chain and the key, in PEM, of a server on this machine, named `common` to tell it from others: valid
        for two days, which begin in `begins` days."""
        key = ec.generate_private_key(ec.SECP256R1())
        leaf = self._sign(common, key.public_key(), x509.BasicConstraints(ca=False, path_length=None), begins)
        encryption = serialization.BestAvailableEncryption(passphrase) if passphrase else serialization.NoEncryption()
        pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption)
        return _pem(leaf) + _pem(self._certificate), pem

    def _sign(
        self, common: str, key: ec.EllipticCurvePublicKey, basic: x509.BasicConstraints, begins: int = -1
    ) -> x509.Certificate:
        now = datetime.datetime.now(datetime.UTC)
        names: list[x509.GeneralName] = [x509.DNSName("localhost"), x509.DNSName("forebay.internal")]
        names += [x509.IPAddress(ip_address(address)) for address in ("127.0.0.1", "::1")]
        issuer = self._key.public_key()
        return (
            x509.CertificateBuilder()
            .subject_name(_name(common))
            .issuer_name(_name("test authority"))
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now + begins * _DAY)
            .not_valid_after(now + (begins + 2) * _DAY)
            .add_extension(basic, critical=True)
            .add_extension(_key_usage(is_authority=basic.ca), critical=True)
            .add_extension(x509.SubjectAlternativeName(names), critical=False)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer), critical=False)
            .sign(self._key, hashes.SHA256())
        )


def _key_usage(*, is_authority: bool) -> x509.KeyUsage:
    """RFC 5280, 4.2.1.3: an authority without one is refused by OpenSSL's strict checks, Python 3.13's default."""
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=is_authority,
        crl_sign=is_authority,
        encipher_only=False,
        decipher_only=False,
    )


def tls_settings(directory: Path, listen: str = "127.0.0.1:0") -> str:
    """What goes under [server]; the files are those of `install`."""
    return f'tls_listen = "{listen}"\ntls_certificate = "{directory}/chain.pem"\ntls_key = "{directory}/key.pem"\n'


def install(directory: Path, pair: tuple[bytes, bytes]) -> None:
    for name, content in zip(("chain.pem", "key.pem"), pair, strict=True):
        fresh = directory / f"{name}.new"
        fresh.write_bytes(content)
        fresh.chmod(0o600)
        fresh.rename(directory / name)
