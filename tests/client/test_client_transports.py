"""The transports of a client, which its first requests make."""

from typing import Any

from forebay_client import Client
from forebay_client.client_transports import ClientTransports
from forebay_client.transport.signed_request import ObjectRequestSigner


class MetTransports(ClientTransports):
    """Another thread's first request comes while these are made."""

    met: object = None

    @property
    def _settings(self) -> Any:
        if self.met is None:
            self.met = ()
            self.met = self.make()
        return self._own_settings

    @_settings.setter
    def _settings(self, settings: Any) -> None:
        self._own_settings = settings


def test_first_requests_at_once_share_their_connections() -> None:
    with Client("http://127.0.0.1:9", access_key="a", secret_key="b") as client:
        settings = client._settings  # noqa: SLF001 # whatever they are
    transports = MetTransports(settings, ObjectRequestSigner(settings))
    made = transports.make()
    assert transports.met is made
    assert transports.make() is made
