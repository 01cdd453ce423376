"""The watch over the origins: whether each can be reached, and whether it accepts Forebay's own credential.

Both are found out by probes (forebay.origin.reachability, forebay.origin.credential_check), which are sent at the start
and then regularly, also while there are no requests of clients.
"""

import asyncio
import logging
from itertools import repeat

from forebay.origin.origin_client import OriginClient
from forebay.origin.origins import Origins
from forebay.settings.model import OriginSettings, Settings
from forebay.settings.own_credential import needs_own_credential, shared_key_warning

_log = logging.getLogger(__name__)


class OriginWatch:
    """Watches one worker's origin clients."""

    def __init__(self, origins: Origins) -> None:
        self._origins = origins
        self._warned_of: dict[str, str | None] = {}
        self.first_check = asyncio.Event()
        """Set once every origin has been checked."""

    async def check(self, settings: Settings) -> None:
        """Probes every origin, and checks the credentials that are due. `settings`: in force."""
        clients = [origin.client for origin in self._origins]
        # Concurrently, so that an origin that hangs does not delay the checks of the others.
        await asyncio.gather(*map(self._check, clients, settings.all_origins, repeat(settings)))
        self.first_check.set()

    async def _check(self, client: OriginClient, origin: OriginSettings, settings: Settings) -> None:
        check = client.credential_check
        if await client.probe() and needs_own_credential(settings, origin):
            await check.check_if_due()
            self._warn_of_shared_key(settings, origin, check.access_key)

    def _warn_of_shared_key(self, settings: Settings, origin: OriginSettings, access_key: str | None) -> None:
        warning = shared_key_warning(settings, origin, access_key)
        if warning is not None and access_key != self._warned_of.get(origin.name):
            self._warned_of[origin.name] = access_key
            _log.warning("%s", warning)
