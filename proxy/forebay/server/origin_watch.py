"""The watch over the origins: whether each it can be reached, and whether it accepts Forebay's own credential.

Forebay's own requests find out (forebay.origin.reachability, forebay.origin.credential_check): at the start and then
regularly, also while no client asks for anything.
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
        self.first_look = asyncio.Event()
        """Set once every origin has been looked at."""

    async def look(self, settings: Settings) -> None:
        """Check what is due. `settings`: in force."""
        clients = [origin.client for origin in self._origins]
        # Together: one that hangs does not keep the news of the others.
        await asyncio.gather(*map(self._look_at, clients, settings.all_origins, repeat(settings)))
        self.first_look.set()

    async def _look_at(self, client: OriginClient, origin: OriginSettings, settings: Settings) -> None:
        check = client.credential_check
        if await client.probe() and needs_own_credential(settings, origin):
            await check.check_if_due()
            self._warn_of_shared_key(settings, origin, check.access_key)

    def _warn_of_shared_key(self, settings: Settings, origin: OriginSettings, access_key: str | None) -> None:
        warning = shared_key_warning(settings, origin, access_key)
        if warning is not None and access_key != self._warned_of.get(origin.name):
            self._warned_of[origin.name] = access_key
            _log.warning("%s", warning)
