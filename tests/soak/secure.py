"""What of it goes by TLS: the certificate, and clients that trust it."""

import ssl
from pathlib import Path
from typing import Final

from harness.certificates import TestAuthority
from harness.clients import RawClient
from harness.reference_sigv4 import Secret

SHARE: Final = 0.3
"""Of the clients."""


class Secure:
    """`settings`: what the configuration's `[server]` needs for it."""

    def __init__(self, directory: Path) -> None:
        authority = TestAuthority(directory)
        certificate, key = directory / "tls.crt", directory / "tls.key"
        for file, pem in zip((certificate, key), authority.issue("soak"), strict=True):
            file.write_bytes(pem)
            file.chmod(0o600)
        self.settings = f'tls_listen = "127.0.0.1:0"\ntls_certificate = "{certificate}"\ntls_key = "{key}"'
        self._trusting = ssl.create_default_context(cafile=authority.file)

    def client(self, port: int, secret: Secret) -> RawClient:
        return RawClient(f"https://127.0.0.1:{port}", secret, tls=self._trusting)
