"""The TLS part of the soak: a certificate, and clients that trust it."""

import ssl
from pathlib import Path
from typing import Final

from harness.certificates import TestAuthority, install, tls_settings
from harness.clients import RawClient
from harness.rig import TRAINER

SHARE: Final = 0.3
"""Of the clients."""


class TlsClients:
    """`settings`: what the configuration's `[server]` needs for it."""

    def __init__(self, directory: Path) -> None:
        authority = TestAuthority(directory)
        install(directory, authority.issue("soak"))
        self.settings = tls_settings(directory)
        self._trusting = ssl.create_default_context(cafile=authority.file)

    def client(self, port: int) -> RawClient:
        return RawClient(f"https://127.0.0.1:{port}", TRAINER, tls=self._trusting)
